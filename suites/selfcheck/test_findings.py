"""Findings: one cause, one finding; known ones are neither shrunk nor alarming; what is stale or flaky is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.expectations import ExpectationError, load
from harness.findings import signature, title
from harness.outcome import Outcome, Status
from harness.records import Case, Observation, Verdict
from harness.suite import Session, TargetKind, TargetName
from harness.targets.base import Blobs, InProcess, Target
from suites.selfcheck.conftest import Afere, Install
from suites.selfcheck.toy import SIGN, SUM, Toy, honest

Wrong = Callable[[list[int]], Any]


class Planted(Toy):
    """The toy with targets that are wrong as a test says; counts how often each is asked."""

    def __init__(self, expected: Path | None = None, **wrong: Wrong) -> None:
        self._wrong = wrong
        self._expected = expected
        self.asked: dict[str, list[list[int]]] = {name: [] for name in wrong}

    def kinds(self) -> Mapping[str, TargetKind]:
        def build(name: TargetName, _session: Session) -> Target:
            def add(input: dict[str, Any], arrays: object) -> Any:  # noqa: A002
                self.asked[name.kind].append(input["numbers"])
                answer = self._wrong[name.kind](input["numbers"])
                return honest(input, arrays) if answer is None else answer

            return InProcess(str(name), {"add": add})

        return {**super().kinds(), **{n: TargetKind(n, "planted", build, embedded=True) for n in self._wrong}}

    def expectations(self) -> Path | None:
        return self._expected


def three(numbers: list[int]) -> int | None:
    return 1000 + len(numbers) if len(numbers) >= 3 else None


def negative(numbers: list[int]) -> int | None:
    return -(10**6) if numbers and min(numbers) < 0 else None


def either(numbers: list[int]) -> int | None:
    return three(numbers) or negative(numbers)


def run(afere: Afere, *words: str) -> Any:
    ran = afere("run", "--json", "--format", "ndjson", *words)
    assert ran.status in {0, 1}, ran.err
    return ran.json


def shipped(folder: Path, entries: Iterable[dict[str, Any]]) -> Path:
    """An expectations file with its witnesses."""
    lines = []
    for number, entry in enumerate(entries):
        name = f"witness-{number}.json"
        (folder / name).write_text(json.dumps(entry.pop("input")))
        lines += ["[[known]]", f'witness = "{name}"', *(f"{k} = {json.dumps(v)}" for k, v in entry.items())]
    path = folder / "expectations.toml"
    path.write_text("\n".join(lines))
    return path


def known(finding: dict[str, Any], *targets: str, **more: Any) -> dict[str, Any]:
    witness = {key: finding["witness"][key] for key in ("suite", "op", "input")}
    return {"signature": finding["signature"], "targets": targets, "reason": "told", "input": witness, **more}


# --- signatures


def test_a_signature_is_the_same_on_every_machine() -> None:
    assert signature("toy", ("add", "sum", "differs"), frozenset({"length:3", "negative"})) == "c2677558c02d"


def test_a_title_names_the_difference_and_its_cause() -> None:
    assert title(("add", "sum", "differs"), frozenset({"b", "a"})) == "add: sum differs (a, b)"
    assert title(("", "sum", "differs"), frozenset()) == "sum differs"


def test_values_texts_and_positions_are_no_part_of_it(install: Install, afere: Afere) -> None:
    install(Planted(a=three, b=lambda n: -(10**9) if len(n) >= 3 else None))
    findings = [run(afere, "-t", name, "--seed", seed)["findings"] for name, seed in (("a", "0"), ("b", "7"))]
    assert [len(f) for f in findings] == [1, 1]
    assert findings[0][0]["signature"] == findings[1][0]["signature"]
    assert findings[0][0]["got"] != findings[1][0]["got"]


def test_one_cause_on_several_targets_is_one_finding(install: Install, afere: Afere) -> None:
    install(Planted(a=three, b=three))
    (finding,) = run(afere, "-t", "a", "-t", "b", "-t", "toy-honest")["findings"]
    assert finding["targets"] == ["a", "b"]


def test_one_cause_under_several_clauses_is_one_finding(install: Install, afere: Afere) -> None:
    class Twice(Planted):
        def judge(self, case: Case, observations: Mapping[str, Observation], blobs: Blobs) -> Iterable[Verdict]:
            for verdict in super().judge(case, observations, blobs):
                yield verdict
                if verdict.clause == SUM.id and verdict.status is Status.FAIL:
                    yield Verdict(
                        SIGN.id, case.id, verdict.target, Status.FAIL, *verdict.shape, verdict.expected, verdict.got
                    )

    install(Twice(a=three))
    (finding,) = run(afere, "-t", "a")["findings"]
    assert finding["clauses"] == [SIGN.id, SUM.id]


def test_two_causes_of_one_shape_are_two_findings(install: Install, afere: Afere) -> None:
    install(Planted(a=either))
    found = run(afere, "-t", "a", "--cases", "80")["findings"]
    assert {tuple(f["culprit"]) for f in found} == {("length:3",), ("negative",)}
    assert {(f["stage"], f["field"], f["change"]) for f in found} == {("add", "sum", "differs")}
    assert len({f["signature"] for f in found}) == 2


def test_shrinking_does_not_slip_into_another_cause(install: Install, afere: Afere) -> None:
    def wrong(numbers: list[int]) -> int | None:
        return 10**6 if len(numbers) == 2 or (len(numbers) >= 3 and min(numbers) < 0) else None

    install(Planted(a=wrong))
    found = run(afere, "-t", "a", "--cases", "80")["findings"]
    assert {tuple(f["culprit"]) for f in found} == {("length:2",), ("length:3", "negative")}
    assert all(f["minimised"] for f in found)
    assert sorted(sorted(map(abs, f["witness"]["input"]["numbers"])) for f in found) == [[0, 0], [0, 0, 1]]


def test_a_finding_counts_the_planned_cases_that_show_it(install: Install, afere: Afere) -> None:
    suite = Planted(a=three)
    install(suite)
    (finding,) = run(afere, "-t", "a", "--cases", "60")["findings"]
    assert finding["cases"] == sum(len(n) >= 3 for n in suite.asked["a"][:60])


def test_a_finding_says_all_that_a_reader_needs(install: Install, afere: Afere) -> None:
    install(Planted(a=three))
    (finding,) = run(afere, "-t", "a")["findings"]
    assert finding["witness"]["input"] == {"numbers": [0, 0, 0]}
    assert (finding["expected"], finding["got"]) == (0, 1003)
    assert finding["minimised"]
    assert finding["script"].startswith("python -c")
    words = finding["replay"].split()
    assert words[:2] == ["afere", "replay"]
    ran = afere(*words[1:])
    assert ran.status == 1
    assert "still shows on a" in ran.out


def test_a_replay_says_when_the_difference_is_gone(install: Install, afere: Afere) -> None:
    install(Planted(a=three))
    words = run(afere, "-t", "a")["findings"][0]["replay"].split()
    install(Planted(a=lambda _numbers: None))
    ran = afere(*words[1:], "--json")
    assert ran.status == 0
    assert ran.json["shows"] == {"a": False}


def test_peers_are_named_and_not_blamed_twice(install: Install, afere: Afere) -> None:
    found = run(afere, "-t", "toy-honest", "-t", "toy-refuses-negative")["findings"]
    (finding,) = [f for f in found if f["clauses"] == [SIGN.id]]
    assert set(finding["targets"]) | set(finding["peers"]) == {"toy-honest", "toy-refuses-negative"}
    assert not set(finding["targets"]) & set(finding["peers"])


# --- known findings


def test_a_known_finding_does_not_fail_the_run_and_is_not_shrunk(
    install: Install, afere: Afere, tmp_path: Path
) -> None:
    install(Planted(a=three))
    (finding,) = run(afere, "-t", "a")["findings"]
    suite = Planted(shipped(tmp_path, [known(finding, "a")]), a=three)
    install(suite)
    told = run(afere, "-t", "a")
    assert told["summary"]["exit"] == 0
    assert told["summary"]["known"] == [finding["signature"]]
    assert (told["summary"]["new"], told["summary"]["stale"]) == ([], [])
    assert told["findings"][0]["known"] == "told"
    # once in the planned round and its witness once more as a smallest case: nothing was searched
    planned = told["summary"]["cases"]
    assert len(suite.asked["a"]) <= planned + 1


def test_a_known_finding_is_replayed_where_no_generated_case_shows_it(
    install: Install, afere: Afere, tmp_path: Path
) -> None:
    def rare(numbers: list[int]) -> int | None:
        return 5 if numbers == [7, 7, 7, 7, 7, 7, 7] else None

    shape = ("add", "sum", "differs")
    witness = {"suite": "toy", "op": "add", "input": {"numbers": [7] * 7}}
    entry = {
        "signature": signature("toy", shape, frozenset({"length:3"})), "targets": ["a"], "reason": "rare",
        "input": witness,
    }  # fmt: skip
    install(Planted(shipped(tmp_path, [entry]), a=rare))
    told = run(afere, "-t", "a", "--cases", "5")
    assert told["summary"]["known"] == [entry["signature"]]
    assert told["summary"]["cases"] == 6


def test_known_of_one_target_is_new_on_another(install: Install, afere: Afere, tmp_path: Path) -> None:
    install(Planted(a=three, b=three))
    (finding,) = run(afere, "-t", "a")["findings"]
    suite = Planted(shipped(tmp_path, [known(finding, "a")]), a=three, b=three)
    install(suite)
    told = run(afere, "-t", "a", "-t", "b")
    assert told["summary"]["exit"] == 1
    assert told["summary"]["new"] == [finding["signature"]]
    planned = told["summary"]["cases"]
    assert len(suite.asked["b"]) > planned + 1, "what is new on it is shrunk on it"


def test_a_new_cause_of_a_known_shape_is_new(install: Install, afere: Afere, tmp_path: Path) -> None:
    install(Planted(a=three))
    (finding,) = run(afere, "-t", "a")["findings"]
    install(Planted(shipped(tmp_path, [known(finding, "*")]), a=either))
    told = run(afere, "-t", "a", "--cases", "80")
    assert told["summary"]["known"] == [finding["signature"]]
    assert len(told["summary"]["new"]) == 1
    (new,) = [f for f in told["findings"] if not f["known"]]
    assert new["culprit"] == ["negative"]


@pytest.mark.parametrize("pattern", ["toy-*", "toy-honest", "toy-hon?st"])
def test_a_known_finding_that_does_not_show_is_stale(
    install: Install, afere: Afere, tmp_path: Path, pattern: str
) -> None:
    witness = {"suite": "toy", "op": "add", "input": {"numbers": [0, 0, 0]}}
    entry = {"signature": "0123456789ab", "targets": [pattern], "reason": "was so", "input": witness}
    install(Planted(shipped(tmp_path, [entry])))
    told = run(afere, "-t", "toy-honest")
    assert told["summary"]["stale"] == ["0123456789ab"]
    assert told["summary"]["exit"] == 0


def test_a_known_finding_of_a_target_that_was_not_asked_is_not_stale(
    install: Install, afere: Afere, tmp_path: Path
) -> None:
    witness = {"suite": "toy", "op": "add", "input": {"numbers": [0, 0, 0]}}
    entry = {"signature": "0123456789ab", "targets": ["other@*"], "reason": "was so", "input": witness}
    install(Planted(shipped(tmp_path, [entry])))
    assert run(afere, "-t", "toy-honest")["summary"]["stale"] == []


def test_expectations_of_ones_own_are_added(install: Install, afere: Afere, tmp_path: Path) -> None:
    install(Planted(a=three))
    (finding,) = run(afere, "-t", "a")["findings"]
    file = shipped(tmp_path, [known(finding, "a")])
    assert run(afere, "-t", "a", "--expect", str(file))["summary"]["exit"] == 0


GOOD = '[[known]]\nsignature = "a"\ntargets = ["x"]\nreason = "r"\nwitness = "w.json"\n'
BAD_FILES = {
    "no such file": (None, "does not exist"),
    "broken TOML": ("[[known]\n", "is broken"),
    "no reason": (GOOD.replace('"r"', '" "'), "a has no reason"),
    "no target": (GOOD.replace('["x"]', "[]"), "a names no target"),
    "a key too many": (GOOD + "expires = 1\n", "unknown field `expires`"),
    "a key too few": (GOOD.replace('reason = "r"\n', ""), "missing required field `reason`"),
    "no witness": (GOOD.replace("w.json", "gone.json"), "gone.json of a does not exist"),
    "broken witness": (GOOD.replace("w.json", "broken.json"), "broken.json is broken"),
    "not text": (b"\xff\xfe", "is broken"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_of_known_findings_that_cannot_be_used_is_one_sentence(afere: Afere, tmp_path: Path, name: str) -> None:
    text, says = BAD_FILES[name]
    (tmp_path / "w.json").write_text('{"suite": "toy", "op": "add", "input": {"numbers": [1]}}')
    (tmp_path / "broken.json").write_text('{"suite": "toy"}')
    path = tmp_path / "known.toml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ExpectationError, match=says):
        load(path)
    ran = afere("run", "--expect", path)
    assert (ran.status, ran.out) == (3, "")
    assert says in ran.err
    assert ran.err.count("\n") == 1
    assert not Path("reports").exists()


def test_a_witness_that_is_no_case_any_more_is_said(install: Install, afere: Afere, tmp_path: Path) -> None:
    witness = {"suite": "toy", "op": "add", "input": {"words": []}}
    entry = {"signature": "0123456789ab", "targets": ["*"], "reason": "was so", "input": witness}
    install(Planted(shipped(tmp_path, [entry])))
    ran = afere("run", "-t", "toy-honest")
    assert ran.status == 3
    assert "the witness of known finding 0123456789ab is no case of suite toy any more" in ran.err


# --- flaky targets


def test_a_flaky_target_keeps_its_first_result(install: Install, afere: Afere) -> None:
    calls: list[int] = []

    def once(numbers: list[int]) -> int | None:
        calls.append(1)
        return 10**6 if len(calls) == 12 else None

    install(Planted(a=once))
    told = run(afere, "-t", "a")
    (finding,) = told["findings"]
    assert told["summary"]["exit"] == 1
    assert (finding["got"], finding["minimised"], finding["cases"]) == (10**6, False, 1)
    assert "did not show again" in finding["note"]


def test_a_crash_counts_as_itself_in_a_finding(install: Install, afere: Afere) -> None:
    def dies(numbers: list[int]) -> int | None:
        if len(numbers) >= 3:
            raise MemoryError("too much")
        return None

    install(Planted(a=dies))
    told = run(afere, "-t", "a")
    assert told["summary"]["outcomes"]["a"][Outcome.FAILED.value] > 0
    assert "failed" in {f["change"] for f in told["findings"]}
