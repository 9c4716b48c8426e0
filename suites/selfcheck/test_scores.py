"""The scores of the self-check that ship with the suites, and stand in every report, belong to the suites that ship."""

from __future__ import annotations

import pytest

from harness.run import scores
from harness.selfcheck import passed
from harness.suite import all_suites


def test_every_suite_has_scores() -> None:
    assert {score.suite for score in scores()} == set(all_suites())


@pytest.mark.parametrize("name", sorted(all_suites()))
def test_the_scores_are_of_the_faults_that_are_planted_now(name: str) -> None:
    suite = all_suites()[name]
    score = next(s for s in scores() if s.suite == name)
    assert set(score.matrix) == {fault.name for fault in suite.faults() if fault.breaks}
    assert score.honest == sum(not fault.breaks for fault in suite.faults())
    assert {clause for caught in score.matrix.values() for clause in caught} == {c.id for c in suite.clauses()}
    assert passed(score)
