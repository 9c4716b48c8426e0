"""Make a failing case smaller: delta debugging over JSON, towards the plainest case of its operation.

Simpler means fewer features that the plainest case lacks, then shorter, then earlier in canonical order. Each step is
accepted only if the same difference still shows, so the result is a case that was really run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import lru_cache

import msgspec

from harness.records import Case, Json, canonical
from harness.suite import Suite
from harness.targets.base import Blobs


class Budget(msgspec.Struct, frozen=True):
    """How much one minimisation may cost."""

    evaluations: int = 400
    seconds: float = 60.0


def culprit(suite: Suite, case: Case) -> frozenset[str]:
    """The features that the plainest case of the operation lacks: what can be the cause."""
    # A suite is hashed by identity, as every object is; a Protocol cannot say so.
    plain = _plain_features(suite, case.suite, case.op, canonical(suite.plainest(case)))  # type: ignore[arg-type]
    return suite.features(case) - plain


@lru_cache(maxsize=4096)
def _plain_features(suite: Suite, name: str, op: str, plainest: bytes) -> frozenset[str]:
    return suite.features(Case.make(name, op, json.loads(plainest)))


def size(suite: Suite, case: Case, why: frozenset[str] | None = None) -> tuple[int, int, bytes]:
    """The order in which cases are simpler. ``why`` is the culprit of the case, where it is known already."""
    text = canonical(case.input)
    return (len(culprit(suite, case) if why is None else why), len(text), text)


def candidates(value: Json, plain: Json) -> Iterator[Json]:
    """Values that may be simpler than ``value``, the boldest first. ``plain`` is the plainest value of this place."""
    if canonical(value) == canonical(plain):
        return
    if plain is not None:
        yield plain
    if isinstance(value, dict):
        yield from _dicts(value, plain if isinstance(plain, dict) else {})
    elif isinstance(value, list):
        yield from _lists(value, plain if isinstance(plain, list) else [])
    elif isinstance(value, str):
        yield from _strings(value)
    elif isinstance(value, bool):
        yield from [False] if value else []
    elif isinstance(value, int):
        yield from _integers(value, plain if isinstance(plain, int) and not isinstance(plain, bool) else 0)
    elif isinstance(value, float):
        yield from (v for v in (0.0, 1.0) if v != value)


def _dicts(value: dict[str, Json], plain: dict[str, Json]) -> Iterator[Json]:
    extra = [key for key in value if key not in plain]
    for key in extra:
        yield {k: v for k, v in value.items() if k != key}
    for key, item in value.items():
        for smaller in candidates(item, plain.get(key)):
            yield {**value, key: smaller}


def _lists(value: list[Json], plain: list[Json]) -> Iterator[Json]:
    count = len(value)
    chunk = count
    while chunk >= 1:
        for start in range(0, count, chunk):
            yield value[:start] + value[start + chunk :]
        chunk //= 2
    for index, item in enumerate(value):
        for smaller in candidates(item, plain[min(index, len(plain) - 1)] if plain else None):
            yield [*value[:index], smaller, *value[index + 1 :]]


def _strings(value: str) -> Iterator[str]:
    if not value:
        return
    yield ""
    if len(value) > 1:
        half = len(value) // 2
        yield value[:half]
        yield value[half:]
    if len(value) <= 40:
        for index in range(len(value)):
            yield value[:index] + value[index + 1 :]
    for index, letter in enumerate(value[:40]):
        if letter not in "a ":
            yield value[:index] + "a" + value[index + 1 :]


def _integers(value: int, plain: int) -> Iterator[int]:
    seen = {value}
    steps = [0, 1, plain]
    gap = value - plain
    while gap:
        steps.append(plain + (value - plain) - gap)
        gap = int(gap / 2) if abs(gap) < 2**53 else gap // 2 if gap > 0 else -(-gap // 2)
    for step in steps:
        if step not in seen and abs(step - plain) < abs(value - plain):
            seen.add(step)
            yield step


def minimise(
    suite: Suite,
    case: Case,
    shows: Callable[[Case], bool],
    blobs: Blobs,
    budget: Budget = Budget(),  # noqa: B008 - frozen
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Case, bool]:
    """Shrink ``case`` while ``shows`` holds. Returns the smallest one found and whether the search was exhausted."""
    plain = suite.plainest(case)
    best, best_size = case, size(suite, case)
    left, until = budget.evaluations, clock() + budget.seconds
    tried = {canonical(case.input)}
    progress = True
    while progress:
        progress = False
        for proposal in candidates(best.input, plain):
            text = canonical(proposal)
            if not isinstance(proposal, dict) or text in tried:
                continue
            tried.add(text)
            # Features speak of the input alone, so the arrays need not be built to see that a proposal is no simpler.
            new_size = size(suite, Case.make(best.suite, best.op, proposal))
            if new_size >= best_size or (smaller := suite.rebuild(best.op, proposal, blobs)) is None:
                continue
            if left <= 0 or clock() > until:
                return best, False
            left -= 1
            if shows(smaller):
                best, best_size, progress = smaller, new_size, True
                break
    return best, True
