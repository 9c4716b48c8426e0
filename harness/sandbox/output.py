"""What a program prints: kept up to a cap, counted beyond it, and never able to block the program."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

CHUNK: Final = 1 << 16
TAIL: Final = 1 << 13  # bytes of the end that are kept in memory, for error messages
WIDTH: Final = 300  # characters of a line that are shown


class Pump:
    """Copies a pipe to a log file in a thread: the first ``keep`` bytes as they come, and the tail at the end."""

    def __init__(self, pipe: IO[bytes], path: Path, keep: int, seen: Callable[[bytes], None]) -> None:
        self._pipe, self._path, self._keep, self._seen = pipe, path, keep, seen
        self._tail = b""
        self._total = 0
        self._marked = 0
        self._thread = threading.Thread(target=self._work, name=f"log {path.name}", daemon=True)
        self._thread.start()

    @property
    def total(self) -> int:
        """Bytes printed so far."""
        return self._total

    def mark(self) -> None:
        """Begin a new request: what was printed before is not part of its tail."""
        self._marked = self._total

    def tail(self, lines: int = 12) -> str:
        """Return the last lines printed since the mark, each cut to a readable width."""
        fresh = min(self._total - self._marked, len(self._tail))
        text = self._tail[len(self._tail) - fresh :].decode("utf-8", "replace")
        return "\n".join(line[:WIDTH] for line in text.splitlines()[-lines:])

    def join(self, timeout_s: float = 5.0) -> None:
        """Wait until the program's end of the pipe is closed and all of it is filed."""
        self._thread.join(timeout_s)

    def _work(self) -> None:
        left = self._keep
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), CHUNK):
                self._total += len(chunk)
                self._tail = (self._tail + chunk)[-TAIL:]
                if left:
                    with self._path.open("ab") as log:
                        log.write(chunk[:left])
                left = max(0, left - len(chunk))
                self._seen(chunk)
        if self._total > self._keep:
            end = self._tail[-(self._total - self._keep) :]
            dropped = self._total - self._keep - len(end)
            with self._path.open("ab") as log:
                log.write(b"\n[Afere kept %d bytes, dropped %d, and here is the end]\n" % (self._keep, dropped) + end)
