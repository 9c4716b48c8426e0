"""One HTML file for people: self-contained, offline, below a size budget, safe whatever the payloads hold.

This module turns the report into a view (plain records of strings that are already bounded); ``template.html.j2`` lays
it out and escapes all of it. Reading needs no script; the script filters, copies and switches the theme.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from itertools import groupby
from typing import Any, BinaryIO, Final

import msgspec

from harness.outcome import Status
from harness.records import Clause, Finding, TargetInfo, digest
from harness.report.markdown import SYMBOL
from harness.report.model import EXIT_WORDS, LEVELS, Cell, RunReport, family, plural, rate
from harness.report.plots import Plot, plots, spreads_by_clause
from harness.report.text import cut, flatten, one_line, pretty, visible

SIZE: Final = 2_000_000
"""Bytes of the file, at most."""


class Budget(msgspec.Struct, frozen=True):
    """How much of each thing a page may show."""

    payload: int  # characters of one payload
    script: int  # characters of one script
    findings: int
    plots: int
    rows: int  # clauses in the matrix
    columns: int  # targets anywhere
    label: int  # characters of one sentence or title


# From the whole to the bare: the largest payloads go first, then plots, then findings, then rows of the matrix.
BUDGETS: Final = (
    Budget(20_000, 12_000, 2_000, 60, 2_000, 200, 600),
    Budget(5_000, 6_000, 2_000, 60, 2_000, 200, 600),
    Budget(1_200, 3_000, 1_000, 30, 1_000, 100, 400),
    Budget(400, 1_500, 400, 8, 500, 60, 300),
    Budget(200, 600, 100, 0, 200, 30, 200),
    Budget(80, 200, 20, 0, 60, 12, 100),
)


class FindingView(msgspec.Struct, frozen=True):
    """A finding as the page shows it. Every string is bounded and visible; none is escaped yet."""

    anchor: str
    title: str
    state: str  # "new" or "known"
    reason: str
    suite: str
    status: str
    symbol: str
    level: str
    stage: str
    field: str
    change: str
    culprit: tuple[str, ...]
    clauses: tuple[Clause, ...]
    targets: tuple[str, ...]
    peers: tuple[str, ...]
    cases: str
    case: str
    signature: str
    minimised: bool
    expected: tuple[tuple[str, bool], ...]  # line, and whether it differs
    got: tuple[tuple[str, bool], ...]
    note: str
    witness: str
    script: str
    replay: str


class CellView(msgspec.Struct, frozen=True):
    """One cell of the matrix."""

    kind: str  # CSS class
    symbol: str
    word: str
    tally: str
    detail: tuple[str, ...]  # counts by status, where there is more than one
    links: tuple[tuple[str, str], ...]  # anchor and title of the findings behind it


class RowView(msgspec.Struct, frozen=True):
    """One clause in the matrix."""

    clause: Clause
    family: str
    cells: tuple[CellView | None, ...]

    @property
    def silent(self) -> bool:
        """Whether it was judged on no target."""
        return all(cell is None or cell.kind == "none" for cell in self.cells)


class TableView(msgspec.Struct, frozen=True):
    """The matrix of one contract."""

    title: str
    targets: tuple[str, ...]
    rows: tuple[RowView, ...]
    silent: tuple[Clause, ...]  # no case speaks of them for any target: a list says it shorter than rows do


def write(report: RunReport, out: BinaryIO) -> None:
    """Write the page (UTF-8), at most :data:`SIZE` bytes."""
    out.write(render(report))


def render(report: RunReport, size: int = SIZE) -> bytes:
    """The page as bytes, under the first of :data:`BUDGETS` with which it fits into ``size``.

    :raises ValueError: it does not fit even bare; then the number of targets is out of all proportion
    """
    page = b""
    drawn = list(plots(report, BUDGETS[0].plots))
    for budget in BUDGETS:
        page = _page(report, budget, drawn).encode("utf-8")
        if len(page) <= size:
            return page
    raise ValueError(f"the HTML report needs {len(page):,} bytes and may have {size:,}; ask fewer targets in one run")


def _page(report: RunReport, budget: Budget, drawn: list[Plot]) -> str:
    from markupsafe import Markup

    script, style = _asset("report.js"), _asset("report.css")
    shown_plots = [
        # Markup: the SVG is our own, drawn from numbers and from target names that matplotlib escapes.
        {"clause": _clause(p.clause, budget), "svg": Markup(p.svg), "spreads": p.spreads[: budget.columns]}  # noqa: S704
        for p in drawn[: budget.plots]
    ]
    findings = sorted(report.findings, key=lambda f: bool(f.known))
    views = [_finding(f, report, budget) for f in findings[: budget.findings]]
    standings = report.standings()
    shown = [t for t in report.targets if t][: budget.columns]
    rows = list(_rows(report, budget, {v.signature: v for v in views}, shown))
    return str(
        _template().render(
            report=report,
            headline=one_line(report.headline(), budget.label),
            mood={0: "good", 1: "bad"}.get(report.exit, "invalid"),
            exit_words=EXIT_WORDS[report.exit],
            problems=[one_line(p, budget.label) for p in report.problems[:50]],
            stale=[one_line(s, budget.label) for s in report.summary.stale[:50]],
            notes=_notes(report, budget, len(views), len(rows), len(shown_plots)),
            tiles=_tiles(report),
            levels=[level for level in LEVELS if any(level in s.levels or level in s.untouched for s in standings)]
            or ["MUST"],
            standings=standings[: budget.columns],
            symbols={str(k): v for k, v in SYMBOL.items() if k},
            statuses=[str(s) for s in Status],
            findings=views,
            new=[v for v in views if v.state == "new"],
            targets=shown,
            rows=rows,
            tables=_tables(report, rows, shown),
            plots=shown_plots,
            checks=[(c, rate(c.killed, c.faults), rate(c.false_alarms, c.honest)) for c in report.selfcheck],
            environment=flatten(report.header.environment)[:200],
            options=flatten(report.header.options)[:200],
            infos=[_info(t) for t in report.header.targets[: budget.columns]],
            outcomes=[(t, list(report.summary.outcomes.get(t, {}).items())) for t in shown],
            style=Markup(style),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own file
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )


@cache
def _template() -> Any:
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["line"] = one_line
    environment.filters["number"] = lambda n: f"{n:,}"
    environment.filters["short"] = lambda x: f"{x:.3g}"
    return environment.from_string(_asset("template.html.j2"))


@cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _tiles(report: RunReport) -> list[tuple[str, str, str, str]]:
    """Label, figure, note and colour of the numbers on the first screen."""
    verdicts = report.summary.verdicts
    judged = verdicts.get(Status.PASS, 0) + verdicts.get(Status.FAIL, 0)
    faults, killed = sum(c.faults for c in report.selfcheck), sum(c.killed for c in report.selfcheck)
    honest, alarms = sum(c.honest for c in report.selfcheck), sum(c.false_alarms for c in report.selfcheck)
    kills, blamed = "run: afere selfcheck", "run: afere selfcheck"
    if report.selfcheck:
        kills, blamed = f"{killed} of {faults} planted faults caught", f"{alarms} of {honest} honest variants blamed"
    return [
        ("New findings", f"{len(report.new):,}", "one cause each", "bad" if report.new else "good"),
        ("Known findings", f"{len(report.known):,}", "covered by expectations", "known" if report.known else ""),
        ("Verdicts", f"{judged:,}", f"pass or fail; {plural(report.summary.decisions, 'demanded refusal')}", ""),
        ("Kill rate", _percent(killed, faults), kills, "bad" if killed < faults else "good" if faults else ""),
        ("False alarms", _percent(alarms, honest), blamed, "bad" if alarms else "good" if honest else ""),
    ]


def _info(target: TargetInfo) -> tuple[str, str, list[tuple[str, str]], list[tuple[str, str]], str]:
    """Name, transport and suite, limits, own reports, and why it was not asked."""
    return (
        one_line(target.name),
        one_line(f"{target.transport}, suite {target.suite}"),
        flatten(target.limits)[:40] if target.limits else [],
        flatten(target.reports)[:40] if target.reports else [],
        one_line(target.unavailable or target.unsupported),
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "not measured"


def _clause(clause: Clause, budget: Budget) -> Clause:
    return Clause(
        one_line(clause.id, 80),
        one_line(clause.level, 20),
        one_line(clause.text, budget.label),
        one_line(clause.source, budget.label),
        one_line(clause.since, 40),
    )


def _anchor(signature: str) -> str:
    return f"f-{digest(signature)[:12]}"


def _finding(finding: Finding, report: RunReport, budget: Budget) -> FindingView:
    by_id = {c.id: c for c in report.all_clauses()}
    clauses = [by_id.get(i, Clause(i, "", "", "")) for i in finding.clauses[:40]]
    order = {level: rank for rank, level in enumerate(LEVELS)}
    expected, got = _side_by_side(pretty(finding.expected, budget.payload), pretty(finding.got, budget.payload))
    return FindingView(
        anchor=_anchor(finding.signature),
        title=one_line(finding.title, budget.label),
        state="known" if finding.known else "new",
        reason=one_line(finding.known, budget.label),
        suite=one_line(finding.suite, 80),
        status=str(finding.status),
        symbol=SYMBOL[finding.status],
        level=min((c.level for c in clauses), key=lambda level: order.get(level, 9), default=""),
        stage=one_line(finding.stage, 80),
        field=one_line(finding.field, 200),
        change=one_line(finding.change, 80),
        culprit=tuple(one_line(c, 200) for c in finding.culprit[:40]),
        clauses=tuple(_clause(c, budget) for c in clauses),
        targets=tuple(one_line(t) for t in finding.targets[: budget.columns]),
        peers=tuple(one_line(t) for t in finding.peers[: budget.columns]),
        cases=plural(finding.cases, "case"),
        case=one_line(finding.witness.id, 80),
        signature=one_line(finding.signature, 300),
        minimised=finding.minimised,
        expected=expected,
        got=got,
        note=cut(visible(finding.note[: budget.payload]), budget.payload, len(finding.note)),
        witness=pretty(
            {"suite": finding.witness.suite, "op": finding.witness.op, "input": finding.witness.input}, budget.payload
        ),
        script=cut(visible(finding.script[: budget.script]), budget.script, len(finding.script)),
        replay=cut(visible(finding.replay[:2_000]), 2_000, len(finding.replay)),
    )


_Lines = tuple[tuple[str, bool], ...]


def _side_by_side(expected: str, got: str) -> tuple[_Lines, _Lines]:
    """Both texts as lines, each with a flag that says whether the other side lacks it."""
    left, right = expected.split("\n"), got.split("\n")
    if len(left) == len(right) == 1 or len(left) * len(right) > 250_000:
        return tuple((line, False) for line in left), tuple((line, False) for line in right)
    # A trailing comma says that more follows, not that the value differs.
    matcher = difflib.SequenceMatcher(
        None, [s.rstrip(",") for s in left], [s.rstrip(",") for s in right], autojunk=False
    )
    same_left, same_right = set[int](), set[int]()
    for block in matcher.get_matching_blocks():
        same_left.update(range(block.a, block.a + block.size))
        same_right.update(range(block.b, block.b + block.size))
    if not same_left:  # nothing in common: marking all of it would point at nothing
        same_left.update(range(len(left)))
        same_right.update(range(len(right)))
    return (
        tuple((line, i not in same_left) for i, line in enumerate(left)),
        tuple((line, i not in same_right) for i, line in enumerate(right)),
    )


def _rows(report: RunReport, budget: Budget, views: dict[str, FindingView], targets: list[str]) -> Iterator[RowView]:
    cells = report.cells()
    asked = [c for c in report.all_clauses() if any((c.id, t) in cells for t in targets)]
    # Where rows have to go, the rows in which everything passes go first.
    dull = {c.id for c in asked if all(cells[c.id, t].status is Status.PASS for t in targets if (c.id, t) in cells)}
    keep = {c.id for c in sorted(asked, key=lambda c: c.id in dull)[: budget.rows]}
    for clause in asked:
        if clause.id in keep:
            row = tuple(_cell(cells.get((clause.id, t)), views) for t in targets)
            yield RowView(_clause(clause, budget), family(clause.id), row)


def _tables(report: RunReport, rows: list[RowView], targets: list[str]) -> list[TableView]:
    """The matrix, one table per contract, each with the targets of that subject only."""
    tables = []
    for name, group in groupby(rows, lambda row: row.family):
        members = list(group)
        columns = [i for i in range(len(targets)) if any(row.cells[i] is not None for row in members)]
        suites = {t.suite for t in report.header.targets if t.name in {targets[i] for i in columns}}
        tables.append(
            TableView(
                title=one_line(suites.pop(), 80) if len(suites) == 1 else name or "harness",
                targets=tuple(one_line(targets[i]) for i in columns),
                rows=tuple(
                    msgspec.structs.replace(row, cells=tuple(row.cells[i] for i in columns))
                    for row in members
                    if not row.silent
                ),
                silent=tuple(row.clause for row in members if row.silent),
            )
        )
    return tables


def _cell(cell: Cell | None, views: dict[str, FindingView]) -> CellView | None:
    if cell is None:
        return None
    if cell.status is None or cell.untouched:
        return CellView("none", SYMBOL[None], "not judged", "", (), ())
    count = cell.counts.get(cell.status, 0)
    tally = f"{count:,}" if count == cell.total else f"{count:,} of {cell.total:,}"
    detail = tuple(f"{n:,} {status}" for status, n in cell.counts.items()) if len(cell.counts) > 1 else ()
    links = tuple(
        (_anchor(f.signature), one_line(f.title, 120)) for f in cell.findings[:8] if one_line(f.signature, 300) in views
    )
    kind = "known" if cell.known else str(cell.status)
    return CellView(
        kind, SYMBOL[cell.status], f"{cell.status}, known" if cell.known else str(cell.status), tally, detail, links
    )


def _notes(report: RunReport, budget: Budget, findings: int, rows: int, drawn: int) -> list[str]:
    """What the budget left out, one sentence each."""
    notes = []
    if budget is not BUDGETS[0]:
        notes.append(f"Payloads are cut to {budget.payload:,} characters and scripts to {budget.script:,}.")
    for shown, total, what in (
        (findings, len(report.findings), "findings"),
        (rows, len({clause for clause, _ in report.cells()}), "clauses of the matrix"),
        (drawn, len(spreads_by_clause(report)), "plots"),
        (min(budget.columns, len(report.targets)), len(report.targets), "targets"),
    ):
        if shown < total:
            notes.append(f"{shown:,} of {total:,} {what} are shown.")
    return notes
