"""The JSON Schemas of everything that Afere reads and writes: run folders, reports, the target protocol, ``--json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from harness.outputs import OUTPUTS
from harness.report import schema
from harness.run import Options

TYPES: Final[dict[str, Any]] = {**schema.TYPES, **OUTPUTS, "options": Options}


def export(folder: Path) -> list[Path]:
    """Write every schema and return the paths."""
    return schema.export(folder, TYPES)


def stale(folder: Path) -> list[str]:
    """What is wrong with the schemas in ``folder``, one sentence each."""
    return schema.stale(folder, TYPES)
