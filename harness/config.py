"""Options from ``afere.toml``, under those of the command line. Unknown keys are refused with a suggestion."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from harness import report
from harness.plan import nearest
from harness.records import Json
from harness.run import Options

LIMITS = ("wall_s", "cpu_s", "memory_mb", "output_mb")
FILE = Path("afere.toml")


class ConfigError(Exception):
    """The options are wrong; the message names the file or flag, the value and what would be right."""


def load(path: Path | None, given: dict[str, Json]) -> Options:
    """Merge defaults, the configuration file and what the command line gave (keys of :class:`Options`).

    ``path`` None means ``afere.toml`` in the current folder, if there is one.

    :raises ConfigError: the file is missing or broken, a key is unknown, or a value is out of range
    """
    file = FILE if path is None else path
    values: dict[str, Json] = {}
    if path is not None or file.exists():
        values = _read(file)
    merged = {**values, **given}
    try:
        options = msgspec.convert(merged, Options)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{file}: {error}" if values else str(error)) from error
    _check(options)
    return options


def _read(file: Path) -> dict[str, Json]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"configuration file {file} does not exist") from None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration file {file} cannot be read: {error}") from error
    known = list(Options.__struct_fields__)
    for key in values:
        if key not in known:
            raise ConfigError(f"{file}: unknown key {key!r}{nearest(key, known)}")
    return values


def _check(options: Options) -> None:
    if options.cases is not None and options.cases < 1:
        raise ConfigError(f"cases is {options.cases}; it must be at least 1")
    if options.jobs < 1:
        raise ConfigError(f"jobs is {options.jobs}; it must be at least 1")
    for name in options.format:
        if name not in report.FORMATS:
            raise ConfigError(f"unknown report format {name!r}{nearest(name, list(report.FORMATS))}")
    check_limits(options.limits)


def check_limits(limits: Mapping[str, float]) -> None:
    """Refuse limits that are unknown or no amount.

    :raises ConfigError: with the name and the value
    """
    for name, value in limits.items():
        if name not in LIMITS:
            raise ConfigError(f"unknown limit {name!r}{nearest(name, LIMITS)}")
        if not 0 < value < math.inf:
            raise ConfigError(f"limit {name} is {value}; it must be above 0 and finite")
