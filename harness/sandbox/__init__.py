"""Running foreign programs: own process groups, limits that are in force, logs, and nothing left behind."""

from __future__ import annotations

from harness.sandbox.errors import NotReady, StartFailed
from harness.sandbox.limits import Ending, Limits, limits_in_force
from harness.sandbox.once import Completed, run_once
from harness.sandbox.ports import free_port
from harness.sandbox.process import Program
from harness.sandbox.readiness import wait_ready

__all__ = [
    "Completed",
    "Ending",
    "Limits",
    "NotReady",
    "Program",
    "StartFailed",
    "free_port",
    "limits_in_force",
    "run_once",
    "wait_ready",
]
