"""The summary on the terminal. Its last lines say what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.outcome import Exit, Status
from harness.report.model import EXIT_WORDS, LEVELS, RunReport, plural, rate
from harness.report.text import brief, one_line

if TYPE_CHECKING:
    from rich.console import Console

_MOOD: Final[dict[int, str]] = {Exit.OK: "bold green", Exit.UNEXPECTED: "bold red"}
_SHOWN: Final = 10


def show(report: RunReport, paths: Mapping[str, Path], console: Console | None = None, *, quiet: bool = False) -> None:
    """Print the summary of a run to ``console`` (standard output by default; no colour when that is piped).

    ``paths`` is what :func:`harness.report.write` returned. ``quiet`` leaves the headline and what to do next.
    """
    from rich.console import Console
    from rich.text import Text

    out = console or Console(highlight=False, soft_wrap=True)

    def say(text: str, style: str = "") -> None:
        # Text, never markup: a payload may hold square brackets.
        out.print(Text(_fit(text, out), style=style), soft_wrap=True)

    if not quiet:
        _standings(report, out)
        for finding in report.new[:_SHOWN]:
            say("")
            say(f"NEW  {one_line(finding.title)}", "bold red")
            targets, clauses = (", ".join(map(one_line, names[:6])) for names in (finding.targets, finding.clauses))
            say(f"     on {targets}; {clauses}")
            say(f"     expected {brief(finding.expected, 160)}")
            say(f"     got      {brief(finding.got, 160)}")
        if len(report.new) > _SHOWN:
            say(f"     and {len(report.new) - _SHOWN} more in the report")
        if report.new:
            say("")
        for finding in report.known[:_SHOWN]:
            say(f"known  {one_line(finding.title)}  ({one_line(finding.known, 100)})", "dim")
        if len(report.known) > _SHOWN:
            say(f"       and {len(report.known) - _SHOWN} more known", "dim")
        for target in report.targets:
            if report.absent(target):
                say(f"not asked  {one_line(target)}: {one_line(report.absent(target))}", "yellow")
        if report.selfcheck:
            kills = rate(sum(c.killed for c in report.selfcheck), sum(c.faults for c in report.selfcheck))
            alarms = rate(sum(c.false_alarms for c in report.selfcheck), sum(c.honest for c in report.selfcheck))
            say(f"self-check  kill rate {kills}, false alarms {alarms}", "dim")
        else:
            say("self-check  not measured (afere selfcheck)", "dim")
        for problem in report.problems[1:]:
            say(f"problem  {one_line(problem)}", "yellow")
        for signature in report.summary.stale:
            say(f"stale expectation  {one_line(signature)}", "yellow")
        say("")
    say(f"{one_line(report.headline(), 500)}", _MOOD.get(report.exit, "bold yellow"))
    say(f"{plural(report.summary.cases, 'case')}, {plural(report.summary.observations, 'observation')}; "
        f"exit status {int(report.exit)}: {EXIT_WORDS[report.exit]}")  # fmt: skip
    path = paths.get("html") or next(iter(paths.values()), None)
    if path is not None:
        say(f"Report: {path}")
    if report.new:
        say(f"Replay the first new finding: {one_line(report.new[0].replay, 2_000)}")


def _standings(report: RunReport, out: Console) -> None:
    """Per target and level: clauses passed of clauses judged. Symbols are left out: not every terminal has them."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    standings = report.standings()
    levels = [level for level in LEVELS if any(level in s.levels for s in standings)] or ["MUST"]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="clauses passed of clauses judged", title_justify="left")
    longest = max((len(one_line(s.target)) for s in standings), default=0)
    table.add_column("target", overflow="fold", width=max(min(longest, out.width * 45 // 100), 8))
    for name in levels:
        table.add_column(name, no_wrap=True, justify="right")
    table.add_column("in words", overflow="fold")
    for standing in standings:
        row = [Text(_fit(one_line(standing.target), out))]
        for level in levels:
            passed, judged = standing.count(level, Status.PASS), standing.judged(level)
            unexpected = judged - passed > standing.known.get(level, 0)
            style = "red" if unexpected else "yellow" if judged > passed else "green"
            row.append(Text(f"{passed}/{judged}", style=style) if judged else Text("-", style="dim"))
        table.add_row(*row, Text(_fit(one_line(standing.sentence), out)))
    out.print(table)


def _fit(text: str, out: Console) -> str:
    """Text that the terminal's encoding can hold: a C locale must not end a run with an encoding error."""
    return text.encode(out.encoding, "backslashreplace").decode(out.encoding)
