"""Reports: one listener per format over one typed model. They show what was judged and decide nothing.

:func:`write` makes the files; :data:`FORMATS` is the table of formats.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from harness.report import html, junit, markdown, ndjson
from harness.report.model import RunReport

__all__ = ["FORMATS", "Format", "RunReport", "write"]


class Format(msgspec.Struct, frozen=True):
    """One row of the table of formats: the file's name, who it is for, and what writes it."""

    file: str
    summary: str
    write: Callable[[RunReport, BinaryIO], None]


FORMATS: Final[dict[str, Format]] = {
    "ndjson": Format("report.ndjson", "for programs: one record a line", ndjson.write),
    "junit": Format("junit.xml", "for CI systems", junit.write),
    "markdown": Format("report.md", "for a pull request", markdown.write),
    "html": Format("report.html", "for people: one file, offline", html.write),
}


def write(report: RunReport, folder: Path, formats: Sequence[str] = tuple(FORMATS)) -> dict[str, Path]:
    """Write the report in each of ``formats`` and return format -> path.

    Each file appears whole or not at all: it is written beside its place and renamed into it.

    :raises ValueError: a format is unknown
    :raises OSError: the folder cannot be written
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise ValueError(f"unknown report format {unknown[0]!r}; choose from {', '.join(FORMATS)}")
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for name in dict.fromkeys(formats):
        row = FORMATS[name]
        path = folder / row.file
        _atomically(path, lambda out, row=row: row.write(report, out))  # type: ignore[misc]
        written[name] = path
    return written


def _atomically(path: Path, fill: Callable[[BinaryIO], None]) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            fill(out)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    # mkstemp makes files that only their owner reads; a report is for sharing. The mask can only be read by setting it.
    mask = os.umask(0)
    os.umask(mask)
    return mask
