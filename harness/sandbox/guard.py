"""The harness's end of the guardian: register what must not outlive us."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Final

GUARDIAN: Final = Path(__file__).with_name("guardian.py")


class Guard:
    """Keeps one guardian process per harness process, and starts another where it was killed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._marks: dict[str, int] = {}
        self._folders: set[str] = set()

    def add_program(self, mark: str, pid: int = 0) -> None:
        """Register a program by the mark that its processes carry, before it starts; again with its pid after that."""
        with self._lock:
            self._marks[mark] = pid
            self._tell({"add": "program", "mark": mark, "pid": pid})

    def drop_program(self, mark: str) -> None:
        """Take a program off the register: it has ended, and all of its processes."""
        with self._lock:
            self._marks.pop(mark, None)
            self._tell({"drop": "program", "mark": mark})

    def add_folder(self, path: Path) -> None:
        """Register a temporary folder."""
        with self._lock:
            self._folders.add(str(path))
            self._tell({"add": "folder", "path": str(path)})

    def drop_folder(self, path: Path) -> None:
        """Take a folder off the register: it was removed."""
        with self._lock:
            self._folders.discard(str(path))
            self._tell({"drop": "folder", "path": str(path)})

    @property
    def pid(self) -> int | None:
        """The guardian's pid, None before the first registration."""
        return None if self._process is None else self._process.pid

    def forget(self) -> None:
        """Let go of the guardian, in the child of a fork: a copy of its pipe must not keep it waiting."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                os.close(process.stdin.fileno())
            process.returncode = 0  # not ours to wait for
        self._marks, self._folders, self._lock = {}, set(), threading.Lock()

    def close(self) -> None:
        """At the harness's regular end: let the guardian clean up what is still registered, and wait for it."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                with contextlib.suppress(OSError):
                    process.communicate()

    def _tell(self, order: dict[str, object]) -> None:
        if self._process is not None:
            try:
                self._write(self._process.stdin, order)
            except OSError:
                self._process.wait()  # it was killed; the next one is told everything
            else:
                return
        self._process = self._start()
        for mark, pid in self._marks.items():
            self._write(self._process.stdin, {"add": "program", "mark": mark, "pid": pid})
        for path in self._folders:
            self._write(self._process.stdin, {"add": "folder", "path": path})

    @staticmethod
    def _write(pipe: IO[bytes] | None, order: dict[str, object]) -> None:
        assert pipe is not None
        pipe.write(json.dumps(order).encode() + b"\n")
        pipe.flush()

    @staticmethod
    def _start() -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C at the terminal must not reach it. No output of ours: a pipe that reads the
        # harness's output must see its end when the harness ends.
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(GUARDIAN)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )


GUARD: Final = Guard()
os.register_at_fork(after_in_child=GUARD.forget)
atexit.register(GUARD.close)
