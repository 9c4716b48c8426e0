r"""Membership by sets of positions: from each start, the set of ends that a node can reach.

The relation "part p leads from position i to position j" needs no backtracking: each (node, start) is computed once, so
the work is polynomial in the lengths of pattern and text whatever the pattern is. Lookaround and anchors are relations
too; back-references and raw text are not, and are refused.

Repetition: F(0) = {i}, F(k+1) = all ends from F(k). A path of more than len(text) steps holds an empty step, which can
be repeated or dropped, so F is constant after len(text) + 1 steps, and a count of 1,000,000 costs no more than one of
len(text) + 1.

Where the standards differ (what ``.`` leaves out, how far ``\d \w \s`` reach) a :class:`Reading` says which one is
meant; :data:`READINGS` are the admissible ones.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from reference.grammar.ast import (
    Alt,
    Anchor,
    Cat,
    Chars,
    Dot,
    Group,
    Lit,
    Look,
    Node,
    Raw,
    Ref,
    Rep,
    Short,
    walk,
)


class Reading(msgspec.Struct, frozen=True):
    """One admissible reading. ``dot`` is the set of characters that ``.`` leaves out."""

    dot: str
    shorthand: Literal["ascii", "unicode"]


DOTS = ("\n", "\n\r\u2028\u2029", "\n\r", "")
"""What ``.`` leaves out: Python ``re`` and Rust; ECMA-262; RFC 9485; a compiler in single-line mode."""

READINGS = tuple(Reading(dot, kind) for dot in DOTS for kind in ("ascii", "unicode"))
PYTHON = Reading("\n", "unicode")


class NotRelationalError(ValueError):
    """The tree holds a back-reference or raw text, which this matcher does not follow."""


def matches(node: Node, text: str, reading: Reading = PYTHON) -> bool:
    """Say whether the whole of ``text`` is in the language of ``node``.

    :raises NotRelationalError: the tree holds a back-reference or raw text
    """
    return len(text) in _Matcher(text, reading).ends(node, 0)


def contested(node: Node, text: str) -> bool:
    """Say whether the admissible readings can differ at all: a node of that kind meets such a character."""
    if text.isascii() and not any(c in "\n\r\x1c\x1d\x1e\x1f" for c in text):
        return False
    return any(isinstance(n, Dot | Short) for n in walk(node))


def _shorthand(letter: str, char: str, kind: str) -> bool:
    lower = letter.lower()
    if kind == "ascii" and not char.isascii():
        inside = False
    elif lower == "d":
        inside = char.isdecimal()
    elif lower == "w":
        inside = char.isalnum() or char == "_"
    else:
        inside = char in " \t\n\r\f\v" if kind == "ascii" else char.isspace()
    return inside if letter == lower else not inside


class _Matcher:
    def __init__(self, text: str, reading: Reading) -> None:
        self._text = text
        self._reading = reading
        self._memo: dict[tuple[int, int], frozenset[int]] = {}  # by identity: hashing a large tree costs its size

    def ends(self, node: Node, start: int) -> frozenset[int]:
        key = (id(node), start)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._compute(node, start)
        return found

    def _from(self, node: Node, starts: frozenset[int]) -> frozenset[int]:
        return frozenset(end for start in starts for end in self.ends(node, start))

    def _step(self, start: int, inside: bool) -> frozenset[int]:  # noqa: FBT001 - private
        return frozenset((start + 1,)) if inside else frozenset()

    def _compute(self, node: Node, start: int) -> frozenset[int]:
        text = self._text
        match node:
            case Lit(literal):
                return frozenset((start + len(literal),)) if text.startswith(literal, start) else frozenset()
            case Chars() | Dot() | Short():
                return self._step(start, start < len(text) and self._holds(node, text[start]))
            case Anchor(kind):
                return frozenset((start,)) if start == (0 if kind == "^" else len(text)) else frozenset()
            case Cat(parts):
                reached = frozenset((start,))
                for part in parts:
                    reached = self._from(part, reached)
                return reached
            case Alt(parts):
                return frozenset(end for part in parts for end in self.ends(part, start))
            case Group(part):
                return self.ends(part, start)
            case Look(part, behind, negated):
                if behind:
                    found = any(start in self.ends(part, begin) for begin in range(start + 1))
                else:
                    found = bool(self.ends(part, start))
                return frozenset((start,)) if found is not negated else frozenset()
            case Rep(part, low, high, _):
                return self._repeat(part, low, high, start)
            case Ref() | Raw():
                raise NotRelationalError(f"{type(node).__name__} is not a relation between positions")

    def _holds(self, node: Chars | Dot | Short, char: str) -> bool:
        if isinstance(node, Dot):
            return char not in self._reading.dot
        if isinstance(node, Short):
            return _shorthand(node.letter, char, self._reading.shorthand)
        return any(low <= ord(char) <= high for low, high in node.ranges) is not node.negated

    def _repeat(self, part: Node, low: int, high: int | None, start: int) -> frozenset[int]:
        settled = len(self._text) + 1
        last = settled if high is None else min(high, settled)
        first = min(low, settled)
        reached, result = frozenset((start,)), frozenset[int]()
        for count in range(max(first, last) + 1):
            if count >= first:
                if reached <= result and count > first:
                    break  # nothing new, and what follows from it was seen
                result |= reached
            if not reached:
                break
            reached = self._from(part, reached)
        return result
