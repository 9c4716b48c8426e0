"""A program's process tree: who belongs to it, what it uses, and how to end all of it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

import psutil

from harness.sandbox.guardian import victims

LINUX: Final = sys.platform == "linux"
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
TICK: Final = 1.0 / os.sysconf("SC_CLK_TCK")
ROUNDS: Final = 100
PAUSE_S: Final = 0.01


def descendants(pid: int) -> set[int]:
    """Find the pids below ``pid``, itself not included. Those that were adopted by init are not seen here.

    On Linux the kernel's own lists of children are read, which costs microseconds where a walk over all processes
    costs milliseconds, and this is asked every 50 ms.
    """
    if not LINUX:
        with contextlib.suppress(psutil.Error):
            return {child.pid for child in psutil.Process(pid).children(recursive=True)}
        return set()
    found: set[int] = set()
    todo = [pid]
    while todo:
        parent = todo.pop()
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):  # noqa: PTH208 - hot
                with contextlib.suppress(OSError):
                    children = {int(c) for c in _read(f"/proc/{parent}/task/{task}/children").split()} - found
                    found |= children
                    todo += children
    return found


def usage(pid: int) -> tuple[int, float]:
    """Resident bytes, and CPU seconds (user and system), of one process; (0, 0.0) where it is gone.

    On Linux the CPU seconds hold those of its children that have ended and were waited for.
    """
    if not LINUX:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            times = process.cpu_times()
            return process.memory_info().rss, times.user + times.system
        return 0, 0.0
    try:
        pages = int(_read(f"/proc/{pid}/statm").split(None, 2)[1])
        stat = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except (OSError, IndexError):
        return 0, 0.0
    return pages * PAGE, sum(map(int, stat[11:15])) * TICK  # utime stime cutime cstime


def alive(pid: int) -> bool:
    """Whether the process is there and is no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process group; one that is gone is fine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def kill_all(leader: int, mark: str) -> int:
    """Kill a program's group, its descendants, and whatever carries its mark; returns how many had left the group.

    Looks again until nothing is left: a process that forks while it is being killed has children that carry its mark.
    """
    signal_group(leader, signal.SIGKILL)
    escaped: set[int] = set()
    for _ in range(ROUNDS):
        left = victims({leader}, {mark})
        if not left:
            break
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getpgid(pid) != leader:
                    escaped.add(pid)
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_S)
    return len(escaped)


def oom_kills() -> int:
    """How often the operating system has ended a process because memory ran out; 0 where it does not say."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_bytes().splitlines():
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
    return 0


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - hot
        return file.read()
