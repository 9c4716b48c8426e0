"""The suite ``grammar``: pathological and harmless regular expressions put to grammar compilers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from harness.records import Case, Clause, Json, Observation, Verdict
from harness.suite import Fault, TargetKind
from harness.targets.base import Blobs
from reference.contract import load
from suites.grammar.features import PLAIN, features_of

# What a method alone needs is imported there: commands that only list or explain must answer at once.


class GrammarSuite:
    """See :class:`harness.suite.Suite`."""

    name = "grammar"
    summary = "regular expressions put to grammar compilers: limits, refusals, and which strings they let through"
    default_cases = 180
    default_targets: tuple[str, ...] = ("nfa", "python-re:guarded")

    def clauses(self) -> tuple[Clause, ...]:
        """The clauses of ``reference/contract/grammar.toml``."""
        return tuple(Clause(c.id, c.level, c.text, c.source, c.since) for c in load("grammar").values())

    def kinds(self) -> Mapping[str, TargetKind]:
        """The compilers and the two matchers that come along."""
        from suites.grammar import targets

        return targets.kinds()

    def cases(self, count: int, seed: int, blobs: Blobs) -> Iterator[Case]:  # noqa: ARG002 - no arrays here
        """Edges first, then generated ones."""
        from suites.grammar import cases

        return cases.cases(count, seed)

    def needs(self, case: Case) -> frozenset[str]:
        """The one operation."""
        return frozenset({case.op})

    def judge(self, case: Case, observations: Mapping[str, Observation], blobs: Blobs) -> Iterable[Verdict]:  # noqa: ARG002
        """See :mod:`suites.grammar.judge`."""
        from suites.grammar import judge

        return judge.judge(case, observations)

    def features(self, case: Case) -> frozenset[str]:
        """Tags of the tree."""
        return features_of(case.input)

    def plainest(self, case: Case) -> dict[str, Json]:  # noqa: ARG002 - there is one operation
        """The letter a."""
        return PLAIN

    def rebuild(self, op: str, input: dict[str, Json], blobs: Blobs) -> Case | None:  # noqa: A002, ARG002
        """Check an input that minimising proposes."""
        from suites.grammar import cases

        return cases.rebuild(input)

    def script(self, case: Case, target: str) -> str:
        """A short Python script."""
        from suites.grammar import scripts

        return scripts.script(case, target)

    def faults(self) -> tuple[Fault, ...]:
        """Planted faults and honest variants."""
        from suites.grammar import faults

        return faults.FAULTS

    def expectations(self) -> Path | None:
        """Known findings of the embedded targets."""
        path = Path(__file__).with_name("expectations.toml")
        return path if path.is_file() else None
