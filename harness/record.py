"""Record: put the planned cases to the targets and keep what each did. Knows nothing of what is right."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import msgspec

from harness.journal import Round, RunError, RunFolder, slug, write_atomic
from harness.outcome import Outcome
from harness.plan import Ask, PlanError
from harness.records import Case, Footer, Json, Observation, TargetInfo
from harness.suite import Session, Suite
from harness.targets.base import Answer, Blobs, Hello, InProcess, Target, TargetUnavailable, Unsupported

Notify = Callable[[str, int, int], None]
"""Called with (target, observations done, observations planned)."""


GRACE_S = 5.0
"""After a Ctrl-C, how long an in-process target may take to end its case. No one can stop it; then it is abandoned."""

NESTING = 500
"""Levels of lists and objects in an answer that are kept. Python's JSON reader and writer give up below 1,000."""


class Opened(msgspec.Struct, frozen=True):
    """A target that takes part in a run, ready or not."""

    suite: Suite
    name: str
    target: Target
    info: TargetInfo

    @property
    def ready(self) -> bool:
        """Whether it can be asked."""
        return not (self.info.unsupported or self.info.unavailable)


@contextlib.contextmanager
def opened(
    asks: Sequence[Ask], session: Session, missing: Mapping[str, str] = MappingProxyType({})
) -> Iterator[list[Opened]]:
    """Open the targets, and close every one of them however the block ends.

    A target that cannot be opened stays in the list with the reason. ``missing`` says of targets, by name, why they
    are known not to be available; they are not tried.
    """
    with contextlib.ExitStack() as stack:
        found = []
        for ask in asks:
            name, impossible = str(ask.name), ask.kind.impossible(ask.name)
            if impossible or name in missing:
                found.append(_not_there(ask, impossible, missing.get(name, "")))
                continue
            try:
                target = ask.kind.build(ask.name, session)
            except ValueError as error:  # the name says something that the kind cannot be
                raise PlanError(f"target {name}: {error}") from error
            except (Exception, SystemExit) as error:  # costs itself, not the run, as one that breaks while it opens
                said = str(error) if isinstance(error, TargetUnavailable) else f"making it raised {error!r}"
                found.append(_not_there(ask, "", said or "not available"))
                continue
            stack.callback(target.close)
            found.append(open_one(ask.suite, name, target))
        yield found


def _not_there(ask: Ask, unsupported: str, unavailable: str) -> Opened:
    """Stand in for a target that was never made, so that the report says why it has no answers."""
    name = str(ask.name)
    none = InProcess(name, {})
    info = TargetInfo(name, ask.suite.name, none.transport, (), {}, {}, unsupported, unavailable)
    return Opened(ask.suite, name, none, info)


def open_one(suite: Suite, name: str, target: Target) -> Opened:
    """Open one target and note what it says of itself, or why it could not be opened."""
    hello, unsupported, unavailable = Hello(()), "", ""
    try:
        hello = target.open()
    except Unsupported as error:
        unsupported = str(error) or "not supported on this machine"
    except TargetUnavailable as error:
        unavailable = str(error) or "not available"
    except (Exception, SystemExit) as error:  # a target that breaks while it opens costs itself, not the run
        unavailable = f"opening it raised {type(error).__name__}: {error}"
    # What a target reports may be of any type (a str subclass, a version object); the header holds plain JSON.
    reports = json.loads(json.dumps(hello.reports, default=str))
    info = TargetInfo(
        name, suite.name, target.transport, hello.capabilities, reports, hello.limits, unsupported, unavailable
    )
    return Opened(suite, name, target, info)


def ask(opened_: Opened, case: Case, blobs: Blobs, attempt: int = 0) -> Observation:
    """Put one case to one target and file its answer. Never raises: a fault of ours is filed as such."""
    info = opened_.info
    if not opened_.ready:
        return _observe(opened_.name, case, Answer(Outcome.UNSUPPORTED, detail=info.unsupported or info.unavailable))
    try:
        missing = opened_.suite.needs(case) - frozenset(info.capabilities)
        if missing:
            detail = f"outside its capabilities: {', '.join(sorted(missing))}"
            return _observe(opened_.name, case, Answer(Outcome.UNSUPPORTED, detail=detail))
        answer = opened_.target.run(case, blobs)
        if _nests_deeper(answer.payload, NESTING):
            detail = f"its answer nests deeper than {NESTING} levels, which is more than is kept"
            answer = Answer(Outcome.FAILED, detail=detail, cost=answer.cost)
        refs = {name: blobs.put(tensor) for name, tensor in answer.arrays.items()}
    except (Exception, SystemExit) as error:  # a library that ends the process is no way out of a run
        fault = f"{type(error).__name__}: {error}"
        return Observation(case.id, opened_.name, Outcome.FAILED, fault=fault, attempt=attempt)
    observation = _observe(opened_.name, case, answer)
    return msgspec.structs.replace(observation, arrays=refs, attempt=attempt)


def _nests_deeper(value: Json, limit: int) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        if not level:
            return False
        below = (inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer))
        level = [inner for inner in below if isinstance(inner, dict | list)]
    return bool(level)


def _observe(name: str, case: Case, answer: Answer) -> Observation:
    return Observation(case.id, name, answer.outcome, answer.payload, {}, answer.detail[:4000], answer.cost)


def _done(round_: Round, opened_: Opened) -> int:
    """How many observations are on disk, checked to be the first ones of the plan."""
    count = 0
    plan = (case for case in round_.plan() if case.suite == opened_.suite.name)
    for observation in round_.observations(opened_.suite.name, opened_.name):
        case = next(plan, None)
        if case is None or case.id != observation.case:
            where = round_.observations_path(opened_.suite.name, opened_.name)
            raise RunError(f"{where} does not follow the plan at its observation {count + 1}; start a new run")
        count += 1
    return count


class _Pending:
    """Says on disk which case an in-process target is at, so that a death of this process can be attributed."""

    def __init__(self, folder: Path, target: str) -> None:
        self._path = folder / f"{slug(target)}.pending"

    def deaths(self, case: Case) -> int:
        try:
            kept = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return 0
        return int(kept["deaths"]) + 1 if kept.get("case") == case.id else 0

    def enter(self, case: Case, deaths: int) -> None:
        write_atomic(self._path, json.dumps({"case": case.id, "deaths": deaths}).encode())

    def leave(self) -> None:
        self._path.unlink(missing_ok=True)


def _record_one(
    folder: RunFolder, round_: Round, opened_: Opened, total: int, notify: Notify, stop: threading.Event
) -> None:
    done = _done(round_, opened_)
    notify(opened_.name, done, total)
    pending = _Pending(round_.path, f"{opened_.suite.name}-{opened_.name}")
    marked = opened_.target.transport == "in-process"
    first = True
    mine = (case for case in round_.plan() if case.suite == opened_.suite.name)
    with round_.appender(opened_.suite.name, opened_.name) as file:
        for number, case in enumerate(mine):
            if number < done:
                continue
            if stop.is_set():
                pending.leave()
                return
            # Only the first case after a resume can be the one in flight when the process died.
            deaths = pending.deaths(case) if first and marked else 0
            first = False
            if deaths >= 2:
                detail = "the harness's own process died twice while this in-process target ran the case"
                file.append(Observation(case.id, opened_.name, Outcome.CRASHED, detail=detail))
            else:
                if marked:
                    pending.enter(case, deaths)
                observation = ask(opened_, case, folder.blobs)
                if stop.is_set() and not marked and observation.outcome is not Outcome.ANSWERED:
                    return  # it was ended by us, not by the case: --resume asks it again
                file.append(observation)
            notify(opened_.name, number + 1, total)
    pending.leave()


def _record_some(
    folder: RunFolder,
    round_: Round,
    turn: Sequence[Opened],
    sizes: Mapping[str, int],
    notify: Notify,
    stop: threading.Event,
) -> None:
    for t in turn:
        _record_one(folder, round_, t, sizes[t.suite.name], notify, stop)


def record(
    folder: RunFolder,
    round_: Round,
    targets: Sequence[Opened],
    *,
    jobs: int = 2,
    notify: Notify = lambda _target, _done, _total: None,
) -> bool:
    """Record what is still missing of a round; False where it was interrupted.

    Targets run side by side, ``jobs`` at a time, each in the order of the plan. Those in this process take turns: they
    share its global state (a library's thread count, for one), and none may disturb another.

    :raises RunError: the observations on disk do not belong to the plan
    """
    sizes = Counter(case.suite for case in round_.plan())
    stop = threading.Event()
    pool = ThreadPoolExecutor(max(1, jobs), thread_name_prefix="afere")
    patient = True
    try:
        asked = [t for t in targets if sizes[t.suite.name]]
        ours = [t for t in asked if t.target.transport == "in-process"]
        turns = [[t] for t in asked if t not in ours] + ([ours] if ours else [])
        futures = [pool.submit(_record_some, folder, round_, turn, sizes, notify, stop) for turn in turns]
        try:
            for future in futures:
                future.result()
        except BaseException as error:
            stop.set()
            for future in futures:
                future.cancel()
            if not isinstance(error, KeyboardInterrupt):
                raise
            patient = False
            for t in targets:
                if t.target.transport != "in-process":
                    t.target.close()  # a case in flight may take its whole limit; end it now
            wait(futures, timeout=GRACE_S)
            return False
    finally:
        pool.shutdown(wait=patient)
    return True


def finish(folder: RunFolder, targets: Sequence[Opened]) -> Footer:
    """Count what the planned round holds and write the footer."""
    outcomes: Counter[str] = Counter()
    for t in targets:
        for observation in folder.round().observations(t.suite.name, t.name):
            outcomes[observation.outcome.value] += 1
    footer = Footer(
        folder.header().run,
        datetime.now(UTC).isoformat(timespec="seconds"),
        sum(outcomes.values()),
        dict(sorted(outcomes.items())),
    )
    folder.write_footer(footer)
    return footer
