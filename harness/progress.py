"""Progress for a person: a bar with rate and time left on a terminal, plain lines where output is piped."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from harness.run import Events


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s")


class Reporter:
    """Writes to standard error, so that standard output stays for results. ``quiet`` says nothing at all."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet, highlight=False)
        self._live = self._console.is_terminal and not quiet
        self._bars: dict[str, int] = {}
        self._lock = threading.Lock()
        self._said = ""
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._live,
            transient=True,
        )

    @property
    def events(self) -> Events:
        """What a run tells us."""
        return Events(self._stage, self.observed)

    def _stage(self, text: str) -> None:
        if text == self._said:
            return
        self._said = text
        self._console.print(Text(text), style="dim", soft_wrap=True)

    def observed(self, target: str, done: int, total: int) -> None:
        """Move one target's bar."""
        if not self._live:
            return
        with self._lock:
            if target not in self._bars:
                self._bars[target] = self._progress.add_task(target, total=total)
            self._progress.update(self._bars[target], completed=done)  # type: ignore[arg-type]
            if done == total:
                self._progress.refresh()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
        sys.stderr.flush()
