"""Judging: a run that is no evidence vouches for nothing, judging is pure, and it does not grow with the run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.blobs import BlobStore
from harness.journal import RunFolder
from harness.judge import JUDGE_FAULT, SILENT, Tally, joined, judge_case, judge_round, verdicts
from harness.outcome import Outcome, Status
from harness.records import Case, Clause, Json, Observation, Summary, Verdict
from harness.run import rejudge
from harness.suite import Suite
from harness.targets.base import Blobs
from suites.selfcheck.conftest import Afere, Install
from suites.selfcheck.drive import info, judged, observe, toy_cases, toy_run, write_run
from suites.selfcheck.toy import SUM, Toy

HONEST, FOLDED = "toy-honest", "toy-folded"
CASES = toy_cases(6)
ROWS = [observe(case, HONEST) for case in CASES]
replace = msgspec.structs.replace


@pytest.mark.usefixtures("toy")
def test_an_honest_complete_run_is_valid(tmp_path: Path) -> None:
    summary = judged(toy_run(tmp_path / "run", [HONEST, FOLDED]))
    assert (summary.valid, summary.problems, summary.exit) == (True, (), 0)
    assert (summary.cases, summary.observations) == (12, 24)


# --- planned set = observed set


def _run(path: Path, rows: Iterable[Observation], **options: Any) -> RunFolder:
    return write_run(path, CASES, {HONEST: list(rows)}, **options)


STRANGER = replace(ROWS[0], case="0" * 20)

BROKEN_RUNS: dict[str, tuple[Callable[[Path], RunFolder], str]] = {
    "missing at the end": (lambda p: _run(p, ROWS[:-1]), "has no observation of 1 planned case"),
    "missing in the middle": (lambda p: _run(p, [*ROWS[:2], *ROWS[3:]]), "has no observation of 1 planned case"),
    "all missing": (lambda p: _run(p, []), "has no observation of 6 planned case"),
    "a duplicate": (lambda p: _run(p, [*ROWS[:2], ROWS[1], *ROWS[2:]]), "has two first observations of case"),
    "a better duplicate": (
        lambda p: _run(p, [replace(ROWS[0], outcome=Outcome.FAILED), *ROWS]),
        "has two first observations of case",
    ),
    "unplanned at the end": (lambda p: _run(p, [*ROWS, STRANGER]), "that is not planned, or is out of order"),
    "unplanned in between": (
        lambda p: _run(p, [*ROWS[:2], STRANGER, *ROWS[2:]]),
        "that is not planned, or is out of order",
    ),
    "out of order": (lambda p: _run(p, ROWS[::-1]), "that is not planned, or is out of order"),
    "only a retry": (
        lambda p: _run(p, [replace(ROWS[0], attempt=1), *ROWS[1:]]),
        "has a retry of case",
    ),
    "no cases": (lambda p: write_run(p, [], {HONEST: []}), "no case was judged"),
    "no targets": (lambda p: write_run(p, CASES, {}), "nothing was judged"),
    "no footer": (lambda p: _run(p, ROWS, footer=False), "it has no footer"),
    "fewer planned than the header says": (
        lambda p: _run(p, ROWS, header={"planned": 7}),
        "the header plans 7 cases, the plan holds 6",
    ),
    "more planned than the header says": (
        lambda p: _run(p, ROWS, header={"planned": 5}),
        "the header plans 5 cases, the plan holds 6",
    ),
    "fewer observed than the header says": (
        lambda p: _run(p, ROWS, header={"pairs": 12}),
        "the header plans 12 observations, the run holds 6",
    ),
    "a target that is gone from the header": (
        lambda p: write_run(
            p, CASES, {HONEST: ROWS, FOLDED: [observe(c, FOLDED) for c in CASES]}, infos=[info(HONEST)]
        ),
        "a target that the header does not list",
    ),
    "all unsupported": (
        lambda p: write_run(
            p,
            CASES,
            {HONEST: [Observation(c.id, HONEST, Outcome.UNSUPPORTED, detail="no AVX") for c in CASES]},
            infos=[info(HONEST, unsupported="this processor has no AVX")],
        ),
        "no verdict is a pass or a fail; toy-honest: this processor has no AVX",
    ),
    "a target that was not there": (
        lambda p: write_run(
            p,
            CASES,
            {HONEST: ROWS, FOLDED: [Observation(c.id, FOLDED, Outcome.UNSUPPORTED) for c in CASES]},
            infos=[info(HONEST), info(FOLDED, unavailable="not provisioned")],
        ),
        "toy-folded could not be asked: not provisioned",
    ),
    "a fault of the harness": (
        lambda p: _run(p, [replace(ROWS[0], fault="BlobError: gone"), *ROWS[1:]]),
        "1 verdict(s) are errors of the harness or a suite",
    ),
}


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("name", BROKEN_RUNS)
def test_a_run_that_is_no_evidence_ends_with_2(tmp_path: Path, name: str) -> None:
    make, says = BROKEN_RUNS[name]
    summary = judged(make(tmp_path / "run"))
    assert (summary.exit, summary.valid) == (2, False)
    assert any(says in problem for problem in summary.problems), summary.problems


@pytest.mark.usefixtures("toy")
def test_a_footer_that_counts_wrongly_ends_with_2(tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run")
    footer = folder.footer()
    assert footer is not None
    folder.write_footer(replace(footer, observations=11))
    summary = judged(folder)
    assert summary.exit == 2
    assert "the footer counts 11 observations, the run holds 12" in summary.problems


def test_a_suite_that_is_not_installed_here_ends_with_2(install: Install, tmp_path: Path) -> None:
    install()
    summary = judged(toy_run(tmp_path / "run"))
    assert summary.exit == 2
    assert any("suite 'toy' of case" in problem for problem in summary.problems)


# --- a judge that is wrong itself


class Odd(Toy):
    """The toy with another judge."""

    def __init__(self, judge: Callable[[Case, str], Iterable[Verdict]]) -> None:
        self._judge = judge

    def judge(self, case: Case, observations: Mapping[str, Observation], blobs: Blobs) -> Iterable[Verdict]:
        for name in observations:
            yield from self._judge(case, name)


def _passes(case: Case, name: str) -> Verdict:
    return Verdict(SUM.id, case.id, name, Status.PASS)


def _raises(case: Case, name: str) -> Iterator[Verdict]:
    yield _passes(case, name)
    raise KeyError("expected")


JUDGES: dict[str, tuple[Callable[[Case, str], Iterable[Verdict]], Status]] = {
    "raises after a pass": (_raises, Status.ERROR),
    "is silent": (lambda _c, _n: [], Status.UNKNOWN),
    "speaks of an unknown clause": (
        lambda c, n: [Verdict("T-SUM-9", c.id, n, Status.PASS), _passes(c, n)],
        Status.ERROR,
    ),
    "speaks of another case": (lambda _c, n: [Verdict(SUM.id, "0" * 20, n, Status.PASS)], Status.ERROR),
    "speaks of another target": (lambda c, _n: [_passes(c, "toy-other")], Status.ERROR),
    "gives no verdict": (lambda _c, _n: [None], Status.ERROR),  # type: ignore[list-item]
    "only skips": (lambda c, n: [Verdict(SUM.id, c.id, n, Status.SKIPPED, note="why not")], Status.SKIPPED),
    "says that it does not know": (lambda c, n: [Verdict(SUM.id, c.id, n, Status.UNKNOWN)], Status.UNKNOWN),
}


@pytest.mark.parametrize("name", JUDGES)
def test_a_judge_that_is_wrong_itself_cannot_pass_anything(install: Install, tmp_path: Path, name: str) -> None:
    judge, status = JUDGES[name]
    install(Odd(judge))
    folder = toy_run(tmp_path / "run")
    summary = judged(folder)
    assert summary.exit == 2
    assert status.value in summary.verdicts
    assert status in {v.status for v in verdicts(folder.path)}


def test_the_fault_names_the_suite_and_what_it_did(blobs: BlobStore) -> None:
    case = CASES[1]
    seen = {HONEST: ROWS[1], FOLDED: replace(ROWS[1], target=FOLDED, fault="OSError: disk full")}
    known = frozenset({SUM.id})
    found = judge_case(Odd(_raises), known, case, seen, blobs)
    assert [(v.clause, v.target, v.status) for v in found] == [
        (JUDGE_FAULT, FOLDED, Status.ERROR),
        (JUDGE_FAULT, HONEST, Status.ERROR),
    ]
    assert "OSError: disk full" in found[0].note
    assert "suite toy raised KeyError" in found[1].note
    assert [v.clause for v in judge_case(Odd(lambda _c, _n: []), known, case, {HONEST: ROWS[1]}, blobs)] == [SILENT]


def test_a_judge_is_not_shown_observations_that_are_our_own_fault(blobs: BlobStore) -> None:
    asked: list[str] = []

    def note(case: Case, name: str) -> list[Verdict]:
        asked.append(name)
        return [_passes(case, name)]

    seen = {HONEST: ROWS[1], FOLDED: replace(ROWS[1], target=FOLDED, fault="OSError")}
    judge_case(Odd(note), frozenset({SUM.id}), CASES[1], seen, blobs)
    assert asked == [HONEST]


# --- pure


@pytest.mark.parametrize("minimise", ["--minimise", "--no-minimise"])
def test_judging_twice_is_judging_once(afere: Afere, minimise: str) -> None:
    words = ["run", "-t", HONEST, "-t", "toy-drops-last", "-t", "toy-refuses-negative", minimise, "--json"]
    folder = Path(afere(*words).json["folder"])
    names = (
        "verdicts.ndjson",
        "summary.json",
        "clauses.ndjson",
        "ratios.json",
        "findings",
        "report.ndjson",
        "junit.xml",
    )

    def texts() -> dict[str, bytes]:
        found = [p for name in names for p in [folder / name, *(folder / name).rglob("*")] if p.is_file()]
        return {str(p.relative_to(folder)): p.read_bytes() for p in found}

    once = texts()
    assert len(once) > len(names)
    for _ in range(2):
        assert afere("judge", folder).status == 1
        assert texts() == once


@pytest.mark.usefixtures("toy")
def test_judging_asks_no_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("a target was asked while judging")

    monkeypatch.setattr("harness.targets.base.InProcess.open", asked)
    monkeypatch.setattr("harness.targets.base.InProcess.run", asked)
    assert judged(toy_run(tmp_path / "run")).exit == 0


@pytest.mark.usefixtures("toy")
def test_an_earlier_judgement_leaves_no_finding_behind(tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run")
    (folder.path / "findings").mkdir()
    (folder.path / "findings" / "0123456789ab.json").write_text("{}")
    judged(folder)
    assert list((folder.path / "findings").iterdir()) == []


# --- memory


class Endless:
    """A round that never ends and notes how far it was read."""

    def __init__(self) -> None:
        self.cases = 0
        self.rows = 0

    def plan(self) -> Iterator[Case]:
        for number in itertools.count():
            self.cases += 1
            yield Case.make("toy", "add", {"numbers": [number]})

    def observations(self, _suite: str, target: str) -> Iterator[Observation]:
        for number in itertools.count():
            self.rows += 1
            yield observe(Case.make("toy", "add", {"numbers": [number]}), target)


def test_plan_and_observations_are_read_in_step() -> None:
    endless: Any = Endless()
    rows = joined(endless, [info(HONEST), info(FOLDED)], lambda _text: None)
    for _ in range(50):
        _, found = next(rows)
        assert set(found) == {HONEST, FOLDED}
    assert endless.cases == 50
    assert endless.rows <= 2 * 51


def test_verdicts_are_handed_on_as_they_fall(blobs: BlobStore) -> None:
    class EnoughError(Exception):
        pass

    def sink(case: Case, verdict: Verdict) -> None:
        if case.input["numbers"] == [20]:
            raise EnoughError

    endless: Any = Endless()
    tally = Tally()
    with pytest.raises(EnoughError):
        judge_round(endless, {"toy": Toy()}, [info(HONEST)], blobs, tally, [sink])
    assert tally.cases == 21
    assert endless.rows <= 22


# --- what is written


class Ratios(Toy):
    """Says how far off each answer is."""

    def __init__(self, ratio: float) -> None:
        self.ratio = ratio

    def judge(self, case: Case, observations: Mapping[str, Observation], blobs: Blobs) -> Iterable[Verdict]:
        for name in observations:
            yield Verdict(SUM.id, case.id, name, Status.PASS, note="\ud800", ratio=self.ratio)


@pytest.mark.parametrize("ratio", [0.5, float("inf"), 0.0])
def test_a_ratio_is_kept_as_it_was(install: Install, tmp_path: Path, ratio: float) -> None:
    install(Ratios(ratio))
    folder = toy_run(tmp_path / "run", count=2)
    judged(folder)
    assert [(v.ratio, v.note) for v in verdicts(folder.path)] == [(ratio, "\ud800")] * 2
    assert rejudge(folder.path).summary is not None


def test_a_pass_that_is_a_decision_is_counted_on_its_own(toy: Toy, tmp_path: Path) -> None:
    summary: Summary = judged(toy_run(tmp_path / "run", [HONEST]))
    assert summary.decisions == 1  # the refusal of the empty list
    clause: Clause = toy.clauses()[1]
    assert summary.counts[clause.id][HONEST] == {"pass": 1}


def test_a_clause_that_nothing_was_about_is_unknown_and_no_pass(toy: Toy, tmp_path: Path) -> None:
    cases = [case for case in toy_cases(12) if case.input["numbers"]]
    summary = judged(write_run(tmp_path / "run", cases, {HONEST: [observe(case, HONEST) for case in cases]}))
    assert summary.matrix[toy.clauses()[1].id][HONEST] == "unknown"


def test_the_toy_is_a_suite() -> None:
    suite: Suite = Toy()
    value: Json = suite.plainest(CASES[0])
    assert value == {"numbers": [0]}
