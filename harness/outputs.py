"""What ``--json`` prints, as types: each has a JSON Schema in ``reports/schema``."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from harness.records import Finding, SelfCheck, Summary


class RunOutput(msgspec.Struct, frozen=True):
    """``afere run --json``, ``afere judge --json``."""

    folder: str
    summary: Summary | None  # None after ``afere plan`` and ``afere record``, which judge nothing
    findings: tuple[Finding, ...]
    reports: dict[str, str]  # format -> path


class ReplayOutput(msgspec.Struct, frozen=True):
    """``afere replay --json``. ``shows`` maps each target to whether the difference shows on it now."""

    finding: str
    shows: dict[str, bool]
    answers: dict[str, str]  # target -> outcome


class TargetRow(msgspec.Struct, frozen=True):
    """One row of ``afere targets list --json``."""

    kind: str
    suite: str
    summary: str
    embedded: bool
    versions: tuple[str, ...]
    variants: tuple[str, ...]
    unsupported: str  # why this machine cannot run its default variant; empty where it can


class EnvironmentRow(msgspec.Struct, frozen=True):
    """A provisioned environment in ``afere targets list --json``."""

    name: str
    bytes: int


class TargetsOutput(msgspec.Struct, frozen=True):
    """``afere targets list --json``."""

    targets: tuple[TargetRow, ...]
    environments: tuple[EnvironmentRow, ...]


class SelfCheckOutput(msgspec.Struct, frozen=True):
    """``afere selfcheck --json``."""

    passed: bool
    suites: tuple[SelfCheck, ...]


class BenchRow(msgspec.Struct, frozen=True):
    """One measurement of ``afere bench``: a figure, what it is compared with in the same run, and their ratio."""

    name: str
    value: float | None  # None where it could not be measured; ``note`` says why
    unit: str
    baseline: float | None = None
    baseline_name: str = ""
    ratio: float | None = None
    wanted: float | None = None  # the ratio (or the value, where there is no baseline) that the project aims at
    note: str = ""


class BenchOutput(msgspec.Struct, frozen=True):
    """``afere bench --json``."""

    rows: tuple[BenchRow, ...]


class ErrorOutput(msgspec.Struct, frozen=True):
    """What is printed where ``--json`` was asked for and the command failed."""

    error: str
    exit: int


OUTPUTS: Final[dict[str, Any]] = {
    "output-run": RunOutput,
    "output-replay": ReplayOutput,
    "output-targets": TargetsOutput,
    "output-selfcheck": SelfCheckOutput,
    "output-bench": BenchOutput,
    "output-error": ErrorOutput,
}
