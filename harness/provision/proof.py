"""Prove that a provisioned environment still works."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec

from harness.provision import cache
from harness.sandbox import Limits, StartFailed, run_once

LIMITS = Limits(wall_s=180.0, memory_bytes=None)


class Check(msgspec.Struct, frozen=True):
    """Whether an environment works, and what was tried or what is wrong."""

    name: str
    ok: bool
    says: str


def check(name: str) -> Check:
    """Look for every file, then start the environment's program or Python once, with its probe."""
    environment = cache.find(name)
    if environment is None:
        return Check(name, ok=False, says=f"not installed, or not completely; run `afere targets add {name}`")
    paths = [*environment.files.values(), *filter(None, (environment.python, environment.program))]
    if gone := [path for path in paths if not Path(path).exists()]:
        return Check(name, ok=False, says=f"{gone[0]} is gone; run `afere targets remove {name}` and add it again")
    if not environment.probe:  # nothing in it runs on this machine by itself
        return Check(name, ok=True, says="all of its files are there")
    argv = [environment.program or environment.python or "", *environment.probe]
    with tempfile.TemporaryDirectory(prefix="afere-check-") as logs:
        try:
            done = run_once(argv, name="check", logs=Path(logs), limits=LIMITS, env=environment.env)
        except StartFailed as error:
            return Check(name, ok=False, says=str(error))
    if not done.ok:
        return Check(name, ok=False, says=f"{Path(argv[0]).name} {done.ending}. Its last lines:\n{done.tail}")
    return Check(name, ok=True, says=f"`{' '.join([Path(argv[0]).name, *argv[1:]])}` ended with status 0")
