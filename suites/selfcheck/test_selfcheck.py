"""The self-check: a clause that catches nothing, a fault that escapes and a false alarm all fail it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import pytest

from harness.outcome import Status
from harness.records import Case, Clause, Observation, SelfCheck, Verdict, from_line
from harness.selfcheck import SelfCheckError, check, passed
from harness.suite import Fault
from harness.targets.base import Answer, Blobs, Hello, InProcess, Unsupported
from suites.selfcheck.conftest import Afere, Install
from suites.selfcheck.toy import EMPTY, SIGN, SUM, Toy, honest, target

replace = msgspec.structs.replace
FAULTS = {fault.name: fault for fault in Toy().faults()}


class With(Toy):
    """The toy with other faults and clauses."""

    def __init__(self, *faults: Fault, clauses: tuple[Clause, ...] = (SUM, EMPTY, SIGN)) -> None:
        self._faults = faults
        self._clauses = clauses

    def faults(self) -> tuple[Fault, ...]:
        return self._faults

    def clauses(self) -> tuple[Clause, ...]:
        return self._clauses


def test_a_good_suite_passes_and_its_matrix_is_right() -> None:
    result = check(Toy())
    assert passed(result)
    assert result.matrix == {
        "toy-drops-last": (SUM.id,),
        "toy-takes-empty": (EMPTY.id,),
        "toy-refuses-negative": (SIGN.id,),
    }
    assert (result.faults, result.killed, result.honest, result.false_alarms) == (3, 3, 2, 0)
    assert (result.toothless, result.escaped, result.alarms) == ((), (), ())


def test_a_fault_that_escapes_fails_it() -> None:
    sleeper = Fault("sleeper", "is right", lambda: target("toy-folded"), (SUM.id,))
    result = check(With(*FAULTS.values(), sleeper))
    assert not passed(result)
    assert result.escaped == (f"sleeper: {SUM.id}",)
    assert (result.faults, result.killed) == (4, 3)


def test_a_fault_caught_by_another_clause_than_its_own_has_escaped() -> None:
    wrong = replace(FAULTS["toy-drops-last"], breaks=(SUM.id, SIGN.id))
    result = check(With(*FAULTS.values(), replace(wrong, name="wrong")))
    assert result.escaped == (f"wrong: {SIGN.id}",)
    assert result.matrix["wrong"] == (SUM.id,)


def test_a_clause_without_teeth_fails_it() -> None:
    some = [f for f in FAULTS.values() if f.name != "toy-takes-empty"]
    result = check(With(*some))
    assert result.toothless == (EMPTY.id,)
    assert not passed(result)


def test_a_clause_that_can_never_fail_is_toothless() -> None:
    decoration = Clause("T-NICE-1", "MAY", "The answer is nice.", "this file")
    result = check(With(*FAULTS.values(), clauses=(SUM, EMPTY, SIGN, decoration)))
    assert result.toothless == ("T-NICE-1",)


def test_a_false_alarm_fails_it() -> None:
    accused = Fault("accused", "said to be right", lambda: target("toy-drops-last"))
    result = check(With(*FAULTS.values(), accused))
    assert not passed(result)
    assert result.false_alarms == 1
    assert result.alarms
    assert result.alarms[0].startswith(f"accused: {SUM.id}: case ")
    assert "add sum differs" in result.alarms[0]


def test_an_honest_variant_that_answers_nothing_is_no_evidence() -> None:
    idle = Fault("idle", "can do nothing", lambda: InProcess("idle", {"subtract": honest}))
    result = check(With(*FAULTS.values(), idle))
    assert not passed(result)
    assert result.alarms == ("idle: it passed no clause on any case, so it proves nothing",)


class Shouting(Toy):
    """Its judge raises on what the planted fault answers."""

    def judge(self, case: Case, observations: Mapping[str, Observation], blobs: Blobs) -> Iterable[Verdict]:
        verdicts = list(super().judge(case, observations, blobs))
        if any(v.status is Status.FAIL for v in verdicts):
            raise KeyError("payload")
        return verdicts


def test_an_error_of_the_judge_is_no_catch() -> None:
    result = check(Shouting())
    assert not passed(result)
    assert result.killed == 0
    assert set(result.toothless) == {SUM.id, EMPTY.id, SIGN.id}


@pytest.mark.parametrize(
    ("faults", "says"),
    [
        ((), "needs at least one planted fault and one honest variant"),
        ((FAULTS["toy-honest"],), "needs at least one planted fault and one honest variant"),
        ((FAULTS["toy-drops-last"],), "needs at least one planted fault and one honest variant"),
        ((*FAULTS.values(), FAULTS["toy-folded"]), "has two planted targets named 'toy-folded'"),
        (
            (*FAULTS.values(), Fault("lost", "", lambda: target("toy-honest"), ("T-GONE-1",))),
            "planted fault 'lost' names clause 'T-GONE-1', which toy lacks",
        ),
    ],
)
def test_a_suite_that_cannot_be_checked_is_refused(faults: tuple[Fault, ...], says: str) -> None:
    with pytest.raises(SelfCheckError, match=says):
        check(With(*faults))


def test_a_planted_target_that_does_not_open_is_refused_and_all_are_closed() -> None:
    closed: list[str] = []

    class Shut(InProcess):
        def open(self) -> Hello:
            raise Unsupported("no AVX")

        def close(self) -> None:
            closed.append(self.name)

    shut = Fault("shut", "does not open", lambda: Shut("shut", {"add": honest}), (SUM.id,))
    with pytest.raises(SelfCheckError, match="planted target 'shut' cannot be opened: no AVX"):
        check(With(*FAULTS.values(), shut))
    assert closed == ["shut"]


def test_a_fault_is_judged_beside_its_own_partner() -> None:
    asked: list[str] = []

    class Noted(InProcess):
        def run(self, case: Case, blobs: Blobs) -> Answer:
            asked.append(self.name)
            return super().run(case, blobs)

    fault = replace(FAULTS["toy-refuses-negative"], partner=lambda: Noted("twin", {"add": honest}))
    others = [f for f in FAULTS.values() if f.name != fault.name]
    result = check(With(*others, fault))
    assert passed(result)
    assert set(asked) == {"twin"}


def test_the_command_ends_with_its_verdict_and_writes_the_scores(
    afere: Afere, install: Install, tmp_path: Path
) -> None:
    file = tmp_path / "scores.ndjson"
    ran = afere("selfcheck", "--write", file)
    assert ran.status == 0
    assert [from_line(line, SelfCheck).suite for line in file.read_bytes().splitlines()] == ["toy"]
    install(With(*[f for f in FAULTS.values() if f.name != "toy-takes-empty"]))
    ran = afere("selfcheck", "--json")
    assert ran.status == 1
    assert ran.json["passed"] is False
    assert ran.json["suites"][0]["toothless"] == [EMPTY.id]
    assert EMPTY.id in afere("selfcheck").out


def test_the_command_refuses_a_suite_without_faults(afere: Afere, install: Install) -> None:
    install(With())
    ran = afere("selfcheck")
    assert ran.status == 2
    assert "needs at least one planted fault" in ran.err
