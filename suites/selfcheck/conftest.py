"""What the tests of the harness share: a toy suite in place of the installed ones, and the command line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness import cli as command_line
from harness import suite
from harness.blobs import BlobStore
from harness.suite import Suite
from suites.selfcheck.toy import Toy

REPOSITORY = Path(__file__).resolve().parents[2]


class Ran(msgspec.Struct, frozen=True):
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which must be one JSON value and nothing else."""
        return json.loads(self.out)


Install = Callable[..., None]
Afere = Callable[..., Ran]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put these suites in place of the installed ones."""

    def put(*suites: Suite) -> None:
        found = {one.name: one for one in suites}
        monkeypatch.setattr(suite, "_load", lambda: (found, {}))

    return put


@pytest.fixture
def toy(install: Install) -> Toy:
    """The toy suite, installed as the only one."""
    one = Toy()
    install(one)
    return one


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    """An empty store."""
    return BlobStore(tmp_path / "blobs")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, as the current one: no options file of the developer's leaks in."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def afere(toy: Toy, here: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Afere]:  # noqa: ARG001
    """The command line in this process, with the toy suite, in an empty folder."""

    def call(*words: str | os.PathLike[str]) -> Ran:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            command_line.main([os.fspath(word) for word in words])
        said = capsys.readouterr()
        return Ran(int(ended.value.code or 0), said.out, said.err)

    yield call
    sys.stdout.flush()
