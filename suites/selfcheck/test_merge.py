"""Merging shards: their union, whatever the order and however often; what contradicts itself is refused."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.journal import RunError, RunFolder
from harness.merge import merge
from harness.outcome import Outcome
from harness.records import Case, Cost, Observation
from harness.targets.base import Tensor
from suites.selfcheck.conftest import Afere
from suites.selfcheck.drive import contents, info, judged, observe, toy_cases, toy_run, write_run

HONEST, FOLDED = "toy-honest", "toy-folded"
CASES = toy_cases(8)
Shard = tuple[frozenset[int], frozenset[str]]
replace = msgspec.structs.replace


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="afere-test-") as folder:
        yield Path(folder)


def record(path: Path, shard: Shard) -> Path:
    indexes, targets = shard
    cases = [CASES[i] for i in sorted(indexes)]
    return write_run(path, cases, {name: [observe(case, name) for case in cases] for name in sorted(targets)}).path


def said(folder: Path) -> dict[str, Any]:
    header = msgspec.to_builtins(RunFolder.load(folder).header())
    del header["run"]
    return {"header": header, **contents(folder)}


shards = st.lists(
    st.tuples(
        st.frozensets(st.integers(0, len(CASES) - 1), min_size=1),
        st.frozensets(st.sampled_from([HONEST, FOLDED]), min_size=1),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=25)
@given(shards, st.randoms(use_true_random=False), st.integers(1, 3))
def test_order_steps_and_repetition_do_not_matter(some: list[Shard], random: Any, cut: int) -> None:
    with scratch() as place:
        paths = [record(place / f"shard-{i}", shard) for i, shard in enumerate(some)]
        at_once = said(merge(paths, place / "at-once").path)
        shuffled = [*paths, paths[0]]
        random.shuffle(shuffled)
        assert said(merge(shuffled, place / "shuffled").path) == at_once
        assert said(merge([place / "at-once"], place / "again").path) == at_once
        if len(paths) > cut:
            first = merge(paths[:cut], place / "first").path
            assert said(merge([*paths[cut:], first], place / "in-steps").path) == at_once


@pytest.mark.usefixtures("toy")
def test_shards_by_case_and_by_target_give_the_whole_run(tmp_path: Path) -> None:
    low, high = frozenset(range(4)), frozenset(range(4, 8))
    grid = [(low, frozenset({HONEST})), (high, frozenset({HONEST})), (low | high, frozenset({FOLDED}))]
    paths = [record(tmp_path / f"{i}", shard) for i, shard in enumerate(grid)]
    whole = record(tmp_path / "whole", (low | high, frozenset({HONEST, FOLDED})))
    merged = [merge(order, tmp_path / f"merged-{i}").path for i, order in enumerate(permutations(paths))]
    summaries = [replace(judged(RunFolder.load(path)), run="") for path in merged]
    expected = replace(judged(RunFolder.load(whole)), run="")
    assert expected.valid
    assert all(summary == expected for summary in summaries)


@pytest.mark.usefixtures("toy")
def test_a_hole_in_the_grid_is_no_complete_run(tmp_path: Path) -> None:
    one = record(tmp_path / "one", (frozenset({0, 1}), frozenset({HONEST})))
    other = record(tmp_path / "other", (frozenset({2, 3}), frozenset({FOLDED})))
    merged = merge([one, other], tmp_path / "merged")
    assert merged.footer() is None
    summary = judged(merged)
    assert summary.exit == 2
    assert f"{HONEST} has no observation of 2 planned case(s)" in summary.problems


@pytest.mark.usefixtures("toy")
def test_an_unfinished_shard_does_not_become_finished(tmp_path: Path) -> None:
    whole = toy_run(tmp_path / "whole", [HONEST])
    part = toy_run(tmp_path / "part", [FOLDED], footer=False)
    merged = merge([whole.path, part.path], tmp_path / "merged")
    assert merged.footer() is None
    assert judged(merged).exit == 2


def _payload(row: Observation) -> Observation:
    return replace(row, payload=10**6)


def _outcome(row: Observation) -> Observation:
    return replace(row, outcome=Outcome.FAILED)


@pytest.mark.parametrize("change", [_payload, _outcome])
def test_two_different_results_of_one_case_are_refused(
    tmp_path: Path, change: Callable[[Observation], Observation]
) -> None:
    cases = CASES[1:3]
    rows = [observe(case, HONEST) for case in cases]
    one = write_run(tmp_path / "one", cases, {HONEST: rows}).path
    other = write_run(tmp_path / "other", cases, {HONEST: [rows[0], change(rows[1])]}).path
    for order in ([one, other], [other, one]):
        with pytest.raises(RunError, match=f"did something else with case {cases[1].id}"):
            merge(order, tmp_path / "merged")
        assert not (tmp_path / "merged").exists()


def test_two_results_that_differ_in_cost_are_one(tmp_path: Path) -> None:
    cases = CASES[1:2]
    rows = [observe(cases[0], HONEST, cost=Cost(wall_s=seconds)) for seconds in (0.25, 0.5)]
    paths = [write_run(tmp_path / str(i), cases, {HONEST: [row]}).path for i, row in enumerate(rows)]
    kept = [
        list(merge(order, tmp_path / f"m{i}").round().observations("toy", HONEST))
        for i, order in enumerate((paths, paths[::-1]))
    ]
    assert kept[0] == kept[1]
    assert len(kept[0]) == 1


def test_two_builds_under_one_name_are_refused(tmp_path: Path) -> None:
    cases = CASES[:2]
    paths = [
        write_run(
            tmp_path / version,
            cases,
            {HONEST: [observe(case, HONEST) for case in cases]},
            infos=[info(HONEST, reports={"version": version})],
        ).path
        for version in ("1.0", "1.1")
    ]
    with pytest.raises(RunError, match=r"toy-honest is not the same in all shards: its reports is .*1\.0.*1\.1"):
        merge(paths, tmp_path / "merged")


def _damage_plan(folder: Path) -> None:
    path = folder / "plan.ndjson"
    path.write_bytes(path.read_bytes().replace(b'"op":"add"', b'"op":"odd"', 1))


def _duplicate(folder: Path) -> None:
    path = folder / "observations" / f"toy-{HONEST}.ndjson"
    path.write_bytes(path.read_bytes() + path.read_bytes())


def _stray(folder: Path) -> None:
    path = folder / "observations" / f"toy-{HONEST}.ndjson"
    path.write_bytes(path.read_bytes().replace(CASES[0].id.encode(), b"0" * 20))


@pytest.mark.parametrize(
    ("harm", "says"),
    [(_damage_plan, "another case under the id"), (_duplicate, "twice"), (_stray, "without a plan for it")],
)
def test_a_shard_that_is_wrong_in_itself_is_refused(tmp_path: Path, harm: Callable[[Path], None], says: str) -> None:
    good = toy_run(tmp_path / "good", [HONEST]).path
    bad = toy_run(tmp_path / "bad", [HONEST]).path
    harm(bad)
    with pytest.raises(RunError, match=says):
        merge([good, bad], tmp_path / "merged")


def test_arrays_travel_with_their_cases(tmp_path: Path) -> None:
    def shard(name: str, value: float) -> Path:
        folder = RunFolder(tmp_path / name)
        ref = folder.blobs.put(Tensor.of(np.array([value])))
        shutil.move(tmp_path / name / "blobs", tmp_path / f"{name}-blobs")
        case = Case.make("toy", "add", {"numbers": [1]}, {"x": ref})
        (tmp_path / name).rmdir()
        write_run(tmp_path / name, [case], {HONEST: [Observation(case.id, HONEST, Outcome.ANSWERED, 1, {"y": ref})]})
        shutil.move(tmp_path / f"{name}-blobs", tmp_path / name / "blobs")
        return tmp_path / name

    merged = merge([shard("one", 1.5), shard("two", 2.5)], tmp_path / "merged")
    values = {float(merged.blobs.get(case.arrays["x"]).data[0]) for case in merged.round().plan()}
    assert values == {1.5, 2.5}
    shutil.rmtree(tmp_path / "one" / "blobs")
    with pytest.raises(RunError, match="is missing"):
        merge([tmp_path / "one"], tmp_path / "again")


def test_the_smallest_cases_of_the_shards_are_kept(afere: Afere) -> None:
    words: Sequence[str] = ("run", "--json", "--format", "ndjson", "-t")
    paths = [afere(*words, name).json["folder"] for name in ("toy-drops-last", "toy-takes-empty")]
    assert afere("merge", *paths, "--into", "merged").status == 0
    findings = afere("judge", "merged", "--json").json["findings"]
    assert len(findings) == 2
    assert all(finding["minimised"] for finding in findings)


def test_the_command_says_when_the_union_is_incomplete(afere: Afere, tmp_path: Path) -> None:
    one = record(tmp_path / "one", (frozenset({0, 1}), frozenset({HONEST})))
    other = record(tmp_path / "other", (frozenset({2, 3}), frozenset({FOLDED})))
    ran = afere("merge", one, other, "--into", "merged")
    assert (ran.status, ran.out) == (2, "merged\n")
    assert "the union is incomplete" in ran.err
    ran = afere("merge", one, "--into", "merged")
    assert ran.status == 3
    assert "not empty" in ran.err
    ran = afere("merge", "nowhere", "--into", "other")
    assert ran.status == 3
    assert "not a run folder" in ran.err


def test_environments_of_both_machines_are_kept(tmp_path: Path) -> None:
    names = ("a", "b", "a")
    paths = [
        toy_run(tmp_path / str(i), [HONEST], count=2, header={"environment": {"machine": name}}).path
        for i, name in enumerate(names)
    ]
    header = merge(paths, tmp_path / "merged").header()
    assert header.environment == {"merged": [{"machine": "a"}, {"machine": "b"}]}
