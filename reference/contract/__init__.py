"""The contract: numbered clauses, one TOML file per subject, loaded as frozen records.

A file ``<subject>.toml`` in this folder is a list of ``[[clause]]`` tables with the keys of :class:`Clause`, all of
them needed, none beside them. The clause ids of one file are unique and keep the order of the file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Literal, get_args

import msgspec

Level = Literal["MUST", "SHOULD", "MAY", "AGREE"]
LEVELS: tuple[Level, ...] = get_args(Level)

# R-JOIN-1: a subject's letter or word, a topic, a number. Ids end up in file names and reports, so nothing else.
ID_PATTERN = re.compile(r"[A-Z][A-Z0-9]*(-[A-Z0-9]+)*-[0-9]+")


class ContractError(ValueError):
    """A contract file is absent or wrong; the message names the file, the clause and the value."""


class Clause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One numbered sentence of the contract.

    ``level`` follows RFC 2119 for MUST, SHOULD and MAY. AGREE marks what no source fixes but where implementations of
    one product must give one answer; it is judged by comparing targets, never against one answer of the reference.
    ``since`` is the first release (of Afere) whose contract holds the clause.
    """

    id: str
    level: Level
    text: str
    source: str
    since: str


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    clause: tuple[Clause, ...]


def parse(text: str, name: str) -> Mapping[str, Clause]:
    """Turn the TOML of one contract into ``{id: clause}``, in the file's order.

    Raises :class:`ContractError` for broken TOML, a missing, unknown or wrongly typed key, a level outside
    :data:`LEVELS`, an empty sentence or source, a malformed id and an id used twice.
    """
    try:
        clauses = msgspec.convert(tomllib.loads(text), _File).clause
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ContractError(f"contract {name!r} is broken: {error}. Correct reference/contract/{name}.toml.") from error
    found: dict[str, Clause] = {}
    for clause in clauses:
        if not ID_PATTERN.fullmatch(clause.id):
            raise ContractError(f"contract {name!r}: clause id {clause.id!r} is not of the form R-TOPIC-1.")
        if clause.id in found:
            raise ContractError(f"contract {name!r}: clause id {clause.id!r} is used twice: renumber one.")
        for key in ("text", "source", "since"):
            if not getattr(clause, key).strip():
                raise ContractError(f"contract {name!r}: clause {clause.id} has an empty {key!r}.")
        found[clause.id] = clause
    if not found:
        raise ContractError(f"contract {name!r} has no clause.")
    return MappingProxyType(found)


@cache
def load(name: str) -> Mapping[str, Clause]:
    """Return the clauses of contract ``name`` (``"render"``, ``"mla"``, ...), read once per process.

    Raises :class:`ContractError` if there is no such contract or its file is wrong.
    """
    file = resources.files(__name__) / f"{name}.toml"
    if not file.is_file():
        raise ContractError(f"no contract {name!r}: there are {', '.join(names()) or 'none'}.")
    return parse(file.read_text(encoding="utf-8"), name)


def names() -> tuple[str, ...]:
    """Return the names of all contracts shipped here, sorted."""
    files = resources.files(__name__).iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))
