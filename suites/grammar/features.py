"""Tags that describe a case: what can be the cause of a difference. And the plainest case, which has none."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from harness.records import Json, canonical
from reference.grammar.ast import (
    EMPTY,
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
    children,
)
from reference.grammar.dialect import ODD
from reference.grammar.program import ProgramError, from_program

LARGE_COUNT = 256
"""A count from here on is ``count:large``: the class of size, since the number itself is accidental."""

DEEP = 100
WIDE = 10_000
META = frozenset("\\^-[]")
MANY = 32

PLAIN: dict[str, Json] = {"program": [["lit", "a"]], "probes": ["a"], "twice": False}


def parsed(input_: dict[str, Any]) -> Node | None:
    """The tree of a case's input; None where it is no program (minimising asks about such inputs)."""
    try:
        return _parsed(canonical(input_["program"]))
    except (ProgramError, KeyError, TypeError, RecursionError):
        return None


@lru_cache(maxsize=256)
def _parsed(text: bytes) -> Node:
    import json

    return from_program(json.loads(text))


def features_of(input_: dict[str, Any]) -> frozenset[str]:
    """The tags of an input."""
    node = parsed(input_)
    if node is None:
        return frozenset({"malformed"})
    return tree_features(node)


@lru_cache(maxsize=256)
def tree_features(node: Node) -> frozenset[str]:
    """The tags of a tree."""
    return frozenset(tag for current, nested, inside in _placed(node) for tag in _tags(current, nested, inside))


def _placed(node: Node) -> Iterator[tuple[Node, int, bool]]:
    """Every node with the number of repetitions around it, and whether something stands before and after it."""
    stack: list[tuple[Node, int, bool, bool]] = [(node, 0, False, False)]
    while stack:
        current, nested, before, after = stack.pop()
        misplaced = isinstance(current, Anchor) and (before if current.kind == "^" else after)
        yield current, nested, misplaced
        deeper = nested + isinstance(current, Rep)
        if isinstance(current, Cat):
            count = len(current.parts)
            stack += [
                (
                    part,
                    deeper,
                    before or (n > 0 and _any(current.parts[:n])),
                    after or _any(current.parts[n + 1 : count]),
                )
                for n, part in enumerate(current.parts)
            ]
        else:
            around = isinstance(current, Rep)
            stack += [(part, deeper, before or around, after or around) for part in children(current)]


def _any(parts: tuple[Node, ...]) -> bool:
    return any(part != EMPTY and not isinstance(part, Anchor) for part in parts)


def _tags(node: Node, nested: int, misplaced: bool) -> Iterator[str]:  # noqa: FBT001 - private
    match node:
        case Lit(text):
            if not text.isascii():
                yield "non-ascii"
            if not text:
                yield "empty"
        case Chars(ranges, negated):
            yield "class:negated" if negated else "class"
            if any(high > 0x7F for _, high in ranges):
                yield "non-ascii"
            if any(chr(code) in META for pair in ranges for code in pair):
                yield "class:metacharacter"
            if sum(high - low + 1 for low, high in ranges) >= WIDE:
                yield "class:wide"
        case Dot():
            yield "dot"
        case Short(letter):
            yield "shorthand:space" if letter in "sS" else "shorthand:word"  # \\d and \\w reach equally far
        case Alt(parts):
            yield "alternation"
            if len(parts) >= MANY:
                yield "alternation:many"
        case Rep():
            yield from _repetition(node, nested)
        case Group(_, depth, _):
            if depth >= DEEP:  # parentheses by themselves are accidental
                yield "depth:large"
        case Anchor():
            yield "anchor:inside" if misplaced else "anchor"
        case Look(_, behind, negated):
            yield f"look{'behind' if behind else 'ahead'}{':negated' if negated else ''}"
        case Ref():
            yield "back-reference"
        case Raw(name):
            yield f"odd:{ODD[name].cause or name}"


def _repetition(node: Rep, nested: int) -> Iterator[str]:
    yield "repeat"
    if (node.low, node.high) == (0, 1):
        yield "repeat:optional"
    elif node.high is not None or node.low > 1:
        yield "repeat:counted"
    if node.lazy:
        yield "repeat:lazy"
    if nested >= DEEP:
        yield "depth:large"
    elif nested:
        yield "repeat:nested"
    if max(node.low, node.high or 0) >= LARGE_COUNT:
        yield "count:large"
    inner = node.part
    while isinstance(inner, Group):
        inner = inner.part
    if isinstance(inner, Cat) or (isinstance(inner, Lit) and len(inner.text) > 1):
        yield "repeat:sequence"
