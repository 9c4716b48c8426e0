"""The limits a foreign program runs under, the mechanism behind each, and how a program ended."""

from __future__ import annotations

import signal
import sys
from typing import Final

import msgspec

SAMPLE_S: Final = 0.05
"""Seconds between two looks at a program that has a request under way."""

IDLE_SAMPLE_S: Final = 0.5
"""Seconds between two looks at a program that has none."""

MIB: Final = 1 << 20


class Limits(msgspec.Struct, frozen=True):
    """What a program may use. None means no limit of that kind.

    ``wall_s`` and ``cpu_s`` count per request, ``memory_bytes`` at any moment, ``output_bytes`` over the program's
    life. ``log_bytes`` bounds what is kept on disk of stdout and of stderr each; what is beyond is counted, not kept.
    """

    wall_s: float | None = 30.0
    cpu_s: float | None = None
    memory_bytes: int | None = 4096 * MIB
    output_bytes: int | None = 256 * MIB
    log_bytes: int = 4 * MIB
    reply_bytes: int = 64 * MIB  # one answer: a protocol line, or the body of an HTTP response
    address_space_bytes: int | None = (
        None  # RLIMIT_AS: not resident memory; many runtimes reserve far more than they use
    )
    grace_s: float = 3.0  # between asking a program to end and ending it


class Ending(msgspec.Struct, frozen=True):
    """How a program ended.

    ``cause`` is one of: ``exited`` (by itself, with ``code``), ``signalled`` (by a signal that was not ours),
    ``stopped`` (by us, as planned), ``wall``, ``cpu``, ``memory``, ``output`` (by us, that limit was reached), or
    ``system_memory`` (by the operating system, which ran out of memory).
    """

    cause: str
    code: int | None = None
    signal: str = ""
    detail: str = ""

    def __str__(self) -> str:
        """One clause of a sentence: "the program ..."."""
        match self.cause:
            case "exited":
                return f"exited with status {self.code}"
            case "signalled":
                return f"was ended by {self.signal}"
            case "stopped":
                return "was stopped by Afere"
            case "system_memory":
                return f"was ended by the operating system, out of memory ({self.detail})"
            case _:
                return f"was stopped by Afere at its {self.cause} limit ({self.detail})"


def limits_in_force(limits: Limits) -> dict[str, str]:
    """Each limit with the mechanism that enforces it on this platform, for the header of a run.

    >>> limits_in_force(Limits(wall_s=2.0))["wall"]
    '2 s a request, watchdog every 50 ms, ends the process tree'
    """
    every = f"every {SAMPLE_S * 1000:.0f} ms"
    tree = "/proc" if sys.platform == "linux" else "psutil"
    table: dict[str, tuple[float | None, str]] = {
        "wall": (limits.wall_s, f"s a request, watchdog {every}, ends the process tree"),
        "cpu": (limits.cpu_s, f"s a request, user and system time of the process tree sampled {every} ({tree})"),
        "memory": (_mib(limits.memory_bytes), f"MiB, resident memory of the process tree sampled {every} ({tree})"),
        "output": (_mib(limits.output_bytes), "MiB in the program's life, counted by the reader of its pipes"),
        "log": (_mib(limits.log_bytes), "MiB kept of stdout and stderr each, the rest is counted and dropped"),
        "reply": (_mib(limits.reply_bytes), "MiB an answer, counted while it is read"),
        "address space": (_mib(limits.address_space_bytes), "MiB, RLIMIT_AS"),
    }
    said = {name: "none" if value is None else f"{value:g} {how}" for name, (value, how) in table.items()}
    said["core dumps"] = "none, RLIMIT_CORE"
    said["left behind"] = "process groups, descendants and temporary folders are ended by Afere, or by its guardian"
    return said


def ending_of(returncode: int) -> Ending:
    """Read a ``Popen`` return code that no limit of ours explains."""
    if returncode >= 0:
        return Ending("exited", code=returncode)
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return Ending("signalled", code=returncode, signal=name)


def _mib(size: int | None) -> float | None:
    return None if size is None else size / MIB
