"""The self-check on the terminal: fault by clause, kill rate, false-alarm rate, and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from harness.records import SelfCheck
from harness.report.model import rate
from harness.report.text import one_line


def show(results: Sequence[SelfCheck], console: Console | None = None) -> None:
    """Print the matrix of each suite: every planted fault with the clauses that caught it."""
    out = console or Console(highlight=False, soft_wrap=True)

    def say(text: str, style: str = "") -> None:
        out.print(Text(text, style=style), soft_wrap=True)

    for result in results:
        say(f"{result.suite}: {result.cases} cases, seed {result.seed}", "bold")
        width = max((len(name) for name in result.matrix), default=0)
        for fault, clauses in result.matrix.items():
            say(f"  {fault:<{width}}  {' '.join(clauses) or 'NOT CAUGHT'}", "" if clauses else "bold red")
        say(f"  kill rate {rate(result.killed, result.faults)}, "
            f"false-alarm rate {rate(result.false_alarms, result.honest)} of the honest variants")  # fmt: skip
        for clause in result.toothless:
            say(f"  clause {clause} catches no planted fault: plant one that it catches, or delete it", "red")
        for line in result.escaped:
            say(f"  not caught as planned: {one_line(line)}", "red")
        for line in result.alarms:
            say(f"  false alarm: {one_line(line, 300)}", "red")
        say("")
