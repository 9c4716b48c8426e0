"""The regular expressions that the suite speaks about, as frozen records.

The tree is small on purpose: what RFC 9485 (I-Regexp), ECMA-262 and Python's ``re`` share, plus the constructs on which
compilers differ (anchors, lookaround, back-references, shorthand classes), plus :class:`Raw` for text outside any tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

MAX_CODE = 0x10FFFF


class Lit(msgspec.Struct, frozen=True, tag=True):
    """A run of characters that stand for themselves. Empty text is the empty expression."""

    text: str


class Chars(msgspec.Struct, frozen=True, tag=True):
    """A class: inclusive ranges of code points, or everything outside them."""

    ranges: tuple[tuple[int, int], ...]
    negated: bool = False


class Dot(msgspec.Struct, frozen=True, tag=True):
    """``.``: any character; the standards differ about line terminators."""


class Short(msgspec.Struct, frozen=True, tag=True):
    r"""A shorthand class ``\d \D \w \W \s \S``; the standards differ outside ASCII."""

    letter: Literal["d", "D", "w", "W", "s", "S"]


class Cat(msgspec.Struct, frozen=True, tag=True):
    """Parts one after the other."""

    parts: tuple[Node, ...]


class Alt(msgspec.Struct, frozen=True, tag=True):
    """One of the parts."""

    parts: tuple[Node, ...]


class Rep(msgspec.Struct, frozen=True, tag=True):
    """``low`` to ``high`` copies (None: no upper bound). ``lazy`` only says which match is preferred."""

    part: Node
    low: int
    high: int | None
    lazy: bool = False


class Group(msgspec.Struct, frozen=True, tag=True):
    """``depth`` pairs of parentheses around one part. One record, so that a depth of 30,000 needs no recursion."""

    part: Node
    depth: int = 1
    capture: bool = True


class Anchor(msgspec.Struct, frozen=True, tag=True):
    """``^`` (start of the string) or ``$`` (end of the string)."""

    kind: Literal["^", "$"]


class Look(msgspec.Struct, frozen=True, tag=True):
    """Lookahead or lookbehind, positive or negated."""

    part: Node
    behind: bool = False
    negated: bool = False


class Ref(msgspec.Struct, frozen=True, tag=True):
    """A back-reference to capture group ``number``. The oracles here don't follow it."""

    number: int


class Raw(msgspec.Struct, frozen=True, tag=True):
    """Pattern text outside the tree, by its name in :mod:`reference.grammar.dialect`."""

    name: str


Node = Lit | Chars | Dot | Short | Cat | Alt | Rep | Group | Anchor | Look | Ref | Raw

EMPTY = Lit("")


def children(node: Node) -> tuple[Node, ...]:
    """The direct parts of a node."""
    if isinstance(node, Cat | Alt):
        return node.parts
    if isinstance(node, Rep | Group | Look):
        return (node.part,)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """Every node, parents before children."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(children(current)))


def chars_of(text: str, *, negated: bool = False) -> Chars:
    """A class that lists the characters of ``text``."""
    return Chars(tuple((ord(c), ord(c)) for c in sorted(set(text))), negated)


def span(first: str, last: str, *, negated: bool = False) -> Chars:
    """A class of one range, both ends included."""
    return Chars(((ord(first), ord(last)),), negated)
