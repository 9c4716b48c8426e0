"""What a compiler has to decide about one string: in, out, or open (the standards leave a choice).

Two oracles, required to agree: the positional matcher under every admissible reading, and Python's ``re`` where its
backtracking is bounded (:func:`tame`). ``re`` alone would hang on the very patterns that this subject is about; the
matcher alone would have nobody to check it.
"""

from __future__ import annotations

import re
import warnings
from enum import StrEnum
from functools import lru_cache

from reference.grammar.ast import Alt, Cat, Chars, Dot, Group, Lit, Look, Node, Raw, Ref, Rep, Short, walk
from reference.grammar.match import PYTHON, READINGS, NotRelationalError, contested, matches
from reference.grammar.text import to_text

MAX_RE_TEXT = 40
"""Longest string (characters) given to ``re``: with at most three unbounded loops that is below 40**3 steps."""

MAX_LOOPS = 3
MAX_ALTERNATIONS = 8
MAX_RE_COUNT = 200


class Membership(StrEnum):
    """The answer for one string."""

    IN = "in"
    OUT = "out"
    OPEN = "open"  # admissible readings differ
    UNKNOWN = "unknown"  # no oracle here can say (back-references, text outside the tree that ``re`` refuses)


class OracleConflictError(AssertionError):
    """The two oracles disagree: our fault, whatever the target said."""


def membership(node: Node, text: str) -> Membership:
    """Decide one string.

    :raises OracleConflictError: the positional matcher and ``re`` disagree
    """
    try:
        ours = matches(node, text, PYTHON)
    except NotRelationalError:
        return _by_re(node, text)
    if tame(node) and len(text) <= MAX_RE_TEXT:
        theirs = _compiled(to_text(node)).fullmatch(text) is not None
        if theirs is not ours:
            raise OracleConflictError(f"{to_text(node)!r} on {text!r}: positions say {ours}, re says {theirs}")
    if contested(node, text) and any(matches(node, text, reading) is not ours for reading in READINGS):
        return Membership.OPEN
    return Membership.IN if ours else Membership.OUT


def _by_re(node: Node, text: str) -> Membership:
    """The answer for a tree with back-references, which only ``re`` follows."""
    if not tame(node, references=True) or len(text) > MAX_RE_TEXT:
        return Membership.UNKNOWN
    try:
        return Membership.IN if _compiled(to_text(node)).fullmatch(text) else Membership.OUT
    except re.error:  # a reference to no group
        return Membership.UNKNOWN


def tame(node: Node, *, references: bool = False) -> bool:
    """Say whether ``re`` decides short strings of this tree in bounded time.

    Every loop repeats one character or a sequence of single characters, so it can end at one place per start; then the
    work is at most the product of the numbers of choices.
    """
    loops = alternations = 0
    for current in walk(node):
        if isinstance(current, Rep):
            if current.low > MAX_RE_COUNT or (current.high or 0) > MAX_RE_COUNT or not _rigid(current.part):
                return False
            loops += current.low != current.high
        elif isinstance(current, Alt):
            alternations += 1
        elif isinstance(current, Raw) or (isinstance(current, Ref) and not references):
            return False
        elif isinstance(current, Look) and current.behind:
            return False  # ``re`` asks for a fixed width behind
        elif isinstance(current, Group) and current.depth > 50:
            return False
    return loops <= MAX_LOOPS and alternations <= MAX_ALTERNATIONS


def _rigid(node: Node) -> bool:
    """One way to match, never empty: single characters in sequence."""
    match node:
        case Lit(text):
            return bool(text)
        case Chars() | Dot() | Short():
            return True
        case Cat(parts):
            return bool(parts) and all(_rigid(part) for part in parts)
        case Group(part):
            return _rigid(part)
        case _:
            return False


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a FutureWarning says that the text may mean something else elsewhere
        return re.compile(pattern)
