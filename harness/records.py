"""The typed records that the stages hand to each other. Every file that Afere writes is made of these.

All are frozen. A run folder holds them as JSON, one object a line, each tagged with its ``type``. The JSON Schemas in
``reports/schema`` are exported from the classes here (``afere schema``).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, TypeVar

import msgspec

from harness.outcome import Outcome, Status

FORMAT: Final = 1
"""Version of the run folder and of every record in it. A newer one is refused with a clear message."""

Json = Any
"""What ``json`` can carry: None, bool, int, float, str, list, dict with string keys."""


class ArrayRef(msgspec.Struct, frozen=True):
    """An array stored as a content-addressed blob: raw C-order little-endian elements.

    ``digest`` is the SHA-256 (hex) of dtype, shape and bytes; ``dtype`` is a NumPy name or ``bfloat16``.
    """

    digest: str
    dtype: str
    shape: tuple[int, ...]


class Case(msgspec.Struct, frozen=True, tag="case"):
    """One input, complete. ``id`` depends on content only, so it is equal on every machine and after every upgrade."""

    suite: str
    op: str
    input: dict[str, Json]
    arrays: dict[str, ArrayRef] = {}
    id: str = ""

    @classmethod
    def make(cls, suite: str, op: str, input: dict[str, Json], arrays: dict[str, ArrayRef] | None = None) -> Case:  # noqa: A002
        """Build a case and compute its id.

        The input is kept as it is read back: keys in canonical order, no tuples. Equal ids mean equal content.
        """
        refs = dict(sorted((arrays or {}).items()))
        kept = json.loads(canonical(input))
        content = [suite, op, kept, {k: [r.digest, r.dtype, list(r.shape)] for k, r in refs.items()}]
        return cls(suite, op, kept, refs, digest(content)[:20])


class Cost(msgspec.Struct, frozen=True):
    """What an answer cost: seconds of wall clock and CPU, peak resident bytes. None where it was not measured."""

    wall_s: float | None = None
    cpu_s: float | None = None
    rss_bytes: int | None = None


class Observation(msgspec.Struct, frozen=True, tag="observation"):
    """What one target did with one case.

    ``attempt`` counts from 0; a retry is data and never replaces a first result.
    """

    case: str
    target: str
    outcome: Outcome
    payload: Json = None
    arrays: dict[str, ArrayRef] = {}
    detail: str = ""
    cost: Cost = Cost()
    attempt: int = 0
    fault: str = ""  # the harness's own fault, if it could not do its part; then every verdict on it is ``error``


class Clause(msgspec.Struct, frozen=True, tag="clause"):
    """One numbered sentence of a contract, with its level (MUST, SHOULD, MAY, AGREE) and its source."""

    id: str
    level: str
    text: str
    source: str
    since: str = ""


class Verdict(msgspec.Struct, frozen=True, tag="verdict"):
    """Judgement of one observation under one clause.

    ``stage``, ``field`` and ``change`` give the shape of a difference and never its text: at which stage, in which
    field (list indexes erased), what kind of change. ``peers`` are the targets it was compared to under an AGREE
    clause. ``decision`` marks a pass that is a refusal or a stop which the contract asks for. ``ratio`` is error over
    bound for numeric clauses.
    """

    clause: str
    case: str
    target: str
    status: Status
    stage: str = ""
    field: str = ""
    change: str = ""
    expected: Json = None
    got: Json = None
    note: str = ""
    peers: tuple[str, ...] = ()
    decision: bool = False
    ratio: float | None = None

    @property
    def shape(self) -> tuple[str, str, str]:
        """The coarse key of a difference."""
        return (self.stage, self.field, self.change)


class Finding(msgspec.Struct, frozen=True, tag="finding"):
    """All verdicts with one cause: one signature, one smallest case, one replay line."""

    signature: str
    title: str
    suite: str
    status: Status
    stage: str
    field: str
    change: str
    culprit: tuple[str, ...]  # features of the smallest case that the plainest case lacks
    clauses: tuple[str, ...]
    targets: tuple[str, ...]
    peers: tuple[str, ...]
    cases: int  # how many planned cases show it
    witness: Case
    expected: Json
    got: Json
    note: str
    minimised: bool
    script: str  # shows it without Afere
    replay: str
    known: str = ""  # the reason, where an expectation covers it


class TargetInfo(msgspec.Struct, frozen=True):
    """A target as it took part in a run: what it is, what it says of itself, what limits were in force."""

    name: str
    suite: str
    transport: str
    capabilities: tuple[str, ...]
    reports: dict[str, Json]
    limits: dict[str, str]
    unsupported: str = ""  # why this machine cannot run it; every observation of it is ``unsupported``
    unavailable: str = ""  # why it should have been there and was not; the run is incomplete


class Header(msgspec.Struct, frozen=True, tag="header"):
    """First record of a run: what was asked for, where, with what."""

    run: str
    format: int
    afere: str
    started: str  # ISO 8601, UTC
    options: dict[str, Json]
    environment: dict[str, Json]
    targets: tuple[TargetInfo, ...]
    planned: int  # cases
    pairs: int  # observations that the plan asks for


class Footer(msgspec.Struct, frozen=True, tag="footer"):
    """Last record of a complete run. A run without one is incomplete, whatever it holds."""

    run: str
    ended: str
    observations: int
    outcomes: dict[str, int]


class Summary(msgspec.Struct, frozen=True, tag="summary"):
    """The judgement of a whole run: counts, the clause by target matrix, validity, the exit status."""

    run: str
    valid: bool
    problems: tuple[str, ...]  # why it is invalid
    cases: int
    observations: int
    verdicts: dict[str, int]
    decisions: int
    outcomes: dict[str, dict[str, int]]  # target -> outcome -> count
    matrix: dict[str, dict[str, str]]  # clause -> target -> status
    counts: dict[str, dict[str, dict[str, int]]]  # clause -> target -> status -> count
    new: tuple[str, ...]  # signatures
    known: tuple[str, ...]
    stale: tuple[str, ...]  # expectations whose witness no longer shows the finding
    exit: int


class SelfCheck(msgspec.Struct, frozen=True, tag="selfcheck"):
    """How well one suite catches planted faults, and how rarely it blames an honest variant."""

    suite: str
    afere: str
    cases: int
    seed: int
    faults: int
    killed: int
    honest: int
    false_alarms: int
    matrix: dict[str, tuple[str, ...]]  # fault -> clauses that caught it
    toothless: tuple[str, ...]  # clauses that caught nothing
    escaped: tuple[str, ...]  # faults that a clause which should catch them did not ("fault: clause")
    alarms: tuple[str, ...]  # "honest variant: clause: case"


def canonical(value: Json) -> bytes:
    """Encode JSON canonically: sorted keys, no spaces, ASCII escapes (so that lone surrogates survive).

    A high surrogate followed by a low one is the same JSON text as the character that the two stand for.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=True).encode("ascii")


def digest(value: Json) -> str:
    """SHA-256 (hex) of the canonical JSON of ``value``."""
    return hashlib.sha256(canonical(value)).hexdigest()


def to_line(record: msgspec.Struct) -> bytes:
    """One record as a canonical JSON line, newline included.

    The standard library writes it because msgspec refuses lone surrogates and integers beyond 64 bits, both of which
    are legitimate test inputs.
    """
    return canonical(msgspec.to_builtins(record)) + b"\n"


Record = Case | Observation | Clause | Verdict | Finding | Header | Footer | Summary | SelfCheck
_R = TypeVar("_R", bound=msgspec.Struct)


def from_line(line: bytes | str, kind: type[_R]) -> _R:
    """Read back one line of :func:`to_line`.

    :raises msgspec.ValidationError: the line is JSON but not a ``kind``
    :raises json.JSONDecodeError: the line is not JSON
    """
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeError):  # lone surrogates and NaN, which msgspec does not take, or a real fault
        return msgspec.convert(json.loads(line), kind)
