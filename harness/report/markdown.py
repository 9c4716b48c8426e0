"""Markdown for a pull request: the verdict first, then what is new, then the rest, within what a comment may hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from harness.outcome import Status
from harness.records import Finding
from harness.report.model import EXIT_WORDS, LEVELS, RunReport, plural, rate
from harness.report.text import cut, flatten, one_line, pretty, visible

BUDGET: Final = 65_000
"""Characters in all. GitHub refuses a comment of more than 65,536."""

SYMBOL: Final[dict[Status | None, str]] = {
    Status.PASS: "✓",
    Status.FAIL: "✗",
    Status.ERROR: "!",
    Status.UNSUPPORTED: "∅",
    Status.BLOCKED: "‖",
    Status.SKIPPED: "»",
    Status.UNKNOWN: "?",
    None: "·",
}

_PAYLOAD: Final = 1_500
_SCRIPT: Final = 4_000
_RESERVE: Final = 600  # characters kept free for the note that says what was left out


def write(report: RunReport, out: BinaryIO) -> None:
    """Write the report as GitHub-flavoured Markdown (UTF-8), at most :data:`BUDGET` characters."""
    out.write(render(report).encode())


def render(report: RunReport, budget: int = BUDGET) -> str:
    """The whole text. Of each block the longest form that still fits is taken; what fits in no form is counted."""
    text, shortened, left_out = "", 0, 0
    for forms in _blocks(report):
        room = budget - _RESERVE - len(text)
        chosen = next((form for form in forms if len(form) <= room), None)
        text += chosen or ""
        shortened += chosen is not None and chosen is not forms[0]
        left_out += chosen is None
    if shortened or left_out:
        text += (
            f"\n> **Cut to {budget:,} characters:** {plural(shortened, 'block')} shortened, {left_out:,} left out. "
            "`report.html` shows more and `report.ndjson` all.\n"
        )
    return text


def _blocks(report: RunReport) -> Iterator[tuple[str, ...]]:
    """The blocks in order of interest, each as one or more forms, longest first."""
    mark = {0: "✅", 1: "❌"}.get(report.exit, "⚠️")
    size = f"{plural(report.summary.cases, 'case')}, {plural(report.summary.observations, 'observation')}"
    status = f"Exit status {int(report.exit)}: {EXIT_WORDS[report.exit]}."
    yield (f"## {mark} {inline(report.headline())}\n\nRun `{_code(report.header.run)}`, {size}. {status}\n\n",)
    if report.problems:
        problems = "".join(f"- {inline(p)}\n" for p in report.problems[:50])
        yield (f"**Why the run is invalid**\n\n{problems}\n",)
    if report.summary.stale:
        stale = "".join(f"- `{_code(s)}`\n" for s in report.summary.stale[:50])
        yield (f"**Expectations whose witness no longer shows the finding**\n\n{stale}\n",)
    yield (_standings(report),)
    yield (_selfcheck(report),)
    if report.new:
        yield (f"### New ({len(report.new)})\n\n",)
        for finding in report.new:
            yield _finding(finding), _line(finding)
    if report.known:
        yield (f"### Known ({len(report.known)})\n\n",)
        for finding in report.known:
            yield (_line(finding),)
    for block in (*_matrix(report), *_environment(report)):
        yield (block,)


def _standings(report: RunReport) -> str:
    rows = ["| target | MUST | SHOULD | MAY | AGREE | in words |", "|---|---|---|---|---|---|"]
    for standing in report.standings():
        levels = [", ".join(f"{n} {s}" for s in Status if (n := standing.count(level, s))) or "-" for level in LEVELS]
        rows.append(f"| `{_column(standing.target)}` | {' | '.join(levels)} | {inline(standing.sentence)} |")
    return "### Who conforms\n\n" + "\n".join(rows) + "\n\n"


def _finding(finding: Finding) -> str:
    where = " → ".join(inline(p) for p in (finding.stage, finding.field, finding.change) if p) or "not recorded"
    expected, got = pretty(finding.expected, _PAYLOAD), pretty(finding.got, _PAYLOAD)
    script = cut(visible(finding.script[:_SCRIPT]), _SCRIPT, len(finding.script))
    return (
        f"#### {inline(finding.title)}\n\n"
        f"On {_names(finding.targets)}; clauses {_names(finding.clauses)}; {plural(finding.cases, 'case')} of suite "
        f"{inline(finding.suite)}. First difference: {where}.\n\n"
        f"Expected\n\n{fence(expected, 'json')}\nGot\n\n{fence(got, 'json')}\n"
        f"Replay: `{_code(finding.replay)}`\n\n"
        "<details><summary>Smallest case and script</summary>\n\n"
        f"{fence(pretty(finding.witness.input, _PAYLOAD), 'json')}{fence(script, 'sh') if script else ''}\n"
        "</details>\n\n"
    )


def _line(finding: Finding) -> str:
    reason = f" Reason: {inline(finding.known)}." if finding.known else ""
    return f"- {inline(finding.title)}. On {_names(finding.targets)}.{reason} `{_code(finding.replay)}`\n"


def _selfcheck(report: RunReport) -> str:
    if not report.selfcheck:
        return "Self-check: not measured for this version. Measure it with `afere selfcheck`.\n\n"
    rows = [
        f"- {inline(check.suite)}: kill rate {rate(check.killed, check.faults)}, "
        f"false alarms {rate(check.false_alarms, check.honest)}"
        + (f", **toothless clauses: {_names(check.toothless)}**" if check.toothless else "")
        for check in report.selfcheck
    ]
    return "### Self-check of the judge\n\n" + "\n".join(rows) + "\n\n"


def _matrix(report: RunReport) -> Iterator[str]:
    cells = report.cells()
    targets = [t for t in report.targets if any(target == t for _, target in cells)]
    if not targets:
        return
    rows = [
        f"| clause | level | {' | '.join(f'`{_column(t)}`' for t in targets)} |",
        "|---|---|" + "---|" * len(targets),
    ]
    for clause in report.all_clauses():
        row = [cells.get((clause.id, target)) for target in targets]
        if any(row):
            shown = [
                " "
                if cell is None
                else f"{SYMBOL[None]} not judged"
                if cell.untouched
                else f"{SYMBOL[cell.status]} {cell.status}{' (known)' if cell.known else ''}"
                for cell in row
            ]
            rows.append(f"| {inline(clause.id)} | {inline(clause.level)} | {' | '.join(shown)} |")
    yield "\n<details><summary>Clause by target</summary>\n\n" + "\n".join(rows) + "\n\n</details>\n\n"


def _environment(report: RunReport) -> Iterator[str]:
    rows = flatten({"afere": report.header.afere, "started": report.header.started, **report.header.environment})
    for target in report.header.targets:
        rows.extend(
            (f"{target.name}: {key}", value) for key, value in flatten({**target.reports, "limits": target.limits})
        )
    table = "\n".join(f"| {inline(k)} | {inline(v)} |" for k, v in rows[:200])
    yield f"<details><summary>Environment and limits</summary>\n\n| what | value |\n|---|---|\n{table}\n\n</details>\n"


def inline(text: str) -> str:
    """Text that is safe in a table cell, a heading or a list: one line, no markup, no mention, no link."""
    flat = one_line(text, 400).replace("&", "&amp;").replace("<", "&lt;")
    escaped = re.sub(r"([\\`*_\[\]#|~>]|^[-+])", r"\\\1", flat)
    # A zero-width joiner is the only thing that stops GitHub from notifying people whose name stands in a payload.
    return re.sub(r"(?<!\w)@(?=\w)", "@\u200d", escaped)


def fence(text: str, language: str = "") -> str:
    """A fenced block whose fence is longer than any run of backticks inside it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    bar = "`" * max(3, longest + 1)
    return f"{bar}{language}\n{text}\n{bar}\n"


def _code(text: str) -> str:
    return one_line(text, 300).replace("`", "'")


def _column(text: str) -> str:
    return _code(text).replace("|", "\\|")


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(f"`{_code(n)}`" for n in names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")
