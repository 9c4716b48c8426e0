"""The reports: golden samples, and the ways in which a report could show something that is not so.

Names of other tools mark the tests that stem from a way in which that tool passes by accident or misfiles a failure.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from harness.outcome import Exit, Status
from harness.records import Verdict
from harness.report import FORMATS, RunReport, console, junit, markdown, write
from suites.selfcheck import sample_run
from suites.selfcheck.sample_run import (
    ALPHA,
    BETA,
    DELTA,
    GAMMA,
    JOIN,
    LIMIT,
    LSE,
    SAMPLES,
    produce,
    sample,
    with_cell,
    with_summary,
)

replace = msgspec.structs.replace


def junit_case(report: RunReport, clause: str, target: str) -> ET.Element:
    root = ET.fromstring(produce(report, "junit"))
    suites = [s for s in root.iter("testsuite") if s.get("name") == target]
    assert len(suites) == 1
    cases = [c for c in suites[0].iter("testcase") if (c.get("name") or "").startswith(f"{clause}:")]
    assert len(cases) == 1
    return cases[0]


def without_plots(page: str) -> str:
    # The drawing depends on the release of matplotlib; everything else does not.
    return re.sub(r'<svg class="plot".*?</svg>', "", page, flags=re.DOTALL)


# Golden samples


@pytest.mark.parametrize("name", FORMATS)
def test_checked_in_sample_is_what_the_code_writes(name: str) -> None:
    stored = (SAMPLES / FORMATS[name].file).read_text(encoding="utf-8")
    made = produce(sample(), name).decode()
    hint = "run: python -m suites.selfcheck.sample_run"
    assert without_plots(stored) == without_plots(made), hint


@pytest.mark.parametrize("name", FORMATS)
def test_reports_are_deterministic(name: str) -> None:
    assert produce(sample(), name) == produce(sample(), name)


# Nothing passes by accident

BROKEN = {
    "no footer (bowtie)": replace(sample(), footer=None),
    "footer of another run": replace(sample(), footer=replace(sample().footer, run="other")),  # type: ignore[type-var]
    "summary of another run": with_summary(run="other"),
    "called invalid": with_summary(valid=False, problems=("planned 276, observed 275",)),
    "called invalid without a reason": with_summary(valid=False),
    "nothing planned": replace(sample(), header=replace(sample().header, planned=0)),
    "nothing observed": with_summary(observations=0),
    "nothing judged": with_summary(matrix={}, counts={}),
    "a finding that is named and not there": replace(sample(), findings=()),
    "a failure without any finding": replace(with_summary(new=(), known=()), findings=()),
    "a target that the header does not name": with_summary(matrix={"R-JOIN-1": {"nobody@1": "pass"}}),
    "a target that should have been there": replace(
        sample(),
        header=replace(
            sample().header,
            targets=(replace(sample().header.targets[0], unavailable="not provisioned"), *sample().header.targets[1:]),
        ),
    ),
}


@pytest.mark.parametrize("report", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_run_looks_broken_in_every_format(report: RunReport) -> None:
    # All findings known and an exit status of 0: the contradiction alone must show.
    calm = replace(
        report,
        ratios={},
        summary=replace(report.summary, exit=0),
        findings=tuple(replace(f, known="x") for f in report.findings),
    )
    assert calm.problems
    assert calm.exit is Exit.INVALID
    root = ET.fromstring(produce(calm, "junit"))
    assert int(root.get("errors") or 0) > 0
    case = next(root.iter("testcase"))
    assert case.get("name") == "the run is valid"
    assert case.find("error") is not None
    assert markdown.render(calm).startswith("## ⚠️ The run is invalid")
    page = produce(calm, "html").decode()
    assert 'class="banner invalid"' in page
    assert "<title>Invalid" in page
    out = io.StringIO()
    console.show(calm, {}, Console(file=out, width=100), quiet=True)
    assert out.getvalue().startswith("The run is invalid")


def test_a_valid_run_is_not_called_invalid() -> None:
    report = sample()
    assert report.problems == ()
    assert report.exit is Exit.UNEXPECTED
    root = ET.fromstring(produce(report, "junit"))
    assert next(root.iter("testcase")).find("error") is None


@pytest.mark.parametrize(
    ("status", "element"),
    [
        ("pass", None),
        ("fail", "failure"),
        ("error", "error"),
        ("unknown", "error"),
        ("blocked", "error"),
        ("unsupported", "skipped"),
        ("skipped", "skipped"),
    ],
)
def test_junit_splits_failures_errors_and_skips(status: str, element: str | None) -> None:
    # h2spec files failures as errors; the ONNX runner counts what a backend cannot do as passed.
    case = junit_case(with_cell("R-BOS-1", ALPHA, status, ()), "R-BOS-1", ALPHA)
    assert [child.tag for child in case] == ([element] if element else [])
    for child in case:
        assert status in (child.get("message") or "")


def test_every_status_has_a_junit_element_and_a_symbol() -> None:
    assert set(junit.ELEMENT) == set(Status)
    assert set(markdown.SYMBOL) == {*Status, None}


def test_junit_counts_are_those_of_its_elements() -> None:
    root = ET.fromstring(produce(sample(), "junit"))
    for parent in (root, *root.iter("testsuite")):
        cases = list(parent.iter("testcase"))
        assert parent.get("tests") == str(len(cases))
        for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert parent.get(key) == str(len([c for c in cases if c.find(tag) is not None]))


def test_junit_has_one_case_per_clause_and_target() -> None:
    report = sample()
    root = ET.fromstring(produce(report, "junit"))
    per_target = {s.get("name"): len(list(s)) - 1 for s in root.iter("testsuite") if s.get("name") in report.targets}
    assert per_target == {ALPHA: 6, BETA: 6, GAMMA: 3, DELTA: 3}


def test_known_failure_is_skipped_with_its_reason_and_never_passes() -> None:
    known = replace(LIMIT, known="upstream issue 12", clauses=("R-BOS-1",), targets=(ALPHA,))
    case = junit_case(with_cell("R-BOS-1", ALPHA, "fail", (known,)), "R-BOS-1", ALPHA)
    skipped = case.find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "known: upstream issue 12"


def test_a_new_finding_beside_a_known_one_is_a_failure() -> None:
    known = replace(LIMIT, known="upstream issue 12", clauses=("R-BOS-1",), targets=(ALPHA,))
    new = replace(JOIN, clauses=("R-BOS-1",))
    case = junit_case(with_cell("R-BOS-1", ALPHA, "fail", (known, new)), "R-BOS-1", ALPHA)
    failure = case.find("failure")
    assert failure is not None
    assert JOIN.replay in (failure.text or "")


def test_what_a_known_failure_blocks_is_known_too() -> None:
    known = replace(LSE, known="upstream issue 13")
    blocked = with_cell("M-PAGE-2", GAMMA, "blocked", (known,))
    skipped = junit_case(blocked, "M-PAGE-2", GAMMA).find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "known: upstream issue 13"
    # A known finding of another subject explains nothing here.
    elsewhere = with_cell("M-PAGE-2", GAMMA, "blocked", (replace(known, clauses=("R-BOS-1",)),))
    assert junit_case(elsewhere, "M-PAGE-2", GAMMA).find("error") is not None


def test_junit_is_red_exactly_where_the_exit_status_is_not_zero() -> None:
    known = tuple(replace(f, known="x") for f in sample_run.FINDINGS)
    names = tuple(f.signature for f in known)
    calm = replace(with_summary(exit=0, new=(), known=names, stale=("some|expectation",)), findings=known)
    for report, red in ((sample(), True), (calm, False), (replace(calm, footer=None), True)):
        root = ET.fromstring(produce(report, "junit"))
        assert (int(root.get("failures") or 0) + int(root.get("errors") or 0) > 0) == red
        assert (report.exit is not Exit.OK) == red


def test_a_new_finding_that_no_failing_clause_tells_of_is_still_a_failure() -> None:
    lone = replace(JOIN, clauses=("R-BOS-1",), signature="seen while minimising")
    root = ET.fromstring(produce(replace(sample(), findings=(*sample().findings, lone)), "junit"))
    case = next(c for c in root.iter("testcase") if c.get("name") == "finding seen while minimising")
    assert case.find("failure") is not None
    silent = replace(with_summary(new=(), exit=1), findings=tuple(replace(f, known="x") for f in sample_run.FINDINGS))
    assert ET.fromstring(produce(silent, "junit")).get("failures") == "1"


def test_a_known_finding_never_excuses_an_error() -> None:
    known = replace(LIMIT, known="upstream issue 12", clauses=("R-BOS-1",), targets=(ALPHA,))
    case = junit_case(with_cell("R-BOS-1", ALPHA, "error", (known,)), "R-BOS-1", ALPHA)
    assert case.find("error") is not None


def test_a_stale_expectation_stands_in_every_format() -> None:
    report = with_summary(stale=("lower|gone|missing",))
    root = ET.fromstring(produce(report, "junit"))
    assert any(
        "lower|gone|missing" in (c.get("name") or "") and c.find("skipped") is not None for c in root.iter("testcase")
    )
    assert "lower|gone|missing" in markdown.render(report)
    assert "lower|gone|missing" in produce(report, "html").decode()


def test_a_clause_that_no_case_touches_is_shown_as_not_judged() -> None:
    # array-api-tests: functions looked tested and were not.
    case = junit_case(sample(), "R-ECHO-1", ALPHA)
    skipped = case.find("skipped")
    assert skipped is not None
    assert "not judged" in (skipped.get("message") or "")
    assert "not judged" in produce(sample(), "html").decode()
    matrix = {**sample().summary.matrix, "R-ECHO-1": {ALPHA: "unknown", BETA: "unknown"}}
    silent = with_summary(matrix=matrix, counts={**sample().summary.counts, "R-ECHO-1": {}})
    page = produce(silent, "html").decode()
    assert "1 clause not judged: no case of this run speaks of it" in page
    assert "R-ECHO-1" in page


def test_a_target_without_any_verdict_does_not_vanish() -> None:
    report = sample()
    matrix = {c: {t: s for t, s in row.items() if t != ALPHA} for c, row in report.summary.matrix.items()}
    root = ET.fromstring(produce(with_summary(matrix=matrix), "junit"))
    lost = next(s for s in root.iter("testsuite") if s.get("name") == ALPHA)
    assert lost.get("errors") == "1"


def test_standings_say_who_conforms() -> None:
    said = {s.target: s.sentence for s in sample().standings()}
    assert said[ALPHA] == "fails 1 MUST clause"
    assert said[DELTA] == "not asked: this processor has no NEON"
    calm = with_cell("R-JOIN-1", ALPHA, "pass", ())
    assert calm.standings()[0].sentence == "conforms to all 3 MUST clauses"
    unjudged = {c: {ALPHA: "unsupported"} for c in ("R-JOIN-1", "R-BOS-1")}
    nothing = with_summary(matrix=unjudged, counts={})
    assert nothing.standings()[0].sentence == "nothing was judged"
    silent = with_summary(matrix={"R-JOIN-1": {ALPHA: "pass"}, "R-BOS-1": {ALPHA: "unknown"}}, counts={})
    assert silent.standings()[0].sentence == "conforms to the 1 MUST clause judged; 2 not judged"
    broken = with_cell("R-JOIN-1", ALPHA, "unknown", ())
    assert broken.standings()[0].sentence == "1 MUST clause could not be judged"


def test_self_check_that_was_not_measured_has_no_rate() -> None:
    report = replace(sample(), selfcheck=())
    assert "not measured" in markdown.render(report)
    page = produce(report, "html").decode()
    assert "not measured" in page
    assert "100.0 %" not in page


# Writing


def test_write_makes_each_file_once_and_nothing_else(tmp_path: Path) -> None:
    paths = write(sample(), tmp_path / "new" / "folder")
    assert {p.name for p in (tmp_path / "new" / "folder").iterdir()} == {f.file for f in FORMATS.values()}
    assert list(paths) == list(FORMATS)


def test_a_writer_that_fails_leaves_no_file_and_keeps_the_old_one(tmp_path: Path) -> None:
    # sonobuoy takes the existence of a file for a pass.
    def explode() -> Iterator[Verdict]:
        yield sample_run.VERDICTS[0]
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write(replace(sample(), verdicts=explode), tmp_path, ["ndjson"])
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "report.ndjson").write_bytes(b"old")
    with pytest.raises(OSError, match="disk full"):
        write(replace(sample(), verdicts=explode), tmp_path, ["ndjson"])
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"old"]


def test_unknown_format_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'pdf'; choose from ndjson, junit, markdown, html"):
        write(sample(), tmp_path / "x", ["html", "pdf"])
    assert not (tmp_path / "x").exists()
