"""The suite for multi-head latent attention: one decode step over a paged cache. ``SUITE`` is what the harness asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from harness.records import Case, Clause, Json, Observation, Verdict
from harness.suite import Fault, Suite, TargetKind
from harness.targets.base import Blobs

HERE: Final = Path(__file__).parent


class MlaSuite:
    """Imports what is heavy (NumPy arrays aside) where it is used, so that asking for help stays fast."""

    name = "mla"
    summary = "multi-head latent attention, one decode step over a paged cache"
    default_cases = 60
    default_targets: tuple[str, ...] = (
        "torch-mla:absorbed-float32-explicit",
        "torch-mla:expanded-float32-sdpa",
        "torch-mla:absorbed-bfloat16-explicit",
        "torch-mla:expanded-float16-sdpa",
    )

    def clauses(self) -> tuple[Clause, ...]:
        """The contract."""
        from reference.contract import load

        return tuple(Clause(c.id, c.level, c.text, c.source, c.since) for c in load("mla").values())

    def kinds(self) -> Mapping[str, TargetKind]:
        """The targets."""
        from suites.mla.targets import kinds

        return kinds()

    def cases(self, count: int, seed: int, blobs: Blobs) -> Iterator[Case]:
        """The edge list, then drawn cases."""
        from suites.mla.cases import planned

        for spec in planned(count, seed):
            yield self._case(spec, blobs)

    def _case(self, spec: object, blobs: Blobs) -> Case:
        from suites.mla.build import arrays
        from suites.mla.spec import Spec, write

        assert isinstance(spec, Spec)
        refs = {name: blobs.put(tensor) for name, tensor in arrays(spec).items()}
        return Case.make(self.name, "decode", write(spec), refs)

    def needs(self, case: Case) -> frozenset[str]:
        """The operation in the format of the operands."""
        return frozenset({case.op, f"{case.op}:{case.input.get('dtype', '')}"})

    def judge(self, case: Case, observations: Mapping[str, Observation], blobs: Blobs) -> Iterable[Verdict]:
        """All verdicts on one case."""
        from suites.mla.judge import judge

        return judge(case, observations, blobs)

    def features(self, case: Case) -> frozenset[str]:
        """What can be the cause of a difference."""
        from suites.mla.spec import features, read

        spec = read(case.input)
        return frozenset() if spec is None else features(spec)

    def plainest(self, case: Case) -> dict[str, Json]:
        """One head, one token, float32."""
        from suites.mla.spec import PLAIN, write

        return {**write(PLAIN)} if case.op else {}

    def rebuild(self, op: str, input: dict[str, Json], blobs: Blobs) -> Case | None:  # noqa: A002
        """The case for an input; None where it makes no sense."""
        from suites.mla.spec import read

        spec = read(input)
        return None if spec is None or op != "decode" else self._case(spec, blobs)

    def script(self, case: Case, target: str) -> str:
        """A program that shows the case on that target without Afere."""
        from suites.mla.script import script

        return script(case, target)

    def faults(self) -> tuple[Fault, ...]:
        """Planted faults and honest variants."""
        from suites.mla.faults import faults

        return faults()

    def expectations(self) -> Path | None:
        """No embedded target has a known finding."""
        return None


SUITE: Suite = MlaSuite()
