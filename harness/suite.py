"""What a suite gives to the harness. Suites reach it through the entry-point group ``afere.suites``.

A suite joins cases, targets, judges and planted faults of one subject. The harness calls it and knows nothing of the
subject. ``suites/README.md`` says how to add one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Protocol

import msgspec

from harness.provision.recipes import Recipe
from harness.records import Case, Clause, Json, Observation, Verdict
from harness.targets.base import Blobs, Target

_NAME = re.compile(r"^(?P<kind>[a-z][a-z0-9-]*)(?:@(?P<version>[^:@\s]+))?(?::(?P<variant>\S+))?\Z")


class TargetName(msgspec.Struct, frozen=True):
    """``kind[@version][:variant]``, for example ``vllm-kernel@0.32.0:avx2`` or ``url:http://127.0.0.1:8000``."""

    kind: str
    version: str = ""
    variant: str = ""

    @classmethod
    def parse(cls, text: str) -> TargetName:
        """Split a name.

        :raises ValueError: the text is not of that form
        """
        match = _NAME.match(text)
        if match is None:
            raise ValueError(f"target name {text!r} is not of the form kind[@version][:variant], e.g. vllm-rs@0.33.0")
        return cls(match["kind"], match["version"] or "", match["variant"] or "")

    def __str__(self) -> str:
        return self.kind + (f"@{self.version}" if self.version else "") + (f":{self.variant}" if self.variant else "")


class Session(msgspec.Struct, frozen=True):
    """What a target may use while it takes part in a run."""

    run_dir: Path  # scratch and logs go below it
    limits: dict[str, float]  # wall_s, cpu_s, memory_mb, output_mb; each per case; absent: the kind's default

    @property
    def logs(self) -> Path:
        """Where the logs of foreign programs are kept."""
        return self.run_dir / "logs"


class Needed(msgspec.Struct, frozen=True):
    """What has to be provisioned before a target can start: an environment's name and a recipe for it.

    ``recipe`` is a record of :mod:`harness.provision`. Two targets with one name share one environment.
    """

    name: str
    recipe: Recipe


class TargetKind(msgspec.Struct, frozen=True):
    """One row of the table of targets that a suite can ask.

    ``build`` makes a target; it must be cheap and start nothing (``open`` does), and raises ``TargetUnavailable`` where
    its environment is not there. ``needs`` says what has to be provisioned first, None for an embedded target.
    ``impossible`` says why this machine cannot run it, from processor flags or tools, before anything is downloaded or
    tried; empty where it can.
    """

    name: str
    summary: str
    build: Callable[[TargetName, Session], Target]
    needs: Callable[[TargetName], Needed | None] = lambda _name: None
    impossible: Callable[[TargetName], str] = lambda _name: ""
    versions: tuple[str, ...] = ()  # known to work; the last one is the default. Empty: unversioned (embedded, url)
    variants: tuple[str, ...] = ()  # the first one is the default
    address: str = ""  # the form of a variant that is free text and required, e.g. "http://HOST:PORT"
    embedded: bool = False


class Fault(msgspec.Struct, frozen=True):
    """A planted fault: a deliberately wrong target. ``breaks`` are the clauses that must catch it.

    An honest variant is the same with an empty ``breaks``: different and right, so no clause may catch it.
    """

    name: str
    summary: str
    build: Callable[[], Target]
    breaks: tuple[str, ...] = ()
    partner: Callable[[], Target] | None = None  # the honest peer it is judged beside; None: the suite's own


class Suite(Protocol):
    """One subject."""

    name: str
    summary: str
    default_cases: int
    default_targets: tuple[str, ...]  # embedded ones: they need the base install only

    def clauses(self) -> tuple[Clause, ...]:
        """The numbered clauses that its judge can speak about."""

    def kinds(self) -> Mapping[str, TargetKind]:
        """The targets that it can ask, by kind."""

    def cases(self, count: int, seed: int, blobs: Blobs) -> Iterator[Case]:
        """Yield exactly ``count`` different cases (edge lists first), the same for equal arguments everywhere."""

    def needs(self, case: Case) -> frozenset[str]:
        """The capabilities that a target must have for this case (``op`` or ``op:feature``)."""

    def judge(self, case: Case, observations: Mapping[str, Observation], blobs: Blobs) -> Iterable[Verdict]:
        """Judge all observations of one case at once. Pure: no target, no clock, no randomness.

        Speaks only of clauses that apply to this case. AGREE clauses compare the observations with each other. An
        ``unsupported`` outcome gives an unsupported verdict under each clause that would have applied.
        """

    def features(self, case: Case) -> frozenset[str]:
        """Tags that describe the case, e.g. ``max_tokens:beyond-context``; what can be a cause of a difference.

        They depend on ``case.input`` alone, must not raise on any input that minimising makes of a valid one, and
        leave out what is accidental (sizes within one class, the text of a string).
        """

    def plainest(self, case: Case) -> dict[str, Json]:
        """The plainest input of the same operation; minimising moves towards it."""

    def rebuild(self, op: str, input: dict[str, Json], blobs: Blobs) -> Case | None:  # noqa: A002
        """Make the case (arrays too) for an input that minimising proposes; None where it is not a sensible case."""

    def script(self, case: Case, target: str) -> str:
        """A ``curl`` line or a short script that shows the case on that target without Afere."""

    def faults(self) -> tuple[Fault, ...]:
        """Planted faults and honest variants."""

    def expectations(self) -> Path | None:
        """The file of known findings that ships with the suite."""


def _sound(entry: EntryPoint, found: Mapping[str, Suite]) -> Suite:
    """The suite of an entry point, if its tables can be read.

    :raises ValueError: its name is not the entry point's, or is taken
    """
    one: Suite = entry.load()
    # A run folder knows a suite by its own name, and the command line by the entry point's.
    if one.name != entry.name:
        raise ValueError(f"it calls itself {one.name!r}, its entry point {entry.name!r}")
    if entry.name in found:
        raise ValueError("two packages bring a suite of this name; uninstall one")
    one.clauses()
    one.kinds()
    return one


@cache
def _load() -> tuple[dict[str, Suite], dict[str, str]]:
    found: dict[str, Suite] = {}
    broken: dict[str, str] = {}
    for entry in sorted(entry_points(group="afere.suites"), key=lambda e: e.name):
        try:
            found[entry.name] = _sound(entry, found)
        except (Exception, SystemExit) as error:  # a third party's suite must not take the others with it, or end us
            broken[entry.name] = f"{entry.value} cannot be loaded: {type(error).__name__}: {error}"
            found.pop(entry.name, None)
    return found, broken


def all_suites() -> dict[str, Suite]:
    """Every installed suite that can be loaded, by name, from the entry points, in name order."""
    return dict(_load()[0])


def broken_suites() -> dict[str, str]:
    """Installed suites that cannot be loaded: name -> why."""
    return dict(_load()[1])
