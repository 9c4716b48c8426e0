"""The run folder: an append-only journal that survives a kill at any moment.

    header.json               first record, written before any case runs
    plan.ndjson               the planned set, cases in full
    observations/<suite>-<target>.ndjson   one file per target, in the order of the plan
    minimised/                a second, smaller plan with its observations: the smallest cases of the findings
    blobs/                    arrays, by content
    footer.json               last record of a complete recording
    verdicts.ndjson, summary.json, findings/   what judging wrote; judging again replaces them
    logs/                     logs of foreign programs

Each observation is one unbuffered append, so a kill loses at most the line in flight. A torn last line is dropped when
the file is read and cut off when it is appended to.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from harness.blobs import BlobStore
from harness.records import FORMAT, Case, Clause, Finding, Footer, Header, Observation, Summary, from_line, to_line

_R = TypeVar("_R", bound=msgspec.Struct)


class RunError(Exception):
    """A run folder that cannot be used; the message says why and what to do."""


class RunIncompleteError(RunError):
    """A run that proves nothing as it stands; the message says what to do."""


def slug(text: str) -> str:
    """A file name for a target: readable, and different for different names."""
    clean = re.sub(r"[^A-Za-z0-9._@-]+", "_", text)
    return clean if clean == text else f"{clean}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def write_atomic(path: Path, data: bytes) -> None:
    """Write a whole file or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_lines(path: Path, kind: type[_R]) -> Iterator[_R]:
    """Yield the records of a file; a torn last line (no newline) is dropped, a missing file is empty.

    :raises RunError: a complete line is not a record of that kind
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield from_line(line, kind)
            except (json.JSONDecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
                raise RunError(f"{path}, line {number} is damaged ({error}); restore it or start a new run") from error


class Appender:
    """Appends records to one file, one unbuffered write each."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _cut_torn_line(path)
        self._file = path.open("ab", buffering=0)

    def append(self, record: msgspec.Struct) -> None:
        """Append one record."""
        left = memoryview(to_line(record))
        while left:  # one write may take a part only, as on a disk that fills up; the rest must follow or raise
            left = left[self._file.write(left) or 0 :]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _cut_torn_line(path: Path) -> None:
    if not path.exists():
        return
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        position = end
        while position > 0:
            start = max(0, position - 65536)
            file.seek(start)
            found = file.read(position - start).rfind(b"\n")
            if found >= 0:
                position = start + found + 1
                break
            position = start
        if position != end:
            file.truncate(position)


class RunFolder:
    """One run on disk. ``path`` is its folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.blobs = BlobStore(path / "blobs")

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """Make a new, empty run folder.

        :raises RunError: the folder exists and is not empty
        """
        if path.exists() and any(path.iterdir()):
            raise RunError(f"{path} exists and is not empty; choose another folder, or --resume it")
        path.mkdir(parents=True, exist_ok=True)
        return cls(path)

    @classmethod
    def load(cls, path: Path) -> RunFolder:
        """Open an existing run.

        :raises RunError: it is no run, it is damaged, or a newer Afere wrote it
        """
        folder = cls(path)
        if not (path / "header.json").exists():
            raise RunError(f"{path} is not a run folder: it has no header.json")
        try:
            raw = json.loads((path / "header.json").read_bytes())
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise RunError(f"{path / 'header.json'} is not JSON ({error}); the run cannot be read") from error
        found = raw.get("format") if isinstance(raw, dict) else None
        if isinstance(found, int) and found > FORMAT:
            raise RunError(f"{path} is of a newer Afere (format {found}; this one reads up to {FORMAT}): upgrade Afere")
        folder.header()
        return folder

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for this process; a kill lets it go.

        :raises RunError: another process is recording or judging this run
        """
        try:
            handle = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            yield  # whoever reads it next says what is missing
            return
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(f"{self.path} is in use: another afere is recording or judging it") from None
            yield
        finally:
            os.close(handle)

    def _read(self, name: str, kind: type[_R]) -> _R:
        try:
            return from_line((self.path / name).read_bytes(), kind)
        except FileNotFoundError:
            raise RunError(f"{self.path} has no {name}") from None
        except (json.JSONDecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
            raise RunError(f"{self.path / name} is damaged: {error}") from error

    def write_header(self, header: Header) -> None:
        """Write the first record."""
        write_atomic(self.path / "header.json", to_line(header))

    def header(self) -> Header:
        """The first record."""
        return self._read("header.json", Header)

    def write_footer(self, footer: Footer) -> None:
        """Write the last record: the recording is complete."""
        write_atomic(self.path / "footer.json", to_line(footer))

    def footer(self) -> Footer | None:
        """The last record, None while the recording is incomplete."""
        return self._read("footer.json", Footer) if (self.path / "footer.json").exists() else None

    def round(self, name: str = "") -> Round:
        """The planned round (no name) or the ``minimised`` one."""
        return Round(self.path / name if name else self.path)

    def write_summary(self, summary: Summary) -> None:
        """Write what judging counted."""
        write_atomic(self.path / "summary.json", to_line(summary))

    def summary(self) -> Summary:
        """What judging counted.

        :raises RunError: the run was not judged yet, or the file is another run's
        """
        summary = self._read("summary.json", Summary)
        if summary.run != self.header().run:
            raise RunError(
                f"{self.path / 'summary.json'} is of run {summary.run}; judge this one: afere judge {self.path}"
            )
        return summary

    def write_clauses(self, clauses: Iterable[Clause]) -> None:
        """Keep the clauses that the run was judged under."""
        write_atomic(self.path / "clauses.ndjson", b"".join(map(to_line, clauses)))

    def clauses(self) -> tuple[Clause, ...]:
        """The clauses that the run was judged under."""
        return tuple(read_lines(self.path / "clauses.ndjson", Clause))

    def finding_path(self, signature: str) -> Path:
        """Where a finding is kept."""
        return self.path / "findings" / f"{signature}.json"

    def write_findings(self, findings: Iterable[Finding]) -> None:
        """Replace the findings of an earlier judgement."""
        kept = {self.finding_path(f.signature): f for f in findings}
        for path, finding in kept.items():
            write_atomic(path, to_line(finding))
        for path in (self.path / "findings").glob("*.json"):
            if path not in kept:
                path.unlink()

    def findings(self) -> tuple[Finding, ...]:
        """The findings, in file order."""
        paths = sorted((self.path / "findings").glob("*.json"))
        return tuple(self._read(str(path.relative_to(self.path)), Finding) for path in paths)


class Round:
    """A plan and its observations."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write_plan(self, cases: Iterable[Case]) -> int:
        """Write the planned set and return its size. Cases are streamed; the plan appears whole or not at all."""
        self.path.mkdir(parents=True, exist_ok=True)
        temporary = self.path / ".plan.ndjson"
        count = 0
        with temporary.open("wb") as file:
            for case in cases:
                file.write(to_line(case))
                count += 1
        temporary.replace(self.path / "plan.ndjson")
        return count

    def plan(self) -> Iterator[Case]:
        """The planned cases in order."""
        return read_lines(self.path / "plan.ndjson", Case)

    def observations_path(self, suite: str, target: str) -> Path:
        """The file of one target's observations."""
        return self.path / "observations" / f"{suite}-{slug(target)}.ndjson"

    def observations(self, suite: str, target: str) -> Iterator[Observation]:
        """What one target did, in the order in which it did it."""
        return read_lines(self.observations_path(suite, target), Observation)

    def appender(self, suite: str, target: str) -> Appender:
        """Append observations of one target."""
        return Appender(self.observations_path(suite, target))
