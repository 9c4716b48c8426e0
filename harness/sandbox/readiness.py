"""Wait until a program answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from harness.sandbox.errors import NotReady
from harness.sandbox.process import Program

FIRST_PAUSE_S: Final = 0.01
LONGEST_PAUSE_S: Final = 0.25


def wait_ready(program: Program, probe: Callable[[], bool], timeout_s: float) -> None:
    """Ask ``probe`` until it says yes.

    :raises NotReady: the program ended first, or ``timeout_s`` seconds have passed; the message holds the log's end
    """
    deadline = time.monotonic() + timeout_s
    pause = FIRST_PAUSE_S
    while program.running:
        if probe():
            return
        if time.monotonic() > deadline:
            program.stop()
            raise NotReady(f"{program.name} was not ready within {timeout_s:g} s. {_said(program)}")
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)
    raise NotReady(f"{program.name} {program.ending()} before it was ready. {_said(program)}")


def _said(program: Program) -> str:
    tail = program.tail()
    return f"Its last lines:\n{tail}" if tail else "It printed nothing."
