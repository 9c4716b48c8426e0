"""The verdict algebra: worst wins, nothing merges into a pass by accident."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.gate import gate
from harness.outcome import SEVERITY, Exit, Outcome, Status, worst

statuses = st.lists(st.sampled_from(Status), max_size=6)


def test_every_status_has_a_place_in_the_order() -> None:
    assert set(SEVERITY) == set(Status)
    assert len(set(SEVERITY.values())) == len(Status)


def test_nothing_merges_to_unknown() -> None:
    assert worst([]) is Status.UNKNOWN


def test_an_error_of_ours_is_worst() -> None:
    assert worst(Status) is Status.ERROR
    assert worst([Status.FAIL, Status.ERROR]) is Status.ERROR


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.PASS])
def test_only_passes_merge_to_a_pass(status: Status) -> None:
    assert worst([Status.PASS, status]) is status


@given(statuses)
def test_the_order_of_verdicts_does_not_matter(some: list[Status]) -> None:
    assert worst(some) is worst(reversed(some))


@given(st.lists(statuses.filter(bool), min_size=1, max_size=4))
def test_merging_in_groups_is_merging_at_once(groups: list[list[Status]]) -> None:
    assert worst(worst(group) for group in groups) is worst(chain.from_iterable(groups))


@given(statuses.filter(bool))
def test_merging_twice_changes_nothing(some: list[Status]) -> None:
    assert worst([*some, *some]) is worst(some)
    assert worst([worst(some)]) is worst(some)


@given(statuses, st.sampled_from(Status))
def test_more_verdicts_never_make_it_better(some: list[Status], more: Status) -> None:
    assert SEVERITY[worst([*some, more])] >= SEVERITY[more]
    if some:
        assert SEVERITY[worst([*some, more])] >= SEVERITY[worst(some)]


@pytest.mark.parametrize(
    ("problems", "new", "status"),
    [
        ([], [], Exit.OK),
        ([], ["abc"], Exit.UNEXPECTED),
        (["no footer"], [], Exit.INVALID),
        (["no footer"], ["abc"], Exit.INVALID),
    ],
)
def test_an_invalid_run_outranks_its_findings(problems: list[str], new: list[str], status: Exit) -> None:
    assert gate(problems, new) is status


def test_the_numbers_that_scripts_rely_on() -> None:
    assert [int(e) for e in (Exit.OK, Exit.UNEXPECTED, Exit.INVALID, Exit.USAGE)] == [0, 1, 2, 3]
    assert {o.value for o in Outcome} == {
        "answered", "refused", "failed", "crashed", "timed_out", "out_of_memory", "unsupported",
    }  # fmt: skip
