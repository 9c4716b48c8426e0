"""The outcome classes of an observation and the verdict algebra: worst wins, and nothing becomes a pass by accident."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, StrEnum


class Outcome(StrEnum):
    """What a target did with a case. Says nothing about whether that is right."""

    ANSWERED = "answered"
    REFUSED = "refused"  # cleanly and on purpose: a 4xx, a ValueError that names the input
    FAILED = "failed"  # a 5xx, an exception nobody meant, an answer that breaks the protocol
    CRASHED = "crashed"  # the process ended
    TIMED_OUT = "timed_out"  # the wall-clock or CPU limit was reached
    OUT_OF_MEMORY = "out_of_memory"  # the memory limit was reached
    UNSUPPORTED = "unsupported"  # outside the target's capabilities, said before or instead of trying


class Status(StrEnum):
    """Judgement of one observation under one clause."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    FAIL = "fail"
    ERROR = "error"  # the harness or the suite is at fault
    UNSUPPORTED = "unsupported"
    BLOCKED = "blocked"  # a prerequisite failed, so nothing can be said
    SKIPPED = "skipped"  # on purpose; the verdict carries the reason
    UNKNOWN = "unknown"  # nothing was judged


# Best to worst. "unknown" is worse than "pass": a merge in which something was not judged is not a pass.
# "error" is worst: while the harness is at fault it can vouch for nothing, not even for a failure.
SEVERITY: dict[Status, int] = {
    Status.PASS: 0,
    Status.UNSUPPORTED: 1,
    Status.SKIPPED: 2,
    Status.UNKNOWN: 3,
    Status.BLOCKED: 4,
    Status.FAIL: 5,
    Status.ERROR: 6,
}


def worst(statuses: Iterable[Status]) -> Status:
    """Merge verdicts: the worst wins. Nothing to merge is ``unknown``, never ``pass``."""
    return max(statuses, key=SEVERITY.__getitem__, default=Status.UNKNOWN)


class Exit(IntEnum):
    """The exit status of every ``afere`` command that judges."""

    OK = 0  # nothing unexpected
    UNEXPECTED = 1  # unexpected findings
    INVALID = 2  # the run is invalid or incomplete
    USAGE = 3  # wrong use: options, configuration, files
