"""The edge lists: expressions that a generator would find late, each the smallest of its kind, and ladders of sizes.

A ladder raises one size step by step, so that a compiler is met just below and just above what it can do, wherever
that is. No size here is known to break anything.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

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
    chars_of,
    span,
)
from reference.grammar.dialect import DIALECT, ESCAPES, INVALID, ODD


class Edge(msgspec.Struct, frozen=True):
    """A tree with the strings to try on it; None: sampled."""

    node: Node
    probes: tuple[str, ...] | None = None
    twice: bool = False


A, B, AB = Lit("a"), Lit("b"), Lit("ab")
A_OR_B = Alt((A, B))


def _star(node: Node, *, lazy: bool = False) -> Rep:
    return Rep(node, 0, None, lazy)


def _plus(node: Node, *, lazy: bool = False) -> Rep:
    return Rep(node, 1, None, lazy)


def _copies(text: str, *counts: int) -> tuple[str, ...]:
    return tuple(text * n for n in counts if n >= 0)


PLAIN_EDGES = (
    Edge(EMPTY, ("", "a", " ", "\n"), twice=True),
    Edge(Group(EMPTY), ("", "a")),
    Edge(_star(Group(EMPTY)), ("", "a")),
    Edge(A, ("a", "", "b", "aa", "A", "ab"), twice=True),
    Edge(Lit("a.b*c"), ("a.b*c", "axb*c", "a.bbc")),
    Edge(Lit("\\d"), ("\\d", "1")),
    Edge(Lit("\t\n"), ("\t\n", "tn", "\n")),
    Edge(Lit("\x00\x1f"), ("\x00\x1f", "")),
    Edge(Lit('"/#- '), ('"/#- ', '"/#-')),
)
COUNT_EDGES = tuple(
    Edge(Rep(part, low, high), _copies(text, *counts), twice=low == 2)
    for part, text in ((A, "a"), (Group(AB), "ab"))
    for low, high, counts in (
        (2, 4, (1, 2, 3, 4, 5)),
        (3, 3, (2, 3, 4)),
        (2, None, (1, 2, 9)),
        (0, 3, (0, 3, 4)),
        (0, 0, (0, 1)),
        (1, 1, (0, 1, 2)),
    )
)
REPEAT_EDGES = (
    Edge(_star(A), ("", "a", "aaaa", "aab", "b")),
    Edge(_plus(AB), ("ab", "abab", "ababab", "aba", "")),
    Edge(_star(Group(AB)), ("", "ab", "abab", "a")),
    Edge(_plus(Lit("\u00e9")), ("\u00e9", "\u00e9\u00e9", "e", "")),
    Edge(_plus(Lit("\U0001f600")), ("\U0001f600", "\U0001f600\U0001f600", "")),
    Edge(Cat((_star(A), B)), ("b", "aab", "a", "aabb")),
    Edge(Rep(Group(Rep(A, 2, 2)), 3, 3), _copies("a", 2, 3, 5, 6, 7)),
    Edge(Rep(Group(Rep(A, 0, 1)), 3, 3), _copies("a", 0, 3, 4)),
    Edge(_star(Group(_star(A))), ("", "aa", "ab")),
)
LAZY_EDGES = (
    Edge(_plus(A, lazy=True), ("a", "aaa", "")),
    Edge(_star(A, lazy=True), ("", "a", "aaa", "b")),
    Edge(Rep(A, 0, 1, lazy=True), ("", "a", "aa")),
    Edge(Rep(A, 2, 4, lazy=True), _copies("a", 1, 2, 4, 5)),
    Edge(Cat((_star(A, lazy=True), B)), ("b", "aab", "a")),
)
ALTERNATION_EDGES = (
    Edge(A_OR_B, ("a", "b", "ab", "", "c"), twice=True),
    Edge(Alt((A, AB)), ("a", "ab", "b", "abb")),
    Edge(Alt((EMPTY, A)), ("", "a", "aa")),
    Edge(Alt((A, EMPTY)), ("", "a", "aa")),
    Edge(Alt((A, EMPTY, B)), ("a", "", "b", "ab")),
    Edge(Cat((Alt((A, AB)), Alt((Lit("c"), Lit("bcd"))))), ("ac", "abc", "abcd", "abbcd", "ab")),
    Edge(Alt(tuple(Lit(f"k{n}") for n in range(12))), ("k0", "k1", "k11", "k12", "k")),
    Edge(_plus(Group(Alt((A, AB)))), ("a", "ab", "aab", "aba", "b")),
)
CLASS_EDGES = (
    Edge(span("a", "c"), ("a", "b", "c", "d", "A", "B", "")),
    Edge(span("a", "c", negated=True), ("a", "c", "d", "B", "\n", "\u00e9", "\U0001f600", "")),
    Edge(chars_of("]^-\\"), ("]", "^", "-", "\\", "a")),
    Edge(chars_of("^a"), ("^", "a", "b")),
    Edge(chars_of("ab-"), ("a", "-", "b", ",")),
    Edge(chars_of("&|~["), ("&", "|", "~", "[", "a")),
    Edge(Chars(((0x61, 0x63), (0x30, 0x39), (0x5F, 0x5F))), ("b", "5", "_", "-", "D")),
    Edge(_plus(span("a", "z", negated=True)), ("A1", "\n\n", "Aa", "")),
)
UNICODE_EDGES = (
    Edge(Lit("\u00e9\u65e5\U0001f600"), ("\u00e9\u65e5\U0001f600", "\u00e9\u65e5", "e\u65e5\U0001f600")),
    Edge(span("\u00e9", "\u00fc"), ("\u00e9", "\u00eb", "\u00fc", "\u00fd", "e")),
    Edge(span("\u4e00", "\u9fff"), ("\u65e5", "\u4e00", "\u9fff", "\u4dff", "a")),
    Edge(span("\u00e9", "\u00e9", negated=True), ("e", "\u00e9", "\u00ea", "\U0001f600")),
    Edge(Chars(((0x10000, 0x10FFFF),)), ("\U0001f600", "\U0010ffff", "\uffff", "a")),
    Edge(Rep(Lit("\U0001f600"), 2, 3), _copies("\U0001f600", 1, 2, 3, 4)),
)
ANCHOR_EDGES = (
    Edge(Cat((Anchor("^"), A, Anchor("$"))), ("a", "^a$", "aa", "")),
    Edge(Cat((Anchor("^"), AB)), ("ab", "xab")),
    Edge(Cat((AB, Anchor("$"))), ("ab", "abx")),
    Edge(Cat((A, Anchor("^"), B)), ("ab", "a^b", "b")),
    Edge(Cat((A, Anchor("$"), B)), ("ab", "a$b", "a")),
    Edge(Cat((Alt((Anchor("^"), B)), A)), ("a", "ba", "b")),
)
LOOK_EDGES = (
    Edge(Cat((Look(B), A)), ("a", "ba", "b")),
    Edge(Cat((Look(A), span("a", "b"))), ("a", "b", "aa")),
    Edge(Cat((Look(A, negated=True), span("a", "b"))), ("a", "b", "ab")),
    Edge(Cat((A, Look(A, negated=True), Dot())), ("ab", "aa", "a")),
    Edge(Cat((A, Look(A, behind=True), B)), ("ab", "bb", "aab")),
    Edge(Cat((A, Look(A, behind=True, negated=True), B)), ("ab", "b", "aab")),
    Edge(Cat((_star(Look(A)), A)), ("a", "aa", "")),
)
REF_EDGES = (
    Edge(Cat((Group(A), Ref(1))), ("aa", "a", "a1", "a\x01")),
    Edge(Cat((Group(A_OR_B), Ref(1))), ("aa", "bb", "ab", "a1")),
)
OPEN_EDGES = (
    Edge(Dot(), ("a", "", "ab", "\u65e5", "\U0001f600", "\n", "\r", "\u2028"), twice=True),
    Edge(Cat((A, Dot(), B)), ("axb", "a\nb", "ab", "a\u00e9b")),
    *(
        Edge(Short(letter), ("1", "a", "_", "-", " ", "\t", "\n", "\u00e9", "\u0663", "\u00a0", "\u2028", ""))
        for letter in ("d", "D", "w", "W", "s", "S")
    ),
    Edge(Cat((Short("w"), Short("d"))), ("a1", "aa", "_0", "1")),
)


def _nested_stars(depth: int) -> Node:
    node: Node = A
    for _ in range(depth):
        node = _star(Group(Cat((B, node))))
    return node


def _ladders() -> Iterator[Edge]:
    """Sizes step by step. Several families, so that a limit against one shape only is met by the others."""
    # The large ones get no strings: compiling them is the question, and minimising has less to take away.
    for depth in (50, 120, 1000, 3000, 30_000):
        yield Edge(Group(A, depth), ("a", "", "aa") if depth < 1000 else ())
    for depth in (8, 40, 110):
        yield Edge(_nested_stars(depth), ("", "b", "ba", "bba", "a"))
    for n in (3, 8, 12, 16, 20):  # the n-th letter from the end: 2**n states when made deterministic
        strings = ("a" * (n + 1), "b" + "a" * n, "a" * n, "ba" + "b" * n)
        yield Edge(Cat((_star(A_OR_B), A, Rep(A_OR_B, n, n))), strings if n <= 8 else ())
    for n in (40, 1 << 8, 1 << 11, 1 << 14, 1 << 17):
        yield Edge(Rep(A, n, n), _copies("a", n - 1, n, n + 1) if n <= 1 << 8 else ())
    for n in (5, 20, 60):
        inner = Rep(Rep(span("a", "z"), 1, n), 1, n)
        yield Edge(Rep(inner, 1, n), ("a", "abc", "", "1") if n == 5 else ())
    for n in (20, 200):
        yield Edge(Rep(Short("w"), n, n), _copies("a", n - 1, n, n + 1) if n == 20 else ())
    for n in (50, 400):
        words = Alt(tuple(Lit(f"{k:03d}") for k in range(n)))
        yield Edge(Rep(words, 3, 3), ("000001002", "000", "00000100", "049049049") if n == 50 else ())
    yield Edge(Cat((Rep(Group(Rep(A, 0, 1)), 30, 30), Rep(A, 30, 30))), _copies("a", 29, 30, 60, 61))
    for n in (12, 22, 34):  # loops in loops: backtracking doubles with each letter of a near miss
        yield Edge(Cat((_plus(Group(_plus(A))), B)), ("a" * n + "b", "a" * n, "b"))
    yield Edge(Cat((_star(Group(Alt((A, Lit("aa"))))), B)), ("a" * 34, "aab", "b"))
    for n in (3, 6):
        dots = tuple(part for k in range(n) for part in (_star(Dot()), Lit(chr(ord("a") + k))))
        yield Edge(Cat(dots), ("abcdef"[:n], "a", "xaxbxcxdxexf"[: 2 * n]))


def odd(names: tuple[str, ...]) -> Iterator[Edge]:
    """The expressions outside the tree."""
    for name in names:
        yield Edge(Raw(name), ODD[name].probes or ("", "a"))


def all_edges() -> list[Edge]:
    """Every edge, the families dealt out like cards, so that a short run meets each of them."""
    ladders = list(_ladders())
    families: list[list[Edge]] = [
        list(PLAIN_EDGES),
        list(ALTERNATION_EDGES),
        list(odd(tuple(INVALID))),
        list(CLASS_EDGES),
        list(COUNT_EDGES),
        list(ANCHOR_EDGES),
        list(UNICODE_EDGES),
        list(LAZY_EDGES),
        list(LOOK_EDGES),
        list(REF_EDGES),
        list(REPEAT_EDGES),
        list(odd(tuple(ESCAPES))),
        list(OPEN_EDGES),
        list(odd(tuple(DIALECT)[::2])),
        list(odd(tuple(DIALECT)[1::2])),
        *(ladders[n::4] for n in range(4)),
    ]
    longest = max(len(family) for family in families)
    return [family[n] for n in range(longest) for family in families if n < len(family)]
