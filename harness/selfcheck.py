"""The harness judges itself: every clause must catch a planted fault, and every honest variant must be let through."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from harness import __version__
from harness.blobs import BlobStore
from harness.judge import judge_case
from harness.outcome import Status
from harness.record import Opened, ask, open_one
from harness.records import Case, Observation, SelfCheck, Verdict
from harness.suite import Fault, Suite

Notify = Callable[[str, int, int], None]
"""Called with (what is being checked, done, of how many)."""


class SelfCheckError(Exception):
    """A suite that cannot be checked: it plants no fault, has no honest variant, or names a clause that it lacks."""


def check(
    suite: Suite, cases: int | None = None, seed: int = 0, notify: Notify = lambda _what, _done, _all: None
) -> SelfCheck:
    """Put planted faults and honest variants to the suite's own judge.

    An honest variant is asked every case. A fault is asked until each clause that should catch it has done so.

    :raises SelfCheckError: the suite cannot be checked
    """
    faults = [f for f in suite.faults() if f.breaks]
    honest = [f for f in suite.faults() if not f.breaks]
    _sane(suite, faults, honest)
    with tempfile.TemporaryDirectory(prefix="afere-selfcheck-") as folder:
        blobs = BlobStore(Path(folder) / "blobs")
        planned = list(suite.cases(suite.default_cases if cases is None else cases, seed, blobs))
        total = len(faults) + len(honest)
        alarms: list[str] = []
        for number, variant in enumerate(honest):
            notify(variant.name, number, total)
            alarms += _alarms(suite, variant, honest[0], planned, blobs)
        matrix: dict[str, tuple[str, ...]] = {}
        escaped: list[str] = []
        for number, fault in enumerate(faults, len(honest)):
            notify(fault.name, number, total)
            caught = _caught(suite, fault, honest[0], planned, blobs)
            matrix[fault.name] = tuple(sorted(caught))
            escaped += [f"{fault.name}: {clause}" for clause in fault.breaks if clause not in caught]
        notify("", total, total)
    teeth = {clause for caught in matrix.values() for clause in caught}
    return SelfCheck(
        suite=suite.name,
        afere=__version__,
        cases=len(planned),
        seed=seed,
        faults=len(faults),
        killed=sum(1 for caught in matrix.values() if caught),
        honest=len(honest),
        false_alarms=len({alarm.split(":", 1)[0] for alarm in alarms}),
        matrix=matrix,
        toothless=tuple(c.id for c in suite.clauses() if c.id not in teeth),
        escaped=tuple(escaped),
        alarms=tuple(alarms[:50]),
    )


def passed(result: SelfCheck) -> bool:
    """No clause without teeth, no fault escaped, no false alarm."""
    return not (result.toothless or result.escaped or result.alarms)


def _sane(suite: Suite, faults: Sequence[Fault], honest: Sequence[Fault]) -> None:
    known = {clause.id for clause in suite.clauses()}
    if not faults or not honest:
        raise SelfCheckError(f"suite {suite.name} needs at least one planted fault and one honest variant")
    names = [f.name for f in (*faults, *honest)]
    for name in names:
        if names.count(name) > 1:
            raise SelfCheckError(f"suite {suite.name} has two planted targets named {name!r}")
    for fault in faults:
        strange = [clause for clause in fault.breaks if clause not in known]
        if strange:
            raise SelfCheckError(f"planted fault {fault.name!r} names clause {strange[0]!r}, which {suite.name} lacks")


def _pair(suite: Suite, planted: Fault, partner: Fault) -> list[Opened]:
    other = planted.partner() if planted.partner is not None else None if planted is partner else partner.build()
    targets = [open_one(suite, planted.name, planted.build())]
    if other is not None:
        targets.append(open_one(suite, other.name if other.name != planted.name else f"{other.name}-partner", other))
    for target in targets:
        if not target.ready:
            reason = target.info.unsupported or target.info.unavailable
            for opened in targets:
                opened.target.close()
            raise SelfCheckError(f"planted target {target.name!r} cannot be opened: {reason}")
    return targets


def _judged(suite: Suite, case: Case, targets: Sequence[Opened], blobs: BlobStore) -> list[Verdict]:
    observations: dict[str, Observation] = {t.name: ask(t, case, blobs) for t in targets}
    return judge_case(suite, frozenset(c.id for c in suite.clauses()), case, observations, blobs)


def _alarms(suite: Suite, variant: Fault, partner: Fault, cases: Sequence[Case], blobs: BlobStore) -> list[str]:
    targets = _pair(suite, variant, partner)
    try:
        alarms, passed_any = [], False
        for case in cases:
            for v in _judged(suite, case, targets, blobs):
                if v.target != variant.name:
                    continue
                passed_any = passed_any or v.status is Status.PASS
                if v.status in {Status.FAIL, Status.ERROR, Status.UNKNOWN}:
                    said = f"{v.stage} {v.field} {v.change} {v.note}"
                    alarms.append(f"{variant.name}: {v.clause}: case {case.id}: {said}".rstrip())
        if not (alarms or passed_any):
            alarms.append(f"{variant.name}: it passed no clause on any case, so it proves nothing")
        return alarms
    finally:
        for target in targets:
            target.target.close()


def _caught(suite: Suite, fault: Fault, partner: Fault, cases: Sequence[Case], blobs: BlobStore) -> set[str]:
    """The clauses that fail on the fault. An error of ours is no catch."""
    targets = _pair(suite, fault, partner)
    wanted, caught = set(fault.breaks), set()
    try:
        for case in cases:
            for v in _judged(suite, case, targets, blobs):
                if v.target == fault.name and v.status is Status.FAIL:
                    caught.add(v.clause)
            if wanted <= caught:
                break
    finally:
        for target in targets:
            target.target.close()
    return caught
