"""The guardian: one small process that ends what a dead harness left running.

It reads one JSON object a line on stdin, from the harness that started it:
``{"add": "program", "mark": "...", "pid": 7}``,
``{"add": "folder", "path": "/tmp/x"}``, and the same with ``drop``. When the pipe closes (the harness ended, however),
it kills the registered process groups, every process that carries a registered mark in its environment, and their
descendants, removes the registered folders, and ends. Standard library only; nothing of the harness is imported.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

MARK = "AFERE_SANDBOX"
"""Environment variable by which a process is known as started by a sandbox, even after it left its group."""

LINUX = sys.platform == "linux"
ROUNDS = 200  # a fork bomb may need several; each round kills all that were there when it began
PAUSE_S = 0.02


def processes() -> dict[int, tuple[int, str]]:
    """Map the pid of every process that this user may look at to (parent pid, mark or "")."""
    if LINUX:
        return dict(_linux())
    out = subprocess.run(["ps", "-axEww", "-o", "pid=,ppid=,command="], capture_output=True, text=True, check=False)
    found = {}
    for line in out.stdout.splitlines():
        pid, parent, rest = (*line.split(None, 2), "", "")[:3]
        mark = next((w.split("=", 1)[1] for w in rest.split() if w.startswith(MARK + "=")), "")
        found[int(pid)] = (int(parent), mark)
    return found


def _linux() -> list[tuple[int, tuple[int, str]]]:
    found = []
    prefix = MARK.encode() + b"="
    for entry in os.listdir("/proc"):  # noqa: PTH208 - hot, and no Path object is needed
        if not entry.isdigit():
            continue
        try:
            stat = Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()
            if stat[0] == b"Z":
                continue
            environ = Path(f"/proc/{entry}/environ").read_bytes()
        except OSError:
            continue
        mark = next((v[len(prefix) :] for v in environ.split(b"\0") if v.startswith(prefix)), b"")
        found.append((int(entry), (int(stat[1]), mark.decode("ascii", "replace"))))
    return found


def victims(pids: set[int], marks: set[str]) -> set[int]:
    """Find the registered processes that are there, those with a registered mark, and all descendants of both."""
    table = processes()
    chosen = {pid for pid, (_, mark) in table.items() if mark in marks or pid in pids}
    grown = True
    while grown:
        more = {pid for pid, (parent, _) in table.items() if parent in chosen} - chosen
        chosen |= more
        grown = bool(more)
    return chosen - {os.getpid()}


def end(pids: set[int], marks: set[str]) -> None:
    """Kill until a look finds nothing."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
    for _ in range(ROUNDS):
        left = victims(pids, marks)
        if not left:
            return
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_S)


def main() -> None:
    """Keep the register until the harness is gone, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they are meant for the harness; its end is what we wait for
    programs: dict[str, int] = {}
    folders: set[str] = set()
    for line in sys.stdin.buffer:
        try:
            order = json.loads(line)
        except ValueError:
            continue  # the harness died in the middle of a line
        if order.get("add") == "program":
            programs[order["mark"]] = order["pid"]  # 0 until it has been started
        elif order.get("drop") == "program":
            programs.pop(order["mark"], None)
        elif order.get("add") == "folder":
            folders.add(order["path"])
        elif order.get("drop") == "folder":
            folders.discard(order["path"])
    if programs:
        end({pid for pid in programs.values() if pid}, set(programs))
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
