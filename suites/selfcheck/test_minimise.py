"""Minimising: what comes out still shows, is never larger, is found within the budget, and is small."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.blobs import BlobStore
from harness.minimise import Budget, candidates, culprit, minimise, size
from harness.records import Case, Json, canonical
from harness.suite import Suite
from harness.targets.base import Blobs
from suites.selfcheck.toy import Toy

BLOBS = BlobStore(Path("unused"))

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=10,
)
objects = st.dictionaries(st.text(max_size=3), values, max_size=4)


class Free(Toy):
    """Takes any object; a feature is a key that is there."""

    name = "free"

    def features(self, case: Case) -> frozenset[str]:
        return frozenset(case.input)

    def plainest(self, case: Case) -> dict[str, Json]:
        return {"model": "m"}

    def rebuild(self, op: str, input: dict[str, Json], blobs: Blobs) -> Case | None:  # noqa: A002
        return Case.make(self.name, op, input)


FREE: Suite = Free()
TOY: Suite = Toy()


def holds(value: Any, wanted: Callable[[Any], bool]) -> bool:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return wanted(value) or any(holds(item, wanted) for item in inside)


def make(value: dict[str, Any]) -> Case:
    return Case.make("free", "op", value)


@given(values, values)
def test_candidates_are_json_and_differ_from_the_value(value: Any, plain: Any) -> None:
    for candidate in candidates(value, plain):
        text = canonical(candidate)
        assert canonical(json.loads(text)) == text
        assert text != canonical(value)


@given(values, values)
def test_there_is_nothing_plainer_than_the_plainest(value: Any, plain: Any) -> None:
    assert list(candidates(plain, plain)) == []
    if plain is not None and canonical(value) != canonical(plain):
        assert canonical(next(candidates(value, plain))) == canonical(plain)


@settings(max_examples=60)
@given(objects, st.integers(0, 2**32), st.integers(0, 40))
def test_the_result_shows_is_no_larger_and_comes_within_the_budget(
    value: dict[str, Any], salt: int, evaluations: int
) -> None:
    start = make(value)
    shown = {start.id}
    asked: list[str] = []

    def shows(case: Case) -> bool:
        asked.append(case.id)
        yes = int(case.id, 16) % (salt % 3 + 2) == 0
        if yes:
            shown.add(case.id)
        return yes

    found, exhausted = minimise(FREE, start, shows, BLOBS, Budget(evaluations, 1e9))
    assert found.id in shown
    assert size(FREE, found) <= size(FREE, start)
    assert len(asked) <= evaluations
    assert len(asked) == len(set(asked)), "a case was asked twice"
    assert start.id not in asked
    if not exhausted:
        assert len(asked) == evaluations


@settings(max_examples=60)
@given(objects, st.integers(0, 2**32))
def test_the_search_ends_where_nothing_simpler_shows(value: dict[str, Any], salt: int) -> None:
    def shows(case: Case) -> bool:
        return int(case.id, 16) % (salt % 3 + 2) == 0

    found, exhausted = minimise(FREE, make(value), shows, BLOBS, Budget(10**6, 1e9))
    assert exhausted
    simpler = [make(c) for c in candidates(found.input, FREE.plainest(found)) if isinstance(c, dict)]
    assert not [c for c in simpler if size(FREE, c) < size(FREE, found) and shows(c)]


@settings(max_examples=60)
@given(objects)
def test_where_everything_shows_the_plainest_is_reached(value: dict[str, Any]) -> None:
    found, _ = minimise(FREE, make(value), lambda _case: True, BLOBS, Budget(10**6, 1e9))
    assert size(FREE, found) <= size(FREE, make({"model": "m"}))
    assert culprit(FREE, found) == frozenset()


@settings(max_examples=12)
@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=4), values, min_size=15, max_size=25), st.data())
def test_the_one_guilty_key_of_a_big_request_is_found(value: dict[str, Any], data: st.DataObject) -> None:
    guilty = data.draw(st.sampled_from(sorted(value)))
    found, exhausted = minimise(FREE, make(value), lambda case: guilty in case.input, BLOBS, Budget(2000, 1e9))
    assert exhausted
    assert culprit(FREE, found) == {guilty} - {"model"}
    assert set(found.input) <= {guilty, "model"}
    assert len(canonical(found.input)) <= len(canonical({guilty: None, "model": "m"})) + 4


def test_the_one_guilty_word_deep_inside_is_found() -> None:
    messages = [{"role": "user", "content": f"text {i} " * 20} for i in range(30)]
    messages[17]["content"] += "needle" + "x" * 200
    start = make({"model": "m", "messages": messages, "temperature": 0.7, "stop": ["a", "b"] * 10})

    def shows(case: Case) -> bool:
        return holds(case.input, lambda v: isinstance(v, str) and "needle" in v)

    found, exhausted = minimise(FREE, start, shows, BLOBS, Budget(2000, 1e9))
    assert exhausted
    assert found.input == {"model": "m", "messages": [{"content": "needle"}]}


def test_a_threshold_is_found_from_above_and_from_below() -> None:
    for limit, sign in ((4096, 1), (4097, -1), (2**40 + 1, 1)):

        def shows(case: Case, limit: int = limit, sign: int = sign) -> bool:
            return isinstance(n := case.input.get("n"), int) and sign * n >= limit

        found, _ = minimise(FREE, make({"n": sign * 2**60 + 12345 * sign}), shows, BLOBS, Budget(2000, 1e9))
        assert len(str(abs(found.input["n"]))) == len(str(limit))
        assert shows(found)


def test_numbers_of_the_toy_become_the_fewest_that_still_show() -> None:
    start = Case.make("toy", "add", {"numbers": [88, -7, 13, 55, 1, 90]})
    found, exhausted = minimise(TOY, start, lambda case: len(case.input["numbers"]) >= 3, BLOBS)
    assert exhausted
    assert found.input == {"numbers": [0, 0, 0]}


def test_what_the_suite_does_not_take_is_not_asked() -> None:
    asked: list[Case] = []

    def shows(case: Case) -> bool:
        asked.append(case)
        return True

    minimise(TOY, Case.make("toy", "add", {"numbers": [5, -7, "x", None], "y": 2}), shows, BLOBS)
    assert asked
    assert all(TOY.rebuild("add", case.input, BLOBS) == case for case in asked)


def test_the_clock_ends_the_search_too() -> None:
    ticks = iter(range(10**6))
    asked: list[Case] = []

    def shows(case: Case) -> bool:
        asked.append(case)
        return False

    _, exhausted = minimise(
        FREE, make({f"k{i}": i for i in range(50)}), shows, BLOBS, Budget(10**6, 5.0), clock=lambda: float(next(ticks))
    )
    assert not exhausted
    assert len(asked) == 5
