"""What can go wrong before a foreign program answers. The messages say whose fault it is and what to look at."""

from __future__ import annotations


class StartFailed(Exception):  # noqa: N818 - says what happened
    """The program could not be started at all: not found, not executable, or it ended at once."""


class NotReady(Exception):  # noqa: N818 - says what happened
    """The program started and did not become ready: it ended early, or the time for it ran out."""
