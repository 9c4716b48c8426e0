"""The command line with the toy suite and a target that stops and waits at a case, for tests that end a run.

``python -m suites.selfcheck.gated WORDS...``. The environment says where to stop: ``AFERE_GATE`` is "case number:file
descriptor to tell:file descriptor to wait on". At that case the target ``toy-gated`` writes one byte and waits for the
other end to close, so that a test needs no clock to know where the run is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from harness import cli, suite
from harness.records import Json
from harness.suite import Session, TargetKind, TargetName
from harness.targets.base import InProcess, Target
from suites.selfcheck.toy import Toy, honest


class Gate:
    """Counts the cases and waits at one of them."""

    def __init__(self) -> None:
        self._at, self._tell, self._wait = (int(n) for n in os.environ.get("AFERE_GATE", "-1:-1:-1").split(":"))
        self._seen = 0

    def __call__(self, input: dict[str, Json], arrays: object) -> Json:  # noqa: A002
        """Answer as the honest toy does."""
        if self._seen == self._at:
            os.write(self._tell, b".")
            os.read(self._wait, 1)
        self._seen += 1
        return honest(input, arrays)


class Gated(Toy):
    """The toy suite with one more target."""

    default_targets = ("toy-gated", "toy-folded")

    def kinds(self) -> Mapping[str, TargetKind]:
        """Those of the toy, and the one that waits."""

        def build(name: TargetName, _session: Session) -> Target:
            return InProcess(str(name), {"add": Gate()})

        return {**super().kinds(), "toy-gated": TargetKind("toy-gated", "waits", build, embedded=True)}


def main() -> None:
    """Run the command line with this suite as the only one."""
    suite._load = lambda: ({"toy": Gated()}, {})  # type: ignore[assignment]
    cli.main()


if __name__ == "__main__":
    main()
    sys.exit()
