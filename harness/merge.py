"""Merge: put the recordings of several machines or shards together, to be judged as one run.

Shards may share a plan and differ in targets, or share targets and differ in cases. The result does not depend on the
order in which they are given, nor on merging in steps. What two shards say differently of one thing is refused: the
last one to be read must not win.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from harness import __version__
from harness.blobs import BlobError
from harness.findings import Note
from harness.journal import Round, RunError, RunFolder, write_atomic
from harness.records import FORMAT, Case, Footer, Header, Json, Observation, TargetInfo, canonical, to_line

MINIMISED = "minimised"
MERGED = "merged"
"""Key of what differs between shards in a header's options and environment: the list of all of them."""


def merge(folders: Sequence[Path], into: Path) -> RunFolder:
    """Write the union of recordings to a new run folder and return it.

    It gets a footer only if every shard has one and every target has an observation of each case of its suite.

    :raises RunError: a shard cannot be read, two shards contradict each other, or ``into`` is not empty
    """
    if not folders:
        raise RunError("nothing to merge: name at least one run folder")
    shards = [RunFolder.load(path) for path in folders]
    headers = [shard.header() for shard in shards]
    targets = _targets(headers)
    result = RunFolder.create(into)
    try:
        _fill(result, shards, headers, targets)
    except BaseException:
        shutil.rmtree(into, ignore_errors=True)  # half a union would look like a whole run
        raise
    return result


def _fill(
    result: RunFolder, shards: Sequence[RunFolder], headers: Sequence[Header], targets: tuple[TargetInfo, ...]
) -> None:
    into = result.path
    cases, count, outcomes = _round(shards, result, "", targets)
    if any((shard.path / MINIMISED / "plan.ndjson").exists() for shard in shards):
        _round(shards, result, MINIMISED, targets)
        _notes(shards, result)
    sizes = Counter(case.suite for case in cases)
    header = Header(
        run=into.name,
        format=FORMAT,
        afere=__version__,
        started=min(h.started for h in headers),
        options=_all_of(h.options for h in headers),
        environment=_all_of(h.environment for h in headers),
        targets=targets,
        planned=len(cases),
        pairs=sum(sizes[t.suite] for t in targets),
    )
    result.write_header(header)
    footers = [footer for shard in shards if (footer := shard.footer()) is not None]
    if len(footers) == len(shards) and count == header.pairs:
        ended = max(footer.ended for footer in footers)
        result.write_footer(Footer(into.name, ended, count, dict(sorted(outcomes.items()))))


def _targets(headers: Sequence[Header]) -> tuple[TargetInfo, ...]:
    found: dict[tuple[str, str], TargetInfo] = {}
    for info in (info for header in headers for info in header.targets):
        other = found.setdefault((info.suite, info.name), info)
        for field in TargetInfo.__struct_fields__:
            if getattr(info, field) != getattr(other, field):
                raise RunError(
                    f"target {info.name} is not the same in all shards: its {field} is {getattr(other, field)!r} "
                    f"in one and {getattr(info, field)!r} in another; judge them apart"
                )
    return tuple(found[key] for key in sorted(found))


def _all_of(values: Iterable[dict[str, Json]]) -> dict[str, Json]:
    """The one value that all shards have, or all of them under :data:`MERGED`."""
    flat = [part for value in values for part in (value[MERGED] if set(value) == {MERGED} else [value])]
    distinct = {canonical(value): value for value in flat}
    kept = [distinct[text] for text in sorted(distinct)]
    return kept[0] if len(kept) == 1 else {MERGED: kept}


def _round(
    shards: Sequence[RunFolder], result: RunFolder, name: str, targets: Sequence[TargetInfo]
) -> tuple[list[Case], int, Counter[str]]:
    """Merge one round. Cases and, per target, observations are sorted by case id."""
    by_id: dict[str, Case] = {}
    for shard in shards:
        for case in shard.round(name).plan():
            if to_line(by_id.setdefault(case.id, case)) != to_line(case):
                raise RunError(f"{shard.path} has another case under the id {case.id}; one of the plans is damaged")
            _copy_arrays(shard, result, case)
    cases = [by_id[key] for key in sorted(by_id)]
    into = result.round(name)
    into.write_plan(cases)
    count, outcomes = 0, Counter[str]()
    for target in targets:
        rows = _observations(shards, result, name, target, by_id)
        count += len({row.case for row in rows})
        outcomes.update(row.outcome.value for row in rows)
        _write(into, target, rows)
    return cases, count, outcomes


def _observations(
    shards: Sequence[RunFolder], result: RunFolder, name: str, target: TargetInfo, planned: dict[str, Case]
) -> list[Observation]:
    found: dict[tuple[str, int], Observation] = {}
    for shard in shards:
        own: set[tuple[str, int]] = set()
        for row in shard.round(name).observations(target.suite, target.name):
            key = (row.case, row.attempt)
            if row.case not in planned or key in own:
                what = "twice" if key in own else "without a plan for it"
                raise RunError(f"{shard.path} holds case {row.case} on {target.name} {what}; it cannot be merged")
            own.add(key)
            found[key] = _same(found.get(key, row), row, shard)
            _copy_arrays(shard, result, row)
    return [found[key] for key in sorted(found)]


def _same(one: Observation, other: Observation, shard: RunFolder) -> Observation:
    """One of two observations that differ in their cost at most: the same one, whichever comes first."""
    bare = msgspec.structs.replace(other, cost=one.cost)
    if canonical(msgspec.to_builtins(bare)) != canonical(msgspec.to_builtins(one)):
        raise RunError(
            f"{one.target} did something else with case {one.case} in {shard.path} than in another shard; "
            "judge them apart"
        )
    return min(one, other, key=to_line)


def _copy_arrays(shard: RunFolder, result: RunFolder, record: Case | Observation) -> None:
    for ref in record.arrays.values():
        try:
            result.blobs.put(shard.blobs.get(ref))
        except BlobError as error:
            raise RunError(f"{shard.path} cannot be merged: {error}") from error


def _write(into: Round, target: TargetInfo, rows: Sequence[Observation]) -> None:
    write_atomic(into.observations_path(target.suite, target.name), b"".join(map(to_line, rows)))


def _notes(shards: Sequence[RunFolder], result: RunFolder) -> None:
    notes: dict[str, Note] = {}
    for shard in shards:
        path = shard.path / MINIMISED / "notes.json"
        for case, note in (json.loads(path.read_bytes()) if path.exists() else {}).items():
            read = msgspec.convert(note, Note)
            notes[case] = max(notes.get(case, read), read, key=lambda n: (n.minimised, n.note))
    write_atomic(result.path / MINIMISED / "notes.json", canonical(msgspec.to_builtins(notes)) + b"\n")
