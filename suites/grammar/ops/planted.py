"""A deliberately wrong compiler in a worker: honest but for what ``AFERE_PLANTED`` names. For the self-check only."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import Any

from matching import operation  # type: ignore[import-not-found]

_spec = importlib.util.spec_from_file_location("planted_nfa", Path(__file__).parent.parent / "nfa.py")
assert _spec is not None
assert _spec.loader is not None
nfa = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(nfa)

LARGE = re.compile(r"\{\d{4,}")
DEEP = "(" * 200
PLANTED = os.environ.get("AFERE_PLANTED", "")


def never_ends(pattern: str) -> None:
    """Loop on a count of four digits."""
    while LARGE.search(pattern):
        pass


def eats_memory(pattern: str) -> None:
    """Allocate without end on a count of four digits."""
    kept = []
    while LARGE.search(pattern):
        kept.append(b"x" * (8 << 20))


def dies_of_depth(pattern: str) -> None:
    """End the process on deep parentheses, as a recursive parser in C does."""
    if DEEP in pattern:
        os.kill(os.getpid(), 11)


FAULTS = {"never-ends": never_ends, "eats-memory": eats_memory, "dies-of-depth": dies_of_depth}


def compile_(pattern: str) -> Any:
    """Do the wrong thing where it applies, else compile."""
    fault = FAULTS.get(PLANTED)
    if fault is not None:
        fault(pattern)
    return nfa.Automaton(pattern)


def accepts(automaton: Any, text: str) -> bool:
    """The whole text."""
    return bool(automaton.accepts(text))


def refused(error: BaseException) -> bool:
    """Its own class."""
    return isinstance(error, nfa.Refusal)


OPS = {"regex": operation(compile_, accepts, refused)}
