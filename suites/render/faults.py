"""Planted faults and honest variants."""

from __future__ import annotations

from harness.suite import Fault

FAULTS: tuple[Fault, ...] = ()
