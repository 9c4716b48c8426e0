"""NDJSON: one record a line, in a fixed order, and the way back.

Order: header, clauses, verdicts that are not passes, findings, self-checks, summary, footer. Passes are only counted
(in the summary), because there are a hundred times more of them. Whoever reads the file and meets no footer knows that
the writer did not get to the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import msgspec

from harness.records import Clause, Finding, Footer, Header, SelfCheck, Summary, Verdict, to_line
from harness.report.model import RunReport

Line = Header | Clause | Verdict | Finding | SelfCheck | Summary | Footer
"""What one line of the file can be."""

_KEY: Final[dict[type, str]] = {
    Header: "run",
    Summary: "run",
    Footer: "run",
    Clause: "id",
    Finding: "signature",
    SelfCheck: "suite",
}

_R = TypeVar("_R")


class ReportError(ValueError):
    """The file is not a report, or it contradicts itself. The message names the file, the line and what to do."""


def records(report: RunReport) -> Iterator[Line]:
    """The lines of the file as records, in order. Streams the verdicts."""
    yield report.header
    yield from report.clauses
    yield from report.verdicts()
    yield from report.findings
    yield from report.selfcheck
    yield report.summary
    if report.footer is not None:
        yield report.footer


def write(report: RunReport, out: BinaryIO) -> None:
    """Write the report, one record a line, holding one verdict at a time."""
    out.writelines(to_line(record) for record in records(report))


def read(path: Path) -> RunReport:
    """Read a report back.

    The verdicts are read again from the file whenever they are asked for. A file without a footer is read, and its
    report is invalid (:attr:`RunReport.problems`). Ratios are not part of the format.

    :raises ReportError: a line is no record; the header or the summary is missing; a record is there twice
    """
    singles: dict[type, Header | Summary | Footer] = {}
    many: dict[type, list[Line]] = {Clause: [], Finding: [], SelfCheck: []}
    seen: set[tuple[type, str]] = set()
    ended = False
    for number, record in _lines(path):
        if ended:
            raise ReportError(f"{path}:{number}: a record follows the footer; the file was joined or written twice")
        kind = type(record)
        if kind in _KEY:
            # Two records of one thing: keeping the last would let a later pass hide an earlier failure.
            name = "" if kind in (Header, Summary, Footer) else str(getattr(record, _KEY[kind]))
            if (kind, name) in seen:
                raise ReportError(f"{path}:{number}: a second {kind.__name__.lower()} {name or ''}".rstrip())
            seen.add((kind, name))
        if isinstance(record, Header | Summary | Footer):
            singles[kind] = record
        elif kind in many:
            many[kind].append(record)
        ended = isinstance(record, Footer)
    header, summary, footer = singles.get(Header), singles.get(Summary), singles.get(Footer)
    if not isinstance(header, Header):
        raise ReportError(f"{path}: no header; this is not a report of Afere, or its beginning is lost")
    if not isinstance(summary, Summary):
        raise ReportError(f"{path}: no summary; the report was cut off. Write it again with: afere report {header.run}")
    return RunReport(
        header=header,
        footer=footer if isinstance(footer, Footer) else None,
        clauses=_only(many[Clause], Clause),
        summary=summary,
        findings=_only(many[Finding], Finding),
        selfcheck=_only(many[SelfCheck], SelfCheck),
        verdicts=lambda: (record for _, record in _lines(path) if isinstance(record, Verdict)),
    )


def _only(items: Iterable[object], kind: type[_R]) -> tuple[_R, ...]:
    return tuple(item for item in items if isinstance(item, kind))


def _lines(path: Path) -> Iterator[tuple[int, Line]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield number, msgspec.convert(json.loads(line), Line)
            except (ValueError, msgspec.ValidationError) as error:
                raise ReportError(f"{path}:{number}: not a record of a report ({error}): {line[:80]!r}") from error
