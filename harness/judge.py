"""Judge: is what was recorded right? Reads observations, writes verdicts. Never runs a target.

The join of plan and observations is streamed, so memory does not grow with the run. Planned set = observed set, or the
run is invalid; a suite that raises, stays silent, or speaks of a clause that it does not have is our own fault and is
said to be.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec

from harness.journal import Round, RunFolder, read_lines
from harness.outcome import Status, worst
from harness.records import Case, Header, Observation, TargetInfo, Verdict, to_line
from harness.suite import Suite
from harness.targets.base import Blobs

JUDGE_FAULT = "(judge)"
"""Stands for the clause where the judge itself failed."""
SILENT = "(no clause)"
"""Stands for the clause where no clause spoke about an observation."""

Sink = Callable[[Case, Verdict], None]


class Tally(msgspec.Struct):
    """What judging counts. ``problems`` make the run invalid."""

    problems: list[str] = []
    cases: int = 0
    observations: int = 0
    decisions: int = 0
    verdicts: Counter[str] = msgspec.field(default_factory=Counter)
    outcomes: dict[str, Counter[str]] = msgspec.field(default_factory=lambda: defaultdict(Counter))
    counts: dict[tuple[str, str], Counter[str]] = msgspec.field(default_factory=lambda: defaultdict(Counter))
    ratios: dict[tuple[str, str], list[float]] = msgspec.field(default_factory=lambda: defaultdict(list))

    def problem(self, text: str) -> None:
        """Note why the run is invalid; the same reason once, and no more than a hundred."""
        if text not in self.problems and len(self.problems) < 100:
            self.problems.append(text)

    def add(self, observations: Mapping[str, Observation]) -> None:
        """Count the observations of one case."""
        self.cases += 1
        self.observations += len(observations)
        for name, observation in observations.items():
            self.outcomes[name][observation.outcome.value] += 1

    def verdict(self, verdict: Verdict) -> None:
        """Count one verdict."""
        self.verdicts[verdict.status.value] += 1
        self.decisions += verdict.decision
        self.counts[verdict.clause, verdict.target][verdict.status.value] += 1
        if verdict.ratio is not None:
            kept = self.ratios[verdict.clause, verdict.target]
            if len(kept) < 2000:  # enough for a plot; the plot says how many it shows
                kept.append(verdict.ratio)


def judge_case(
    suite: Suite, known: frozenset[str], case: Case, observations: Mapping[str, Observation], blobs: Blobs
) -> list[Verdict]:
    """All verdicts on one case. Raises nothing: what goes wrong in the suite becomes an ``error`` verdict."""
    faulty = {name: o for name, o in observations.items() if o.fault}
    sound = {name: o for name, o in observations.items() if not o.fault}
    verdicts = [_fault(case, name, f"the harness failed: {o.fault}") for name, o in faulty.items()]
    try:
        judged = [_sure(v) for v in suite.judge(case, sound, blobs)] if sound else []
    except (Exception, SystemExit) as error:
        note = f"the judge of suite {suite.name} raised {type(error).__name__}: {error}"
        return verdicts + [_fault(case, name, note) for name in sound]
    spoken = set()
    for verdict in judged:
        spoken.add(verdict.target)
        if verdict.clause not in known:
            note = f"the judge of suite {suite.name} spoke of a clause {verdict.clause!r} that it does not have"
            verdicts.append(_fault(case, verdict.target, note))
        elif verdict.case != case.id or verdict.target not in sound:
            note = (
                f"the judge of suite {suite.name} spoke of {verdict.case} on {verdict.target}, which it was not given"
            )
            verdicts += [_fault(case, name, note) for name in sound]
        elif verdict.status is Status.SKIPPED and not verdict.note:
            note = f"the judge of suite {suite.name} skipped {verdict.clause} without a reason"
            verdicts.append(_fault(case, verdict.target, note))
        else:
            verdicts.append(verdict)
    verdicts += [
        Verdict(SILENT, case.id, name, Status.UNKNOWN, note="no clause spoke about this observation")
        for name in sound
        if name not in spoken
    ]
    return verdicts


def _sure(verdict: object) -> Verdict:
    if not isinstance(verdict, Verdict):
        raise TypeError(f"{verdict!r} is no verdict")
    return verdict


def _fault(case: Case, target: str, note: str) -> Verdict:
    return Verdict(JUDGE_FAULT, case.id, target, Status.ERROR, note=note)


class _Cursor:
    """Reads one target's observations in step with the plan."""

    def __init__(self, rows: Iterator[Observation]) -> None:
        self._rows = rows
        self._next = next(rows, None)

    def take(self, case: Case, problem: Callable[[str], None], target: str) -> Observation | None:
        found: Observation | None = None
        while self._next is not None and self._next.case == case.id:
            if self._next.target != target:
                problem(f"{target} has an observation that is of {self._next.target}: case {case.id}")
            elif self._next.attempt > 0 and found is None:
                problem(f"{target} has a retry of case {case.id} and no first observation")
            elif self._next.attempt == 0 and found is not None:
                problem(f"{target} has two first observations of case {case.id}")
            elif found is None:
                found = self._next
            self._next = next(self._rows, None)
        return found

    @property
    def left(self) -> Observation | None:
        return self._next


def joined(
    round_: Round, targets: Sequence[TargetInfo], problem: Callable[[str], None]
) -> Iterator[tuple[Case, dict[str, Observation]]]:
    """Yield each planned case with the first observation of every target; report what is missing or left over."""
    cursors = {(t.suite, t.name): _Cursor(round_.observations(t.suite, t.name)) for t in targets}
    missing: Counter[str] = Counter()
    for case in round_.plan():
        found = {}
        for (suite, name), cursor in cursors.items():
            if suite != case.suite:
                continue
            observation = cursor.take(case, problem, name)
            if observation is None:
                missing[name] += 1
            else:
                found[name] = observation
        yield case, found
    for (_, name), cursor in cursors.items():
        if cursor.left is not None:
            problem(f"{name} has an observation of case {cursor.left.case} that is not planned, or is out of order")
    for name, count in missing.items():
        problem(f"{name} has no observation of {count} planned case(s)")


def judge_round(
    round_: Round,
    suites: Mapping[str, Suite],
    targets: Sequence[TargetInfo],
    blobs: Blobs,
    tally: Tally,
    sinks: Sequence[Sink] = (),
) -> None:
    """Judge every case of a round; hand each verdict to the sinks and count it."""
    known = {name: frozenset(c.id for c in suite.clauses()) for name, suite in suites.items()}
    for case, observations in joined(round_, targets, tally.problem):
        suite = suites.get(case.suite)
        if suite is None:
            tally.problem(f"suite {case.suite!r} of case {case.id} is not installed here")
            continue
        tally.add(observations)
        for verdict in judge_case(suite, known[case.suite], case, observations, blobs):
            tally.verdict(verdict)
            for sink in sinks:
                sink(case, verdict)


def judge(folder: RunFolder, suites: Mapping[str, Suite], sinks: Sequence[Sink] = ()) -> Tally:
    """Judge the planned round of a run and write ``verdicts.ndjson``.

    :raises RunError: the run cannot be read
    """
    header = folder.header()
    tally = Tally()
    temporary = folder.path / ".verdicts.ndjson"
    with temporary.open("wb") as file:
        judge_round(folder.round(), suites, header.targets, folder.blobs, tally, [_writer(file), *sinks])
    temporary.replace(folder.path / "verdicts.ndjson")
    _validate(header, folder, tally)
    return tally


_encode = msgspec.json.Encoder().encode


class _Slim(msgspec.Struct, frozen=True, tag="verdict", omit_defaults=True):
    clause: str
    case: str
    target: str
    status: Status
    note: str = ""
    peers: tuple[str, ...] = ()
    decision: bool = False
    ratio: float | None = None


def _writer(file: IO[bytes]) -> Sink:
    """Write verdicts: in full where something is to be read, without the empty fields where it is a plain pass."""

    def write(_case: Case, v: Verdict) -> None:
        # msgspec would write a ratio that is not finite as null
        if v.status is Status.FAIL or v.status is Status.ERROR or not math.isfinite(v.ratio or 0.0):
            file.write(to_line(v))
        else:
            slim = _Slim(v.clause, v.case, v.target, v.status, v.note, v.peers, v.decision, v.ratio)
            try:
                file.write(_encode(slim) + b"\n")
            except UnicodeEncodeError:  # a lone surrogate in a note
                file.write(to_line(v))

    return write


def verdicts(path: Path) -> Iterator[Verdict]:
    """The verdicts that judging wrote to a run folder."""
    return read_lines(path / "verdicts.ndjson", Verdict)


def _validate(header: Header, folder: RunFolder, tally: Tally) -> None:
    """The ways in which a run can be no evidence at all."""
    footer = folder.footer()
    if tally.cases == 0:
        tally.problem("no case was judged")
    if tally.cases != header.planned:
        tally.problem(f"the header plans {header.planned} cases, the plan holds {tally.cases}")
    if tally.observations != header.pairs:
        tally.problem(f"the header plans {header.pairs} observations, the run holds {tally.observations}")
    if footer is None:
        tally.problem("the recording is incomplete: it has no footer; finish it with --resume")
    elif footer.observations != tally.observations:
        tally.problem(f"the footer counts {footer.observations} observations, the run holds {tally.observations}")
    wanted = {folder.round().observations_path(t.suite, t.name) for t in header.targets}
    for path in sorted(set((folder.path / "observations").glob("*")) - wanted):
        tally.problem(f"{path.name} holds observations of a target that the header does not list")
    for info in header.targets:
        if info.unavailable:
            tally.problem(f"{info.name} could not be asked: {info.unavailable}")
    if not tally.verdicts[Status.PASS.value] + tally.verdicts[Status.FAIL.value]:
        reasons = {f"{t.name}: {t.unsupported}" for t in header.targets if t.unsupported}
        tally.problem("nothing was judged: no verdict is a pass or a fail" + "".join(f"; {r}" for r in sorted(reasons)))
    if tally.verdicts[Status.ERROR.value]:
        tally.problem(f"{tally.verdicts[Status.ERROR.value]} verdict(s) are errors of the harness or a suite")
    if tally.verdicts[Status.UNKNOWN.value]:
        tally.problem(f"{tally.verdicts[Status.UNKNOWN.value]} observation(s) were judged under no clause")


def matrix(tally: Tally, clauses: Mapping[str, str], targets: Sequence[TargetInfo]) -> dict[str, dict[str, str]]:
    """Clause by target: the worst status of all verdicts there, ``unknown`` where there was none.

    ``clauses`` maps a clause to its suite; a row has the targets of that suite.
    """
    table: dict[str, dict[str, str]] = {
        clause: {t.name: _cell(tally, clause, t.name) for t in targets if t.suite == suite}
        for clause, suite in clauses.items()
    }
    for clause, target in sorted(tally.counts):
        table.setdefault(clause, {})[target] = _cell(tally, clause, target)
    return table


def _cell(tally: Tally, clause: str, target: str) -> str:
    counts = tally.counts.get((clause, target), Counter())
    return worst(Status(status) for status, count in counts.items() if count).value
