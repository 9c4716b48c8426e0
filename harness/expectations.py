"""Known findings: for whom, why, and the witness case that shows them.

    [[known]]
    signature = "3f2a9c01d5e6"
    targets = ["minijinja@*"]        # shell patterns; whom the finding is known of
    reason = "prints 1e20 as a long decimal; reported as ..."
    witness = "witness/3f2a9c01d5e6.json"   # {"suite", "op", "input"}, beside this file

A known finding is replayed from its witness and never shrunk. It does not make a run fail. One whose witness no longer
shows it is reported as stale.
"""

from __future__ import annotations

import fnmatch
import json
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from harness.records import Case, Finding, Json
from harness.suite import Suite
from harness.targets.base import Blobs


class ExpectationError(Exception):
    """An expectations file that cannot be used; the message names the file, the entry and what to do."""


class Witness(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A case without its arrays, which its suite builds again."""

    suite: str
    op: str
    input: dict[str, Json]


class Known(msgspec.Struct, frozen=True):
    """One known finding with its witness."""

    signature: str
    targets: tuple[str, ...]
    reason: str
    witness: Witness
    issue: str = ""

    def covers(self, target: str) -> bool:
        """Whether it is known of this target."""
        return any(fnmatch.fnmatchcase(target, pattern) for pattern in self.targets)


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    signature: str
    targets: tuple[str, ...]
    reason: str
    witness: str
    issue: str = ""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    known: tuple[_Entry, ...] = ()


def load(path: Path) -> tuple[Known, ...]:
    """Read an expectations file and its witnesses.

    :raises ExpectationError: it is missing, broken, gives no reason, or a witness is missing
    """
    try:
        entries = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _File).known
    except FileNotFoundError:
        raise ExpectationError(f"expectations file {path} does not exist") from None
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise ExpectationError(f"expectations file {path} is broken: {error}") from error
    found = []
    for entry in entries:
        if not entry.reason.strip():
            raise ExpectationError(f"{path}: {entry.signature} has no reason; a known finding needs one")
        if not entry.targets:
            raise ExpectationError(f"{path}: {entry.signature} names no target; of whom is it known?")
        file = path.parent / entry.witness
        try:
            witness = msgspec.convert(json.loads(file.read_bytes()), Witness)
        except FileNotFoundError:
            raise ExpectationError(f"{path}: the witness {file} of {entry.signature} does not exist") from None
        except (json.JSONDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            raise ExpectationError(f"{path}: the witness {file} is broken: {error}") from error
        found.append(Known(entry.signature, entry.targets, entry.reason, witness, entry.issue))
    return tuple(found)


def gather(suites: Iterable[Suite], extra: Sequence[Path] = ()) -> tuple[Known, ...]:
    """Everything known: what ships with the suites and the user's own files."""
    shipped = [path for suite in suites if (path := suite.expectations()) is not None]
    return tuple(known for path in [*shipped, *extra] for known in load(path))


def witnesses(known: Sequence[Known], suites: Sequence[Suite], targets: Sequence[str], blobs: Blobs) -> list[Case]:
    """The witness cases that concern these targets, to be planned first.

    :raises ExpectationError: a witness is no case of its suite any more
    """
    by_name = {suite.name: suite for suite in suites}
    cases = []
    for entry in known:
        suite = by_name.get(entry.witness.suite)
        if suite is None or not any(entry.covers(target) for target in targets):
            continue
        case = suite.rebuild(entry.witness.op, entry.witness.input, blobs)
        if case is None:
            raise ExpectationError(
                f"the witness of known finding {entry.signature} is no case of suite {suite.name} any more: remove it"
            )
        cases.append(case)
    return cases


def reason_for(finding: Finding, known: Sequence[Known]) -> str:
    """The reasons under which a finding is known of all its targets; empty where one of them is not covered."""
    entries = [k for k in known if k.signature == finding.signature]
    if not all(any(k.covers(target) for k in entries) for target in finding.targets):
        return ""
    return "; ".join(dict.fromkeys(k.reason for k in entries))
