"""One thread looks at all running programs: resident memory, CPU time, deadlines. It ends the one over its limit."""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

from harness.sandbox.limits import IDLE_SAMPLE_S, SAMPLE_S


class Watched(Protocol):
    """What the meter looks at."""

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""

    def look(self, now: float) -> None:
        """Take a sample and act on it. Must not raise."""


class Meter:
    """The sampling thread. It sleeps while nothing is watched, and looks more rarely where no request is under way."""

    def __init__(self) -> None:
        self._wake = threading.Condition()
        self._watched: tuple[Watched, ...] = ()
        self._thread: threading.Thread | None = None

    def add(self, watched: Watched) -> None:
        """Begin to watch."""
        with self._wake:
            self._watched += (watched,)
            if self._thread is None or not self._thread.is_alive():  # not alive: this is the child of a fork
                self._thread = threading.Thread(target=self._work, name="sandbox meter", daemon=True)
                self._thread.start()
            self._wake.notify()

    def drop(self, watched: Watched) -> None:
        """Stop watching."""
        with self._wake:
            self._watched = tuple(w for w in self._watched if w is not watched)

    def _work(self) -> None:
        idle_since_look = 0.0
        while True:
            with self._wake:
                while not self._watched:
                    self._wake.wait()
                watched = self._watched
            now = time.monotonic()
            for one in watched:
                if one.busy or idle_since_look >= IDLE_SAMPLE_S:
                    one.look(now)
            idle_since_look = 0.0 if idle_since_look >= IDLE_SAMPLE_S else idle_since_look + SAMPLE_S
            time.sleep(SAMPLE_S)


METER: Final = Meter()
