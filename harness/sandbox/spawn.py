"""The thread that starts programs.

Linux sends the parent-death signal when the *thread* that forked ends, so every program is started by one thread that
lives as long as this process; a caller's own thread may end while the program runs on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

LAUNCH: Final = Path(__file__).with_name("launch.py")

_pool: list[ThreadPoolExecutor] = []


def spawn(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path, *, stdin: bool, address_space: int | None
) -> subprocess.Popen[bytes]:
    """Start ``argv`` in a session of its own, with pipes, limits set in the child before it runs."""
    if not _pool:
        _pool.append(ThreadPoolExecutor(1, "sandbox spawner"))
    prefix = [sys.executable, "-I", "-S", str(LAUNCH), str(os.getpid()), str(address_space or 0)]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*prefix, *argv],
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )

    future: Future[Any] = _pool[0].submit(start)
    process: subprocess.Popen[bytes] = future.result()
    return process


os.register_at_fork(after_in_child=_pool.clear)
