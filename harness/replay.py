"""Replay a finding from its file alone: ask its targets again and say whether the difference still shows."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from harness.blobs import BlobStore
from harness.findings import Key
from harness.journal import RunFolder
from harness.judge import judge_case
from harness.outcome import Outcome, Status
from harness.plan import nearest, select_targets
from harness.provision import ProvisionError, provision
from harness.record import ask, opened
from harness.records import Finding, Observation, Verdict, from_line
from harness.rerun import show
from harness.suite import Session, all_suites


class ReplayError(Exception):
    """The finding cannot be replayed; the message says why."""


class Replayed(msgspec.Struct, frozen=True):
    """The finding, what each target did now, the verdicts on that, and on which targets the difference shows."""

    finding: Finding
    observations: dict[str, Observation]
    verdicts: tuple[Verdict, ...]
    shows: dict[str, bool]
    unasked: dict[str, str]  # target -> why it could not be asked


def load(path: Path) -> Finding:
    """Read a finding file.

    :raises ReplayError: it is missing or no finding
    """
    try:
        return from_line(path.read_bytes(), Finding)
    except FileNotFoundError:
        raise ReplayError(f"finding file {path} does not exist") from None
    except IsADirectoryError:
        raise ReplayError(
            f"{path} is a folder; give the file of one finding, such as {path}/findings/ID.json"
        ) from None
    except (json.JSONDecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise ReplayError(f"{path} is not the file of a finding: {error}") from error


def replay(path: Path, targets: Sequence[str] = (), limits: dict[str, float] | None = None) -> Replayed:
    """Ask the finding's targets (or these) about its witness and judge the answers.

    :raises ReplayError: the file is no finding, its suite is not installed, or the case cannot be built any more
    :raises PlanError: a target is not known
    """
    finding = load(path)
    suites = all_suites()
    suite = suites.get(finding.suite)
    if suite is None:
        raise ReplayError(
            f"suite {finding.suite!r} of this finding is not installed{nearest(finding.suite, list(suites))}"
        )
    if not finding.targets:
        raise ReplayError(f"{path} names no target: on whom does the difference show?")
    names = list(targets) or list(dict.fromkeys([*finding.targets, *finding.peers]))
    asks = select_targets([suite], names)
    missing: dict[str, str] = {}
    for one in asks:
        need = one.kind.needs(one.name)
        if need is not None and not one.kind.impossible(one.name):
            try:
                provision(need.recipe, need.name)
            except ProvisionError as error:
                missing[str(one.name)] = str(error)
    with tempfile.TemporaryDirectory(prefix="afere-replay-") as folder:
        blobs = BlobStore(Path(folder) / "blobs")
        case = suite.rebuild(finding.witness.op, finding.witness.input, blobs)
        if case is None:
            raise ReplayError(
                f"the case of finding {finding.signature} is not one that suite {suite.name} knows any more"
            )
        session = Session(RunFolder(Path(folder)).path, limits or {})
        with opened(asks, session, missing) as live:
            observations = {t.name: ask(t, case, blobs) for t in live}
            unasked = {t.name: t.info.unsupported or t.info.unavailable for t in live if not t.ready}
        verdicts = judge_case(suite, frozenset(c.id for c in suite.clauses()), case, observations, blobs)
    # What was not put to a target, or could not be judged, is no sign that the difference is gone.
    for name, observation in observations.items():
        faults = [v.note for v in verdicts if v.target == name and v.status is Status.ERROR]
        if observation.outcome is Outcome.UNSUPPORTED:
            unasked.setdefault(name, observation.detail or "it does not support the case")
        elif faults:
            unasked.setdefault(name, faults[0])
    shape = (finding.stage, finding.field, finding.change)
    shows = {
        name: show(verdicts, Key(suite.name, name, shape)) is not None for name in observations if name not in unasked
    }
    return Replayed(finding, observations, tuple(verdicts), shows, unasked)
