"""The reports: golden samples, and the ways in which a report could show something that is not so.

Names of other tools mark the tests that stem from a way in which that tool passes by accident or misfiles a failure.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from harness.outcome import Exit, Status
from harness.records import Case, Finding, Verdict, to_line
from harness.report import FORMATS, RunReport, console, html, junit, markdown, ndjson, plots, schema, text, write
from suites.selfcheck import sample_run
from suites.selfcheck.sample_run import ALPHA, BETA, DELTA, GAMMA, JOIN, LIMIT, LSE, SAMPLES, sample

replace = msgspec.structs.replace

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)> \x00\x1b[31m\ud800\u202e`````` | ]]> {{ 7*7 }}"
)


def produce(report: RunReport, name: str) -> bytes:
    out = io.BytesIO()
    FORMATS[name].write(report, out)
    return out.getvalue()


def with_summary(**changes: object) -> RunReport:
    report = sample()
    return replace(report, summary=replace(report.summary, **changes))


def with_cell(clause: str, target: str, status: str, findings: tuple[Finding, ...]) -> RunReport:
    report = sample()
    matrix = {**report.summary.matrix, clause: {**report.summary.matrix[clause], target: status}}
    counts = {**report.summary.counts, clause: {**report.summary.counts[clause], target: {status: 3}}}
    summary = replace(report.summary, matrix=matrix, counts=counts, new=(), known=())
    return replace(report, summary=summary, findings=findings)


def junit_case(report: RunReport, clause: str, target: str) -> ET.Element:
    root = ET.fromstring(produce(report, "junit"))
    suites = [s for s in root.iter("testsuite") if s.get("name") == target]
    assert len(suites) == 1
    cases = [c for c in suites[0].iter("testcase") if (c.get("name") or "").startswith(f"{clause}:")]
    assert len(cases) == 1
    return cases[0]


def big_report(findings: int, payload: int) -> RunReport:
    made = tuple(
        replace(
            JOIN,
            signature=f"s{i}",
            title=f"finding number {i}",
            got={"text": f"{i} " + "x" * payload},
            script="y" * payload,
            witness=Case.make("render", "chat", {"messages": [f"{i}"] * 50}),
        )
        for i in range(findings)
    )
    report = sample()
    return replace(
        report,
        ratios={},
        findings=made,
        summary=replace(report.summary, new=tuple(f.signature for f in made), known=()),
    )


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


# NDJSON and schemas


def read_back(report: RunReport, folder: Path) -> RunReport:
    return ndjson.read(write(report, folder, ["ndjson"])["ndjson"])


def same(left: RunReport, right: RunReport) -> bool:
    fields = ("header", "footer", "clauses", "summary", "findings", "selfcheck")
    return all(getattr(left, f) == getattr(right, f) for f in fields) and list(left.verdicts()) == list(
        right.verdicts()
    )


def test_reading_back_is_the_identity(tmp_path: Path) -> None:
    back = read_back(sample(), tmp_path)
    assert same(back, sample())
    assert list(back.verdicts()) == list(back.verdicts()), "the verdicts can be read more than once"


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=())), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(payload=anything, words=st.text(st.characters(exclude_categories=())))
def test_any_payload_survives_the_round_trip(
    payload: object, words: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    finding = replace(JOIN, expected=payload, got=payload, title=words, note=words)
    verdict = replace(sample_run.VERDICTS[0], got=payload, note=words)
    report = replace(sample(), findings=(finding, *sample().findings[1:]), verdicts=lambda: (verdict,))
    assert same(read_back(report, tmp_path_factory.mktemp("r")), report)


def test_reports_without_an_end_or_a_beginning_are_not_reports(tmp_path: Path) -> None:
    lines = produce(sample(), "ndjson").splitlines(keepends=True)
    path = tmp_path / "report.ndjson"
    path.write_bytes(b"".join(lines[:-1]))
    assert ndjson.read(path).exit is Exit.INVALID
    for broken, message in (
        (b"", "no header"),
        (b"".join(lines[1:]), "no header"),
        (b"".join(lines[:-2]), "no summary"),
        (b"".join([*lines, lines[1]]), "follows the footer"),
        (b"".join([*lines[:2], lines[1], *lines[2:]]), "a second clause R-JOIN-1"),
        (b"".join([lines[0], *lines]), "a second header"),
        (b"".join(lines)[:-20], "not a record"),
        (b'{"type":"case"}\n', "not a record"),
    ):
        path.write_bytes(broken)
        with pytest.raises(ndjson.ReportError, match=message):
            ndjson.read(path)


def test_verdicts_are_streamed() -> None:
    made = 0

    def many() -> Iterator[Verdict]:
        nonlocal made
        for _ in range(1_000):
            made += 1
            yield sample_run.VERDICTS[0]

    class Watch(io.RawIOBase):
        seen = 0

        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            self.seen += 1
            assert made <= self.seen, "a verdict was made before the one before it was written"
            return len(bytes(data))  # type: ignore[call-overload]

    out = Watch()
    ndjson.write(replace(sample(), verdicts=many), out)  # type: ignore[arg-type]
    assert made == 1_000


def test_every_line_validates_against_the_exported_schema(tmp_path: Path) -> None:
    schema.export(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {f"{name}.schema.json" for name in schema.TYPES}
    loaded = {name: json.loads((tmp_path / f"{name}.schema.json").read_text()) for name in schema.TYPES}
    for one in loaded.values():
        jsonschema.Draft202012Validator.check_schema(one)
    line_schema = jsonschema.Draft202012Validator(loaded["report-line"])
    lines = [json.loads(line) for line in produce(sample(), "ndjson").splitlines()]
    for line in lines:
        line_schema.validate(line)
        jsonschema.Draft202012Validator(loaded[line["type"]]).validate(line)
    assert {line["type"] for line in lines} == {
        "header",
        "clause",
        "verdict",
        "finding",
        "selfcheck",
        "summary",
        "footer",
    }
    for wrong in ({**lines[0], "planned": "many"}, {"type": "header"}, {**lines[0], "type": "other"}, {}):
        assert not line_schema.is_valid(wrong)


def test_stale_schemas_are_named(tmp_path: Path) -> None:
    schema.export(tmp_path)
    assert schema.stale(tmp_path) == []
    (tmp_path / "case.schema.json").write_text("{}")
    (tmp_path / "header.schema.json").unlink()
    assert schema.stale(tmp_path) == ["case.schema.json is out of date", "header.schema.json is missing"]


# Hostile payloads


def hostile() -> RunReport:
    nasty = replace(
        JOIN,
        signature=HOSTILE,
        title=HOSTILE,
        stage=HOSTILE,
        field=HOSTILE,
        change=HOSTILE,
        culprit=(HOSTILE,),
        expected={HOSTILE: [HOSTILE, 10**5000]},
        got="z" * 10_000_000,
        note=HOSTILE,
        script=HOSTILE,
        replay=HOSTILE,
        witness=Case.make("render", "chat", {"prompt": HOSTILE, "long": "q" * 10_000_000}),
        targets=(HOSTILE,),
        clauses=(HOSTILE,),
    )
    report = sample()
    info = replace(report.header.targets[0], name=HOSTILE, reports={HOSTILE: HOSTILE}, limits={HOSTILE: HOSTILE})
    header = replace(
        report.header, targets=(info,), environment={HOSTILE: {HOSTILE: [HOSTILE]}}, options={HOSTILE: HOSTILE}
    )
    summary = replace(
        report.summary,
        matrix={HOSTILE: {HOSTILE: "fail"}},
        counts={HOSTILE: {HOSTILE: {"fail": 1}}},
        new=(HOSTILE,),
        known=(),
    )
    ratios = {HOSTILE: {HOSTILE: (0.5, float("nan"), float("inf"), 0.0)}}
    return replace(report, header=header, summary=summary, findings=(nasty,), ratios=ratios)


class Page(HTMLParser):
    """Collects the tags, the text outside of scripts and every attribute that could load something."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.loads += [
            value or "" for name, value in attrs if name in ("src", "href", "action", "data", "srcset", "poster")
        ]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_escapes_everything() -> None:
    raw = produce(hostile(), "html")
    assert len(raw) < html.SIZE
    page = Page()
    page.feed(raw.decode("utf-8"))
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert page.handlers == []
    assert "{{ 7*7 }}" in page.text, "payloads are never templates"
    assert "10,000,000 characters" in page.text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e\ud800-\udfff]", raw.decode())


def test_junit_of_hostile_payloads_is_wellformed() -> None:
    raw = produce(hostile(), "junit")
    case = next(c for c in ET.fromstring(raw).iter("testcase") if c.find("failure") is not None)
    failure = case.find("failure")
    assert failure is not None
    assert "</script>" in (failure.text or "")
    assert len(raw) < 100_000


def test_markdown_of_hostile_payloads_opens_no_tag_and_leaves_no_fence() -> None:
    made = markdown.render(hostile())
    assert len(made) <= markdown.BUDGET
    outside = re.sub(r"^(`{3,})\w*\n.*?^\1\n", "", made, flags=re.DOTALL | re.MULTILINE)
    outside = re.sub(r"(`+).+?\1", "", outside)
    assert set(re.findall(r"<(\w+)", outside)) <= {"details", "summary"}
    assert "```" not in outside


def test_markdown_fence_is_longer_than_any_inside() -> None:
    assert markdown.fence("a ```` b").startswith("`````\n")


@given(st.text(st.characters(exclude_categories=())))
def test_visible_text_holds_no_control_and_loses_nothing_else(value: str) -> None:
    shown = text.visible(value)
    shown.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", shown)
    assert text.visible(shown) == shown
    ET.fromstring(b"<a>" + shown.replace("&", "&amp;").replace("<", "&lt;").encode() + b"</a>")


@given(anything, st.integers(40, 2_000))
def test_pretty_is_bounded(value: object, limit: int) -> None:
    assert len(text.pretty(value, limit)) <= limit + 80


def test_a_payload_nested_beyond_any_stack_is_cut() -> None:
    value: object = 1
    for _ in range(100_000):
        value = [value]
    assert "nested deeper" in text.pretty(value)
    while isinstance(value, list):  # unwinding by hand: the interpreter would recurse
        value = value.pop()


def test_a_text_of_several_lines_is_shown_in_lines() -> None:
    assert text.pretty('a "quoted"\nb\\n') == '"a \\"quoted\\"\nb\\\\n"'


def test_token_ids_stand_in_one_line() -> None:
    assert text.pretty({"ids": [1, 2, 3]}) == '{\n  "ids": [1, 2, 3]\n}'


# HTML


def test_html_is_self_contained() -> None:
    raw = produce(sample(), "html").decode()
    page = Page()
    page.feed(raw)
    assert [load for load in page.loads if not load.startswith(("#", "data:"))] == []
    assert "@import" not in raw
    assert "url(" not in html._asset("report.css")
    assert {"link", "script"} & set(page.tags) == {"link", "script"}
    assert len(page.ids) == len(set(page.ids)), "ids are unique, those of the plots too"
    anchors = {load[1:] for load in page.loads if load.startswith("#")}
    assert anchors <= set(page.ids), "every link of the page leads somewhere"


def test_html_policy_admits_its_own_script_and_no_other() -> None:
    raw = produce(sample(), "html").decode()
    script = re.search(r"<script>(.*?)</script>", raw, re.DOTALL)
    assert script
    wanted = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{wanted}'" in raw
    assert "default-src 'none'" in raw


def test_html_first_screen_answers_the_questions() -> None:
    page = Page()
    page.feed(produce(sample(), "html").decode())
    first, _, _ = page.text.partition("Clause by target")
    for answer in (
        "3 new findings",
        "Exit status",
        "unexpected findings",
        "The run is valid",
        "97.4 %",
        JOIN.title,
        LIMIT.title,
    ):
        assert answer in first
    for finding in sample_run.FINDINGS:
        assert finding.replay in page.text


def test_html_marks_the_lines_that_differ() -> None:
    expected, got = html._side_by_side('{\n  "a": 1,\n  "b": 2\n}', '{\n  "a": 1\n}')
    assert [line for line, differs in expected if differs] == ['  "b": 2']
    assert [line for line, differs in got if differs] == []
    assert not any(differs for side in html._side_by_side("1", "a\nb") for _, differs in side)


@pytest.mark.parametrize(("count", "payload"), [(150, 40_000), (1_100, 100)])
def test_html_keeps_to_its_budget_and_says_what_it_left_out(count: int, payload: int) -> None:
    raw = produce(big_report(count, payload), "html")
    assert len(raw) <= html.SIZE
    assert b"Cut to stay below the size limit" in raw
    assert b"finding number 0" in raw


def test_html_says_nothing_of_cuts_where_nothing_was_cut() -> None:
    assert b"Cut to stay below" not in produce(sample(), "html")


def test_html_of_a_run_without_findings() -> None:
    report = replace(with_summary(new=(), known=(), exit=0), findings=())
    raw = produce(report, "html").decode()
    assert "no finding at all" in raw
    assert 'class="banner good"' in raw


def test_new_findings_come_first() -> None:
    raw = produce(sample(), "html").decode()
    states = re.findall(r'data-state="(\w+)"', raw)
    assert states == sorted(states, reverse=True)
    assert set(states) == {"new", "known"}


# Markdown and console


@pytest.mark.parametrize("count", [3, 40, 800])
def test_markdown_keeps_to_its_budget(count: int) -> None:
    made = markdown.render(big_report(count, 3_000))
    assert len(made) <= markdown.BUDGET
    assert made.splitlines()[0].startswith(f"## ❌ {count:,} new findings")
    assert ("Cut to" in made) == (count > 3)
    assert "Self-check" in made


def test_markdown_escapes_markup_and_mentions() -> None:
    assert markdown.inline("*a* @someone <b> | [x](y) #1") == "\\*a\\* @\u200dsomeone &lt;b\\> \\| \\[x\\](y) \\#1"
    assert markdown.inline("vllm-rs@0.33.0") == "vllm-rs@0.33.0"


def shown(report: RunReport, *, quiet: bool = False, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding) as file:
        console.show(report, {"html": Path("out/report.html")}, Console(file=file, width=100), quiet=quiet)
        file.flush()
        return raw.getvalue().decode(encoding)


def test_console_ends_with_what_to_do_next() -> None:
    lines = shown(sample()).splitlines()
    assert lines[-2] == "Report: out/report.html"
    assert lines[-1] == f"Replay the first new finding: {JOIN.replay}"
    assert shown(sample(), quiet=True).splitlines()[0] == "3 new findings, 1 known finding"
    assert "\x1b" not in shown(sample()), "no colour when piped"


def test_console_survives_hostile_text_and_a_poor_terminal() -> None:
    assert "[31m" in shown(replace(sample(), findings=(replace(JOIN, title="[red]\x1b[31m[/nothing]"), LIMIT)))
    assert shown(hostile(), encoding="ascii")


# Plots


def test_plots_count_what_is_beyond_the_bound() -> None:
    spread = plots.Spread.of("t", (0.0, 0.5, 1.0, 1.5, float("nan"), float("inf")))
    assert (spread.count, spread.exact, spread.beyond, spread.broken) == (6, 1, 3, 2)
    assert spread.largest == float("inf")


def test_plots_draw_any_sample() -> None:
    spreads = tuple(
        plots.Spread.of(name, ratios)
        for name, ratios in (
            ("$x_", (0.0, 0.0)),
            ("名前<&>", (float("nan"),)),
            ("huge", (1e300, 1e-300)),
            ("one", (1.0,)),
        )
    )
    svg = plots.draw(spreads, "p")
    assert ET.fromstring(svg).get("viewBox")
    assert "not finite" in svg
    assert "<style" not in svg, "matplotlib's own style would reach the whole page"
    assert "#0102" not in svg, "every colour follows the theme"


def test_plots_are_left_out_where_nothing_is_numeric() -> None:
    raw = produce(replace(sample(), ratios={}), "html").decode()
    assert "Error and bound" not in raw


def test_records_in_a_line_stay_in_a_line() -> None:
    assert to_line(replace(sample_run.VERDICTS[0], note="a\nb\u2028c")).count(b"\n") == 1
