"""JSON Schemas of everything that Afere writes, exported from the record types. The checked-in ones must be current."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from harness import records
from harness.report import ndjson

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"

RECORDS: Final[tuple[type, ...]] = get_args(records.Record)

TYPES: Final[Mapping[str, Any]] = {
    **{kind.__name__.lower(): kind for kind in RECORDS},
    "run-line": reduce(or_, RECORDS),
    "report-line": ndjson.Line,
}
"""Name of the schema -> the type it is made from. ``run-line`` is any line of a run folder's files, ``report-line`` any
line of ``report.ndjson``. Outputs of the command line are passed to :func:`export` by the command line."""


def schemas(types: Mapping[str, Any] = TYPES) -> dict[str, str]:
    """File name -> text of each schema. Deterministic."""
    made = {}
    for name, kind in types.items():
        schema = {"$schema": DRAFT, "title": f"afere {name}", **msgspec.json.schema(kind)}
        made[f"{name}.schema.json"] = json.dumps(schema, indent=2, sort_keys=True) + "\n"
    return made


def export(folder: Path, types: Mapping[str, Any] = TYPES) -> list[Path]:
    """Write each schema to ``folder`` and return the paths. Leaves other files alone."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in schemas(types).items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def stale(folder: Path, types: Mapping[str, Any] = TYPES) -> list[str]:
    """What is wrong with the checked-in schemas, one sentence each; empty if they are current."""
    wrong = []
    for name, text in schemas(types).items():
        path = folder / name
        if not path.exists():
            wrong.append(f"{name} is missing")
        elif path.read_text(encoding="utf-8") != text:
            wrong.append(f"{name} is out of date")
    return wrong
