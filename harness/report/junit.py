"""JUnit XML: one test suite per target, one test case per clause.

CI systems read three different things from three elements, and tools that mix them up turn broken runs green or real
failures into noise. The split here is one table, :data:`ELEMENT`. Two rules go beyond it: an invalid run gets a test
case of its own that errors, and a failure covered by an expectation is shown as skipped with its reason, because a
silent pass would hide it.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from typing import BinaryIO, Final, Literal

from harness.outcome import Exit, Status
from harness.records import Clause, Finding
from harness.report.model import Cell, RunReport, plural
from harness.report.text import brief, one_line, pretty, visible

Element = Literal["failure", "error", "skipped"]

ELEMENT: Final[dict[Status, Element | None]] = {
    Status.PASS: None,
    Status.FAIL: "failure",  # the target is wrong
    Status.ERROR: "error",  # the harness is wrong
    Status.UNKNOWN: "error",  # nobody knows: not a pass, not the target's failure
    Status.BLOCKED: "error",
    Status.UNSUPPORTED: "skipped",
    Status.SKIPPED: "skipped",
}
"""The child element that each status gets; None is a plain pass."""

_BODY: Final = 4_000
_SHOWN: Final = 5  # findings spelled out in one test case


def write(report: RunReport, out: BinaryIO) -> None:
    """Write the report as JUnit XML (UTF-8)."""
    root = ET.Element("testsuites", name=one_line(f"afere {report.header.run}"))
    cells = report.cells()
    _run_suite(root, report, cells.values())
    clauses = {c.id: c for c in report.all_clauses()}
    for target in report.targets:
        suite = ET.SubElement(root, "testsuite", name=one_line(target), timestamp=one_line(report.header.started))
        properties = ET.SubElement(suite, "properties")
        for info in report.header.targets:
            if info.name == target:
                for name, value in (("transport", info.transport), *info.limits.items()):
                    ET.SubElement(properties, "property", name=one_line(f"{info.suite}.{name}"), value=one_line(value))
        absent = report.absent(target)
        own = [cell for (_, name), cell in cells.items() if name == target]
        for cell in own:
            _cell_case(suite, cell, clauses[cell.clause], absent)
        if not own:
            # A target that takes part and has no test case would vanish from the CI's page.
            case = ET.SubElement(suite, "testcase", classname=one_line(target), name="was judged")
            _child(case, "skipped" if absent else "error", absent or "no verdict speaks of this target", "")
        _count(suite)
    _count(root)
    ET.indent(root)
    out.write(b'<?xml version="1.0" encoding="UTF-8"?>\n')
    out.write(ET.tostring(root, encoding="utf-8", short_empty_elements=True))
    out.write(b"\n")


def _run_suite(root: ET.Element, report: RunReport, cells: Iterable[Cell]) -> None:
    suite = ET.SubElement(root, "testsuite", name="the run", timestamp=one_line(report.header.started))
    case = ET.SubElement(suite, "testcase", classname="afere", name="the run is valid")
    if report.problems:
        _child(case, "error", report.problems[0], "\n".join(report.problems))
    shown = {f.signature for cell in cells if cell.status is Status.FAIL for f in cell.findings}
    for finding in report.new:
        if finding.signature not in shown:
            # Seen while minimising only, say: no failing clause tells of it, and it must not get lost.
            case = ET.SubElement(suite, "testcase", classname="afere", name=one_line(f"finding {finding.signature}"))
            _child(case, "failure", finding.title, _tell(finding))
    if report.exit is Exit.UNEXPECTED and not report.new:
        case = ET.SubElement(suite, "testcase", classname="afere", name="the exit status is explained")
        _child(case, "failure", "the exit status is 1 and the report holds no new finding", "")
    for signature in report.summary.stale:
        case = ET.SubElement(
            suite, "testcase", classname="afere", name=one_line(f"expectation {signature} still holds")
        )
        # Not a failure: the gate lets it pass, and the two must not contradict each other.
        _child(case, "skipped", "stale: its witness no longer shows the finding; remove or correct the expectation", "")
    _count(suite)


def _cell_case(suite: ET.Element, cell: Cell, clause: Clause, absent: str) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=one_line(f"{cell.target}.{clause.level}"),
        name=one_line(f"{clause.id}: {clause.text}"),
    )
    tally = ", ".join(f"{count:,} {status}" for status, count in cell.counts.items())
    if cell.status is None or cell.untouched:
        _child(case, "skipped", "not judged: no case of this run speaks of this clause for this target", "")
        return
    element = ELEMENT[cell.status]
    if element is None:
        return
    if cell.known:
        _child(case, "skipped", f"known: {cell.known}", tally)
        return
    new = [f for f in cell.findings if not f.known]
    if element == "skipped":
        _child(case, element, f"{cell.status}: {absent or tally or 'no reason recorded'}", tally)
        return
    what = "; ".join(f.title for f in new[:_SHOWN]) or tally
    body = "\n\n".join(
        [f"{clause.level} {clause.id}: {clause.text}\nsource: {clause.source}\n{tally}", *map(_tell, new[:_SHOWN])]
    )
    if len(new) > _SHOWN:
        body += f"\n\nand {plural(len(new) - _SHOWN, 'more finding')}"
    _child(case, element, f"{cell.status}: {what}", body)


def _tell(finding: Finding) -> str:
    return "\n".join(
        [
            finding.title,
            f"signature: {finding.signature}",
            f"first stage that differs: {finding.stage or '-'}, field {finding.field or '-'}, {finding.change or '-'}",
            f"expected: {brief(finding.expected, 500)}",
            f"got: {brief(finding.got, 500)}",
            f"smallest case {finding.witness.id}: {pretty(finding.witness.input, _BODY)}",
            f"replay: {finding.replay}",
        ]
    )


def _child(case: ET.Element, element: Element, message: str, body: str) -> None:
    child = ET.SubElement(case, element, message=one_line(message, 500))
    if element != "skipped":
        child.set("type", element)
    if body:
        child.text = visible(body)


def _count(parent: ET.Element) -> None:
    cases = list(parent.iter("testcase"))
    parent.set("tests", str(len(cases)))
    for key, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        parent.set(key, str(sum(1 for case in cases if case.find(element) is not None)))
