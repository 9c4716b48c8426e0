"""The HTML report in a real browser: it loads nothing, reports no error, filters, and can be read and switched."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.report import write
from suites.selfcheck.sample_run import ALPHA, BETA, DEFAULT, DELTA, FINDINGS, GAMMA, JOIN, LIMIT, LSE, hostile, sample

pytestmark = pytest.mark.browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"no Chromium on the path (looked for {', '.join(NAMES)}); Debian's package is called chromium")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; it is in the extra 'dev'")
    # Chromium refuses to run as root inside its sandbox; the page is our own.
    flags = [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else FLAGS
    with api.sync_playwright() as play:
        running = play.chromium.launch(executable_path=program, args=flags)
        yield running
        running.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(sample(), tmp_path_factory.mktemp("report"), ["html"])["html"].as_uri()


class Visit:
    """One page with everything it complained of and everything it asked for."""

    def __init__(self, browser: Any, url: str, **context: Any) -> None:
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(url)

    def titles(self) -> set[str]:
        return set(self.page.locator(".finding:visible .title").all_inner_texts())

    def background(self) -> str:
        return str(self.page.evaluate("getComputedStyle(document.body).backgroundColor"))


@pytest.fixture
def visit(browser: Any, url: str) -> Iterator[Visit]:
    visit = Visit(browser, url, color_scheme="light")
    yield visit
    visit.context.close()
    assert visit.errors == []
    # Chromium asks for nothing else: not even an icon.
    assert [r for r in visit.requests if r != url and not r.startswith("data:")] == []


def test_page_opens_without_error_or_request(visit: Visit) -> None:
    assert visit.page.title().startswith("New findings")
    assert visit.page.locator("h1").inner_text() == "3 new findings, 1 known finding"
    assert visit.titles() == {f.title for f in FINDINGS}
    assert visit.page.locator("svg.plot").count() == 2


def test_filters_narrow_the_findings(visit: Visit) -> None:
    page = visit.page
    page.select_option("[data-filter=state]", "known")
    assert visit.titles() == {DEFAULT.title}
    page.select_option("[data-filter=state]", "")
    page.select_option("[data-filter=target]", BETA)
    assert visit.titles() == {LIMIT.title, DEFAULT.title}
    page.select_option("[data-filter=clause]", "R-LIMIT-2")
    assert visit.titles() == {LIMIT.title}
    assert page.locator("#shown").inner_text() == "1 of 4 shown"
    page.select_option("[data-filter=suite]", "mla")
    assert visit.titles() == set()
    assert page.locator("#none").is_visible()
    page.click("#clear")
    page.wait_for_function("document.getElementById('none').hidden")
    assert visit.titles() == {f.title for f in FINDINGS}


def test_search_reads_payloads(visit: Visit) -> None:
    visit.page.keyboard.press("/")
    visit.page.keyboard.type("prompt_token_ids 513")
    assert visit.titles() == {LIMIT.title}
    visit.page.fill("#q", "no such words anywhere")
    assert visit.titles() == set()


def test_a_finding_opens_and_shows_its_replay_line(visit: Visit) -> None:
    finding = visit.page.locator(".finding", has_text=JOIN.title)
    replay = finding.locator("pre.replay")
    assert not replay.is_visible()
    finding.locator("summary").click()
    assert replay.is_visible()
    assert replay.inner_text() == JOIN.replay
    assert finding.locator(".expected mark").count() == 2
    assert "messages[].content" in finding.locator(".path").inner_text()
    assert finding.locator("figure", has_text="Without Afere").locator("pre").inner_text() == JOIN.script


def test_copy_gives_the_replay_line(browser: Any, url: str) -> None:
    visit = Visit(browser, url, permissions=["clipboard-read", "clipboard-write"])
    finding = visit.page.locator(".finding", has_text=JOIN.title)
    finding.locator("summary").click()
    button = finding.locator("figure", has=visit.page.locator("pre.replay")).locator(".copy")
    button.click()
    visit.page.wait_for_function("[...document.querySelectorAll('.copy')].some((b) => b.textContent !== 'Copy')")
    copied = visit.page.evaluate("navigator.clipboard.readText().catch(() => getSelection().toString())")
    visit.context.close()
    assert copied == JOIN.replay
    assert visit.errors == []


def test_links_open_findings_even_where_a_filter_hides_them(visit: Visit) -> None:
    page = visit.page
    page.select_option("[data-filter=state]", "known")
    page.locator(".newlist a", has_text=LSE.title).click()
    target = page.locator(".finding", has_text=LSE.title)
    target.locator("pre.replay").wait_for(state="visible")
    assert target.locator("pre.replay").inner_text() == LSE.replay


def test_matrix_says_in_words_what_it_says_in_colour(visit: Visit) -> None:
    rows = visit.page.locator(".matrix tbody tr")
    row = rows.filter(has_text="M-LSE-1")
    words = [" ".join(cell.split()) for cell in row.locator("td").all_inner_texts()]
    assert words == ["✗ fail 3 of 96", "∅ unsupported 96"]
    cell = row.locator("td.fail")
    cell.locator("summary").click()
    assert "93 pass" in cell.inner_text()
    assert cell.locator("a", has_text=LSE.title).is_visible()
    head = visit.page.locator(".matrix thead th").all_text_contents()
    assert [h.replace("\u200b", "") for h in head] == ["Clause", ALPHA, BETA, "Clause", GAMMA, DELTA]


def test_theme_follows_the_system_and_can_be_switched(browser: Any, url: str) -> None:
    light, dark = Visit(browser, url, color_scheme="light"), Visit(browser, url, color_scheme="dark")
    white, black = light.background(), dark.background()
    assert white != black
    light.page.click("#theme")
    assert light.background() == black
    light.page.reload()
    assert light.background() == black, "the choice is remembered"
    light.page.click("#theme")
    assert light.background() == white
    for visit in (light, dark):
        visit.context.close()
        assert visit.errors == []


def test_page_fits_a_narrow_screen(browser: Any, url: str) -> None:
    visit = Visit(browser, url, viewport={"width": 360, "height": 740})
    visit.page.locator(".finding").first.locator("summary").click()
    width = visit.page.evaluate("document.documentElement.scrollWidth")
    visit.context.close()
    assert width == 360


def test_page_reads_without_script(browser: Any, url: str) -> None:
    visit = Visit(browser, url, java_script_enabled=False)
    finding = visit.page.locator(".finding", has_text=JOIN.title)
    finding.locator("summary").click()
    assert finding.locator("pre.replay").inner_text() == JOIN.replay
    assert not visit.page.locator("#filters").is_visible()
    assert not visit.page.locator("#theme").is_visible()
    visit.context.close()


def test_the_checked_in_sample_opens(browser: Any) -> None:
    stored = Path(__file__).resolve().parents[2] / "reports" / "samples" / "report.html"
    visit = Visit(browser, stored.as_uri())
    assert visit.titles() == {f.title for f in FINDINGS}
    visit.context.close()
    assert visit.errors == []


def test_hostile_payloads_stay_payloads(browser: Any, tmp_path: Path) -> None:
    url = write(hostile(), tmp_path, ["html"])["html"].as_uri()
    visit = Visit(browser, url, viewport={"width": 360, "height": 740})
    page = visit.page
    # Opens everything, so that everything is laid out.
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.fill("#q", "alert(1)")
    assert page.locator(".finding:visible").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.evaluate("document.images.length + document.scripts.length") == 1
    visit.context.close()
    assert visit.errors == []
    assert [r for r in visit.requests if r != url and not r.startswith("data:")] == []
