"""The JSON Schemas of everything that Afere reads and writes: run folders, reports, the target protocol, ``--json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from harness.findings import Note
from harness.outputs import OUTPUTS
from harness.report import schema
from harness.run import Options
from harness.targets.protocol import MESSAGES

TYPES: Final[dict[str, Any]] = {
    **schema.TYPES,
    **OUTPUTS,
    **MESSAGES,
    "options": Options,
    "notes": dict[str, Note],
    "ratios": dict[str, dict[str, tuple[float, ...]]],
}

FILES: Final[dict[str, str]] = {
    "options.json": "options",
    "header.json": "header",
    "plan.ndjson": "case",
    "observations/*.ndjson": "observation",
    "footer.json": "footer",
    "minimised/plan.ndjson": "case",
    "minimised/observations/*.ndjson": "observation",
    "minimised/notes.json": "notes",
    "clauses.ndjson": "clause",
    "verdicts.ndjson": "verdict",
    "findings/*.json": "finding",
    "summary.json": "summary",
    "ratios.json": "ratios",
    "report.ndjson": "report-line",
}
"""Which schema describes which file of a run folder: the whole file, or each line of an ``.ndjson`` file."""


def export(folder: Path) -> list[Path]:
    """Write every schema and return the paths."""
    return schema.export(folder, TYPES)


def stale(folder: Path) -> list[str]:
    """What is wrong with the schemas in ``folder``, one sentence each."""
    return schema.stale(folder, TYPES)
