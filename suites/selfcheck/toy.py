"""A complete suite in one small file: adding up a list of integers. For tests of the harness, and as an example."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from harness.outcome import Outcome, Status
from harness.records import Case, Clause, Json, Observation, Verdict
from harness.suite import Fault, Session, TargetKind, TargetName
from harness.targets.base import Blobs, InProcess, Refused, Target

SUM = Clause("T-SUM-1", "MUST", "The answer is the sum of the numbers.", "arithmetic")
EMPTY = Clause("T-EMPTY-1", "MUST", "An empty list is refused.", "this file")
SIGN = Clause("T-SIGN-1", "AGREE", "Implementations agree on whether a negative number is taken.", "no source")


def honest(input: dict[str, Json], _arrays: object) -> Json:  # noqa: A002
    """Add up; refuse an empty list."""
    if not input["numbers"]:
        raise Refused("nothing to add")
    return sum(input["numbers"])


def folded(input: dict[str, Json], _arrays: object) -> Json:  # noqa: A002
    """Add up from the other end: different, and right."""
    if not input["numbers"]:
        raise Refused("nothing to add")
    total = 0
    for number in reversed(input["numbers"]):
        total += number
    return total


def drops_last(input: dict[str, Json], _arrays: object) -> Json:  # noqa: A002
    """Wrong: forgets the last of three or more."""
    numbers = input["numbers"]
    if not numbers:
        raise Refused("nothing to add")
    return sum(numbers[:-1]) if len(numbers) >= 3 else sum(numbers)


def takes_empty(input: dict[str, Json], _arrays: object) -> Json:  # noqa: A002
    """Wrong: answers for an empty list."""
    return sum(input["numbers"])


def refuses_negative(input: dict[str, Json], _arrays: object) -> Json:  # noqa: A002
    """Differs: takes no negative number."""
    if not input["numbers"] or min(input["numbers"]) < 0:
        raise Refused("nothing to add, or a negative number")
    return sum(input["numbers"])


TARGETS: dict[str, Callable[[dict[str, Json], object], Json]] = {
    "toy-honest": honest,
    "toy-folded": folded,
    "toy-drops-last": drops_last,
    "toy-takes-empty": takes_empty,
    "toy-refuses-negative": refuses_negative,
}


def target(name: str) -> Target:
    """One of :data:`TARGETS`, in process."""
    return InProcess(name, {"add": TARGETS[name]})


class Toy:
    """See :class:`harness.suite.Suite`."""

    name = "toy"
    summary = "adds up"
    default_cases = 40
    default_targets: tuple[str, ...] = ("toy-honest", "toy-folded")

    def clauses(self) -> tuple[Clause, ...]:
        """Three."""
        return (SUM, EMPTY, SIGN)

    def kinds(self) -> Mapping[str, TargetKind]:
        """All in process."""

        def build(name: TargetName, _session: Session) -> Target:
            return target(name.kind)

        return {name: TargetKind(name, "adds up", build, embedded=True) for name in TARGETS}

    def cases(self, count: int, seed: int, blobs: Blobs) -> Iterator[Case]:  # noqa: ARG002
        """Edge cases, then lists of up to six numbers."""
        stream = random.Random(seed)  # noqa: S311 - test data; Python fixes the stream of integers
        edges: list[list[int]] = [[], [0], [-1], [1, 2, 3]]
        seen: set[str] = set()
        while len(seen) < count:
            numbers = edges.pop(0) if edges else [stream.randrange(-9, 99) for _ in range(stream.randrange(7))]
            case = Case.make(self.name, "add", {"numbers": numbers})
            if case.id not in seen:
                seen.add(case.id)
                yield case

    def needs(self, case: Case) -> frozenset[str]:
        """The operation."""
        return frozenset({case.op})

    def judge(self, case: Case, observations: Mapping[str, Observation], blobs: Blobs) -> Iterable[Verdict]:  # noqa: ARG002
        """Three clauses, each where it applies."""
        numbers = case.input["numbers"]
        negative = any(n < 0 for n in numbers)
        for name, seen in observations.items():
            if seen.outcome is Outcome.UNSUPPORTED:
                clause = SUM if numbers else EMPTY
                yield Verdict(clause.id, case.id, name, Status.UNSUPPORTED, note=seen.detail)
            elif not numbers:
                refused = seen.outcome is Outcome.REFUSED
                yield Verdict(
                    EMPTY.id, case.id, name, Status.PASS if refused else Status.FAIL, "validate", "numbers",
                    "" if refused else "accepted", "refused", seen.outcome.value, decision=refused,
                )  # fmt: skip
            elif seen.outcome is Outcome.ANSWERED or not negative:
                right = seen.outcome is Outcome.ANSWERED and seen.payload == sum(numbers)
                change = "" if right else "differs" if seen.outcome is Outcome.ANSWERED else seen.outcome.value
                status = Status.PASS if right else Status.FAIL
                yield Verdict(SUM.id, case.id, name, status, "add", "sum", change, sum(numbers), seen.payload)
        if negative:
            yield from self._agree(case, observations)

    @staticmethod
    def _agree(case: Case, observations: Mapping[str, Observation]) -> Iterable[Verdict]:
        taken = {
            n: o.outcome is Outcome.ANSWERED for n, o in observations.items() if o.outcome is not Outcome.UNSUPPORTED
        }
        for name, took in taken.items():
            others = tuple(n for n, t in taken.items() if t != took)
            status = Status.FAIL if others else Status.PASS if len(taken) > 1 else Status.SKIPPED
            note = "" if len(taken) > 1 else "no other implementation was asked"
            change = "taken by some" if others else ""
            yield Verdict(SIGN.id, case.id, name, status, "validate", "negative", change, note=note, peers=others)

    def features(self, case: Case) -> frozenset[str]:
        """Length class and sign."""
        numbers = case.input.get("numbers", [])
        tags = {f"length:{min(len(numbers), 3)}"}
        if any(n < 0 for n in numbers):
            tags.add("negative")
        return frozenset(tags)

    def plainest(self, case: Case) -> dict[str, Json]:  # noqa: ARG002
        """One zero."""
        return {"numbers": [0]}

    def rebuild(self, op: str, input: dict[str, Json], blobs: Blobs) -> Case | None:  # noqa: A002, ARG002
        """Any object with a list of integers."""
        numbers = input.get("numbers")
        if set(input) != {"numbers"} or not isinstance(numbers, list) or not all(type(n) is int for n in numbers):
            return None
        return Case.make(self.name, op, {"numbers": numbers})

    def script(self, case: Case, target: str) -> str:
        """A line of Python."""
        return f"python -c 'print(sum({case.input['numbers']}))'  # what {target} should have answered"

    def faults(self) -> tuple[Fault, ...]:
        """One per clause, and two that are right."""
        return (
            Fault("toy-honest", "adds up", lambda: target("toy-honest")),
            Fault("toy-folded", "adds up from the other end", lambda: target("toy-folded")),
            Fault("toy-drops-last", "forgets the last", lambda: target("toy-drops-last"), (SUM.id,)),
            Fault("toy-takes-empty", "answers for nothing", lambda: target("toy-takes-empty"), (EMPTY.id,)),
            Fault("toy-refuses-negative", "no negatives", lambda: target("toy-refuses-negative"), (SIGN.id,)),
        )

    def expectations(self) -> Path | None:
        """None ship."""
        return None


SUITE = Toy()
