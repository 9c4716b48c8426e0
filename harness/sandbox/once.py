"""Run a program to its end, under limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from harness.sandbox.limits import Ending, Limits
from harness.sandbox.process import Program


class Completed(msgspec.Struct, frozen=True):
    """A program that has ended. ``tail`` is the end of what it printed; all of it is in the logs."""

    ending: Ending
    tail: str
    wall_s: float
    peak_bytes: int  # highest sample of the process tree; 0 where it ended before the first

    @property
    def ok(self) -> bool:
        """Whether it exited by itself with status 0."""
        return self.ending.cause == "exited" and self.ending.code == 0


def run_once(
    argv: Sequence[str],
    *,
    name: str,
    logs: Path,
    limits: Limits,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    on_line: Callable[[str], None] | None = None,
    tail_lines: int = 40,
) -> Completed:
    """Run ``argv`` until it ends or a limit ends it. ``on_line`` gets each line that it prints, as it comes.

    :raises StartFailed: it could not be started
    """
    rest: list[bytes] = [b""]

    def lines(chunk: bytes) -> None:
        assert on_line is not None
        *whole, rest[0] = (rest[0] + chunk).split(b"\n")
        for line in whole:
            on_line(line.decode("utf-8", "replace").rstrip("\r"))

    begun = time.monotonic()
    program = Program(
        argv, name=name, logs=logs, limits=limits, env=env, cwd=cwd, on_output=None if on_line is None else lines
    )
    try:
        program.begin()
        ending = program.wait()
    finally:
        program.stop()
    return Completed(ending, program.tail(tail_lines), time.monotonic() - begun, program.peak_bytes)
