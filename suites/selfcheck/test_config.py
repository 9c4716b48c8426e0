"""Options from ``afere.toml``: under those of the command line, and nothing unknown is let through."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.config import ConfigError, load
from harness.run import Options


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "afere.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_without_a_file_the_defaults_hold(here: Path) -> None:
    assert load(None, {}) == Options()
    assert here == Path.cwd()


def test_the_file_of_the_current_folder_is_read(here: Path) -> None:
    write(here, 'suite = ["toy"]\ncases = 7\nminimise = false\n[limits]\nwall_s = 5\n')
    assert load(None, {}) == Options(suite=("toy",), cases=7, minimise=False, limits={"wall_s": 5.0})


def test_the_command_line_wins(here: Path) -> None:
    write(here, "cases = 7\nseed = 3\n")
    options = load(None, {"cases": 9})
    assert (options.cases, options.seed) == (9, 3)


def test_every_option_can_stand_in_the_file(here: Path) -> None:
    values: dict[str, Any] = {k: v for k, v in msgspec.to_builtins(Options()).items() if v is not None}
    write(here, "\n".join(f"{key} = {json.dumps(value)}" for key, value in values.items()))
    assert load(None, {}) == Options()


BAD: dict[str, tuple[str | bytes, str]] = {
    "unknown key": ("case = 7", "afere.toml: unknown key 'case'; did you mean 'cases'?"),
    "unknown key, nothing near": ("xyzzy = 7", "afere.toml: unknown key 'xyzzy'; known are: cases, expect, format"),
    "unknown limit": ("[limits]\nwal_s = 5", "unknown limit 'wal_s'; did you mean 'wall_s'?"),
    "unknown format": ('format = ["htm"]', "unknown report format 'htm'; did you mean 'html'?"),
    "wrong type": ('cases = "many"', "afere.toml: Expected `int | null`, got `str` - at `$.cases`"),
    "a string for a list": ('suite = "toy"', "Expected `array`, got `str` - at `$.suite`"),
    "no cases": ("cases = 0", "cases is 0; it must be at least 1"),
    "fewer than no cases": ("cases = -1", "cases is -1; it must be at least 1"),
    "no jobs": ("jobs = 0", "jobs is 0; it must be at least 1"),
    "no limit": ("[limits]\nwall_s = 0", "limit wall_s is 0.0; it must be above 0"),
    "a limit that is no number": ("[limits]\nwall_s = nan", "limit wall_s is nan"),
    "an endless limit": ("[limits]\nwall_s = inf", "limit wall_s is inf"),
    "broken TOML": ("cases = ", "configuration file afere.toml cannot be read: "),
    "a key twice": ("cases = 1\ncases = 2", "configuration file afere.toml cannot be read: "),
    "not text": (b"\xff\xfe\x00", "configuration file afere.toml cannot be read: "),
}


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_file_is_one_sentence(here: Path, name: str) -> None:
    text, says = BAD[name]
    write(here, text)
    with pytest.raises(ConfigError) as error:
        load(None, {})
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_was_named_must_be_there(here: Path) -> None:
    with pytest.raises(ConfigError, match=r"configuration file nowhere\.toml does not exist"):
        load(Path("nowhere.toml"), {})
    with pytest.raises(ConfigError, match="cannot be read"):
        load(here, {})


def test_a_mistake_on_the_command_line_does_not_blame_the_file(here: Path) -> None:
    write(here, "seed = 1")
    with pytest.raises(ConfigError, match=r"^cases is 0"):
        load(None, {"cases": 0})
