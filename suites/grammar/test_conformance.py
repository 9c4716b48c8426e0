"""The clauses of the suite as test items, one for each clause and target: ``pytest suites/grammar --target NAME``."""

from __future__ import annotations

from harness.plugin import Verdict
from suites.grammar import SUITE

__all__ = ["SUITE"]  # the plugin reads it


def test_clause(verdict: Verdict) -> None:
    verdict.check()
