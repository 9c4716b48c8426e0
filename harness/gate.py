"""Gate: may we ship? Turns what was judged into an exit status and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from harness.outcome import Exit


def gate(problems: Sequence[str], new: Sequence[str]) -> Exit:
    """The exit status: an invalid run vouches for nothing, so it outranks unexpected findings.

    ``problems`` are the reasons why the run is invalid, ``new`` the signatures that no expectation covers.
    """
    if problems:
        return Exit.INVALID
    return Exit.UNEXPECTED if new else Exit.OK
