"""Plan: which cases, for which targets. Writes the planned set, cases in full. Never runs a target."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from harness.records import Case
from harness.suite import Suite, TargetKind, TargetName, broken_suites
from harness.targets.base import Blobs

if TYPE_CHECKING:
    from harness.journal import Round  # brings NumPy along, which only a run needs


class PlanError(Exception):
    """The options name something that is not there; the message says what, and what would be near it."""


class Ask(msgspec.Struct, frozen=True):
    """One target that a suite will ask."""

    suite: Suite
    kind: TargetKind
    name: TargetName


def nearest(word: str, known: Sequence[str]) -> str:
    """``"; did you mean 'x'?"`` or the list of what is known."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known are: {', '.join(sorted(known))}"


def select_suites(installed: Mapping[str, Suite], names: Sequence[str]) -> list[Suite]:
    """The suites of these names, all of them where none is named.

    :raises PlanError: a name is not installed
    """
    broken = broken_suites()
    for name in names or broken:
        if name in broken:
            raise PlanError(f"suite {name!r} is installed but broken: {broken[name]}")
        if name not in installed:
            raise PlanError(f"no suite {name!r}{nearest(name, list(installed))}")
    return [installed[name] for name in (names or installed)]


def complete(kind: TargetKind, name: TargetName) -> TargetName:
    """Fill in the default version and variant.

    :raises PlanError: the variant is not one of the kind's, or a version was given to a kind that has none
    """
    if kind.versions and not name.version:
        name = TargetName(name.kind, kind.versions[-1], name.variant)
    if name.version and not kind.versions:  # an embedded one has the version that is installed, whatever was asked for
        raise PlanError(f"target {name}: {kind.name} takes no version")
    if kind.variants and not name.variant:
        name = TargetName(name.kind, name.version, kind.variants[0])
    if kind.variants and name.variant not in kind.variants:
        raise PlanError(f"target {name}: no variant {name.variant!r}{nearest(name.variant, kind.variants)}")
    if kind.address and not name.variant:
        raise PlanError(f"target {name}: say which one, {kind.name}:{kind.address}")
    if name.variant and not kind.variants and not kind.address:
        raise PlanError(f"target {name}: {kind.name} has no variants")
    return name


def select_targets(suites: Sequence[Suite], names: Sequence[str]) -> list[Ask]:
    """Pair each named target with every selected suite that can ask it; with no name, take the embedded targets.

    :raises PlanError: a target is unknown to all selected suites, or is named twice
    """
    asks: list[Ask] = []
    known = {kind for suite in suites for kind in suite.kinds()}
    for text in names:
        try:
            name = TargetName.parse(text)
        except ValueError as error:
            raise PlanError(str(error)) from error
        if name.kind not in known:
            raise PlanError(f"no target kind {name.kind!r} in the chosen suites{nearest(name.kind, list(known))}")
        asks += [
            Ask(suite, kind, complete(kind, name))
            for suite in suites
            if (kind := suite.kinds().get(name.kind)) is not None
        ]
    if not names:
        for suite in suites:
            for text in suite.default_targets:
                name = TargetName.parse(text)
                kind = suite.kinds()[name.kind]
                asks.append(Ask(suite, kind, complete(kind, name)))
    unique: dict[tuple[str, str], Ask] = {}
    for ask in asks:
        if (ask.suite.name, str(ask.name)) in unique:
            raise PlanError(f"target {ask.name} is named twice")
        unique[ask.suite.name, str(ask.name)] = ask
    return list(unique.values())


def cases(
    suites: Sequence[Suite], count: int | None, seed: int, blobs: Blobs, first: Sequence[Case] = ()
) -> Iterator[Case]:
    """The planned set: ``first`` (witnesses of known findings), then each suite's own cases, no case twice."""
    seen: set[str] = set()
    for case in first:
        if case.id not in seen:
            seen.add(case.id)
            yield case
    for suite in suites:
        for case in suite.cases(suite.default_cases if count is None else count, seed, blobs):
            if case.id not in seen:
                seen.add(case.id)
                yield case


def plan(
    suites: Sequence[Suite], count: int | None, seed: int, blobs: Blobs, into: Round, first: Sequence[Case] = ()
) -> int:
    """Write the planned set and return its size.

    :raises PlanError: nothing was planned
    """
    size = into.write_plan(cases(suites, count, seed, blobs, first))
    if size == 0:
        raise PlanError("nothing to do: no case was planned; give --cases a number above zero")
    return size
