"""The reports for people: hostile payloads stay payloads, budgets hold, and what is cut is said to be."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from harness.records import Case
from harness.report import RunReport, console, html, markdown, plots, text
from suites.selfcheck import sample_run
from suites.selfcheck.sample_run import (
    ANYTHING,
    JOIN,
    LIMIT,
    hostile,
    produce,
    sample,
    with_summary,
)

replace = msgspec.structs.replace


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


# Hostile payloads


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


@given(ANYTHING, st.integers(40, 2_000))
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
    matrix = {"R-BOS-1": {sample_run.ALPHA: "pass"}}
    report = replace(with_summary(new=(), known=(), exit=0, matrix=matrix), findings=())
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
