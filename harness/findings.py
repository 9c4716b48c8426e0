"""Findings: all verdicts with one cause under one signature, with one smallest case.

Two visible levels. The *shape* of a difference (stage, field, kind of change) is the coarse key. Within a shape, the
*culprit* (the features of the smallest case that the plainest case lacks) tells causes apart: a failing case that has
all features of a culprit is explained by it. The signature is a hash of both, so it says nothing of texts, values,
positions or machines. Clauses and targets are not part of it: one cause may break several clauses on several targets.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from harness import judge
from harness.expectations import Known, reason_for
from harness.journal import RunFolder
from harness.minimise import culprit, size
from harness.outcome import Status
from harness.records import Case, Finding, Verdict, digest
from harness.suite import Suite

Shape = tuple[str, str, str]
Culprit = frozenset[str]

KEPT = 300
"""Failing cases kept per suite, target and shape: the smallest of each culprit. More than one run needs causes for."""


class Example(msgspec.Struct, frozen=True):
    """A failing case with the verdict that it got."""

    case: Case
    verdict: Verdict
    size: tuple[int, int, bytes]


class Key(msgspec.Struct, frozen=True):
    """Where a difference shows: suite, target and shape."""

    suite: str
    target: str
    shape: Shape


class Cause(msgspec.Struct, frozen=True):
    """One cause of one shape on one target."""

    key: Key
    culprit: Culprit
    example: Example
    minimised: bool
    note: str = ""

    @property
    def signature(self) -> str:
        """Twelve hexadecimal digits."""
        return signature(self.key.suite, self.key.shape, self.culprit)


class Reduced(msgspec.Struct, frozen=True):
    """What minimising returned: a smaller example, whether the search was exhausted, and what else is to be said."""

    example: Example
    minimised: bool
    note: str = ""


Reduce = Callable[[Key, Example, Callable[[Case], bool]], Reduced]
"""Minimise an example; the callable says which smaller cases are explained by another cause already."""


def signature(suite: str, shape: Shape, why: Culprit) -> str:
    """The name of a cause, equal on every machine."""
    return digest([suite, *shape, sorted(why)])[:12]


class Collector:
    """A sink for verdicts: keeps the smallest failing case for each suite, target, shape and culprit."""

    def __init__(self, suites: Mapping[str, Suite]) -> None:
        self._suites = suites
        self.examples: dict[Key, dict[Culprit, Example]] = defaultdict(dict)
        self._last: tuple[str, Culprit, tuple[int, int, bytes]] | None = None

    def __call__(self, case: Case, verdict: Verdict) -> None:
        """Take one verdict; only failures matter."""
        if verdict.status is not Status.FAIL:
            return
        if self._last is None or self._last[0] != case.id:
            suite = self._suites[case.suite]
            why = culprit(suite, case)
            self._last = (case.id, why, size(suite, case, why))
        _, why, measure = self._last
        kept = self.examples[Key(case.suite, verdict.target, verdict.shape)]
        if why not in kept or measure < kept[why].size:
            kept[why] = Example(case, verdict, measure)
            if len(kept) > KEPT:
                del kept[max(kept, key=lambda c: kept[c].size)]


class Note(msgspec.Struct, frozen=True):
    """What is to be said of a case that a minimisation ended with. Kept with the run, for judging again."""

    minimised: bool
    note: str = ""


def causes(
    collector: Collector,
    suites: Mapping[str, Suite],
    known: Sequence[Known],
    reduce: Reduce | None = None,
    notes: Mapping[str, Note] = MappingProxyType({}),
) -> list[Cause]:
    """Split the failures into causes, the smallest cases first; without ``reduce`` the cases are taken as recorded.

    Known causes are taken from their witnesses and never minimised. ``notes`` are those of an earlier minimisation, by
    case id.
    """
    found: list[Cause] = []
    for key in sorted(collector.examples, key=lambda k: (k.suite, k.shape, k.target)):
        examples = collector.examples[key]
        mine = [
            Cause(key, why, examples[why], minimised=True)
            for entry in known
            if entry.covers(key.target) and entry.witness.suite == key.suite
            for why in [_witness_culprit(entry, suites[key.suite])]
            if why in examples and signature(key.suite, key.shape, why) == entry.signature
        ]
        for example in sorted(examples.values(), key=lambda e: e.size):
            why = culprit(suites[key.suite], example.case)
            for _ in range(3):
                if _explained(why, mine):
                    break
                mine.append(_cause(key, example, why, suites[key.suite], mine, reduce, notes))
        found += mine
    return found


def _witness_culprit(entry: Known, suite: Suite) -> Culprit:
    return culprit(suite, Case.make(entry.witness.suite, entry.witness.op, entry.witness.input))


def _explained(why: Culprit, by: Iterable[Cause]) -> bool:
    return any(cause.culprit <= why for cause in by)


def _cause(
    key: Key,
    example: Example,
    why: Culprit,
    suite: Suite,
    others: Sequence[Cause],
    reduce: Reduce | None,
    notes: Mapping[str, Note],
) -> Cause:
    if reduce is None:
        said = notes.get(example.case.id, Note(minimised=False))
        return Cause(key, why, example, said.minimised, said.note)
    reduced = reduce(key, example, lambda case: _explained(culprit(suite, case), others))
    return Cause(key, culprit(suite, reduced.example.case), reduced.example, reduced.minimised, reduced.note)


def stale(known: Sequence[Known], found: Sequence[Cause], targets: Sequence[str], suites: Iterable[str]) -> list[str]:
    """The known findings that concern this run and did not show."""
    shown = {cause.signature for cause in found}
    names = set(suites)
    return [
        k.signature
        for k in known
        if k.signature not in shown and k.witness.suite in names and any(k.covers(t) for t in targets)
    ]


def findings(
    folder: RunFolder,
    found: Sequence[Cause],
    suites: Mapping[str, Suite],
    known: Sequence[Known],
) -> list[Finding]:
    """One finding per signature, the new ones first."""
    groups: dict[str, list[Cause]] = defaultdict(list)
    for cause in found:
        groups[cause.signature].append(cause)
    counts, clauses = _count(folder, found, suites)
    result = []
    for name, group in sorted(groups.items()):
        best = min(group, key=lambda c: (c.example.size, c.key.target))
        verdict, case, suite = best.example.verdict, best.example.case, suites[best.key.suite]
        targets = tuple(sorted({c.key.target for c in group}))
        finding = Finding(
            signature=name,
            title=title(best.key.shape, best.culprit),
            suite=suite.name,
            status=Status.FAIL,
            stage=verdict.stage,
            field=verdict.field,
            change=verdict.change,
            culprit=tuple(sorted(best.culprit)),
            clauses=tuple(sorted(clauses[name] | {verdict.clause})),
            targets=targets,
            peers=tuple(sorted({p for c in group for p in c.example.verdict.peers} - set(targets))),
            cases=counts[name],
            witness=case,
            expected=verdict.expected,
            got=verdict.got,
            note="; ".join(dict.fromkeys(n for n in (verdict.note, best.note) if n)),
            minimised=best.minimised,
            script=suite.script(case, best.key.target),
            replay=f"afere replay {shlex.quote(str(folder.finding_path(name)))}",
        )
        result.append(msgspec.structs.replace(finding, known=reason_for(finding, known)))
    return sorted(result, key=order)


def order(finding: Finding) -> tuple[bool, str, int, str, str]:
    """The order in which findings are read: new ones first, then those that show in more cases."""
    return (bool(finding.known), finding.suite, -finding.cases, finding.stage, finding.signature)


def title(shape: Shape, why: Culprit) -> str:
    """One line that names the difference and what brings it about."""
    stage, field, change = shape
    head = f"{stage}: {field} {change}".strip(": ") if stage else f"{field} {change}".strip()
    cause = ", ".join(sorted(why))
    return f"{head} ({cause})" if cause else head


def _count(
    folder: RunFolder, found: Sequence[Cause], suites: Mapping[str, Suite]
) -> tuple[dict[str, int], dict[str, set[str]]]:
    """Second pass: how many planned cases each cause explains, and under which clauses."""
    by_key: dict[Key, list[Cause]] = defaultdict(list)
    for cause in found:
        by_key[cause.key].append(cause)
    counts: dict[str, int] = defaultdict(int)
    clauses: dict[str, set[str]] = defaultdict(set)
    plan = folder.round().plan()
    case: Case | None = None
    why: Culprit = frozenset()
    counted: set[str] = set()
    for verdict in judge.verdicts(folder.path):
        if verdict.status is not Status.FAIL:
            continue
        if case is None or case.id != verdict.case:
            case = next(c for c in plan if c.id == verdict.case)  # both files are in the order of the plan
            why, counted = culprit(suites[case.suite], case), set()
        for cause in by_key.get(Key(case.suite, verdict.target, verdict.shape), []):
            if cause.culprit <= why:
                name = cause.signature
                clauses[name].add(verdict.clause)
                counts[name] += name not in counted
                counted.add(name)
    return counts, clauses
