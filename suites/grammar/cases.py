"""Cases: the edges, then what Hypothesis generates, each a program with strings to try.

The strings are sampled from the language and from just outside it by integer streams keyed by the program, so that a
smaller program found by minimising gets strings of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from harness.records import Case, Json, canonical
from reference.grammar.ast import Alt, Anchor, Cat, Chars, Dot, Group, Lit, Look, Node, Rep, Short, chars_of, span, walk
from reference.grammar.oracle import Membership, membership
from reference.grammar.program import to_program
from reference.grammar.sample import Stream, edges, members, outsiders
from suites.grammar.edges import Edge, all_edges
from suites.grammar.features import parsed
from suites.grammar.targets import OP

MEMBERS = 5
OUTSIDERS = 5
SUITE = "grammar"

SMALL_NUMBER = 256
BORDERS = frozenset({0x7FF, 0xD7FF, 0xE000, 0xFFFF, 0x10FFFF})

MILD_TO_ABUSIVE = 12
"""Of so many generated cases one is abusive: a stopped case costs the whole limit."""


def input_of(node: Node, probes: Sequence[str], *, twice: bool = False) -> dict[str, Json]:
    """The input of a case."""
    return {"program": to_program(node), "probes": list(probes), "twice": twice}


def probes_for(node: Node) -> tuple[str, ...]:
    """Strings from the language, around each single count, and from just outside, in this order, none twice."""
    stream = Stream(canonical(to_program(node)).decode("ascii"))
    inside = members(node, stream, MEMBERS)
    counted = [
        text
        for text in _count_edges(node)
        if len(text) <= 80 and membership(node, text) in (Membership.IN, Membership.OUT)
    ]
    outside = outsiders(node, inside, stream, OUTSIDERS)
    return tuple(dict.fromkeys([*inside, *counted, *outside, ""]))


def _count_edges(node: Node) -> list[str]:
    """For a repetition of one literal with nothing around it: the counts around its bounds."""
    if isinstance(node, Rep) and isinstance(node.part, Lit):
        return [node.part.text * n for n in edges(node.low, node.high)]
    return []


def case_of(edge: Edge) -> Case:
    """Make a case of an edge."""
    probes = probes_for(edge.node) if edge.probes is None else edge.probes
    return Case.make(SUITE, OP, input_of(edge.node, probes, twice=edge.twice))


_LETTERS = st.sampled_from("abcxyz019_- .")
_UNICODE = st.sampled_from("\u00e9\u00df\u0416\u65e5\U0001f600")
_LITERALS = st.one_of(
    st.text(_LETTERS, min_size=1, max_size=3), st.text(st.one_of(_LETTERS, _UNICODE), min_size=1, max_size=2)
).map(Lit)
_CLASSES = st.one_of(
    st.sampled_from([("a", "c"), ("a", "z"), ("0", "9"), ("A", "F"), ("\u00e0", "\u00ff")]).flatmap(
        lambda ends: st.booleans().map(lambda negated: span(*ends, negated=negated))
    ),
    st.text(st.sampled_from("abc]^-\\.09 "), min_size=1, max_size=4).map(chars_of),
    st.text(st.sampled_from("abcxyz"), min_size=1, max_size=3).map(lambda text: chars_of(text, negated=True)),
)
_LEAVES = st.one_of(_LITERALS, _LITERALS, _CLASSES, st.just(Dot()), st.sampled_from("dws").map(lambda c: Short(c)))  # type: ignore[arg-type]


def _counts(low: int, high: int) -> st.SearchStrategy[tuple[int, int | None]]:
    """Bounds of a repetition, the common short forms among them."""
    return st.one_of(
        st.sampled_from([(0, None), (1, None), (0, 1)]),
        st.tuples(st.integers(low, high), st.integers(0, 3)).map(lambda pair: (pair[0], pair[0] + pair[1])),
        st.integers(low, high).map(lambda n: (n, None)),
    )


def _grow(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        parts.map(Cat),
        parts.map(Alt),
        st.builds(lambda part, bounds: Rep(part, bounds[0], bounds[1]), inner, _counts(0, 4)),
        st.builds(Group, inner, st.just(1), st.booleans()),
    )


ORDINARY: st.SearchStrategy[Node] = st.recursive(_LEAVES, _grow, max_leaves=5)
"""Harmless expressions: what a schema's ``pattern`` holds."""

SPECIAL: st.SearchStrategy[Node] = st.one_of(
    st.builds(lambda part, bounds: Rep(part, bounds[0], bounds[1], lazy=True), ORDINARY, _counts(0, 3)),
    st.builds(lambda node: Cat((Anchor("^"), node, Anchor("$"))), ORDINARY),
    st.builds(
        lambda ahead, negated, node: Cat((Look(ahead, negated=negated), node)), _CLASSES, st.booleans(), ORDINARY
    ),
    st.builds(lambda part, count: Rep(part, count, count), _CLASSES, st.integers(5, 60)),
    st.builds(
        lambda words: Alt(tuple(Lit(w) for w in words)),
        st.lists(st.text(_LETTERS, min_size=1, max_size=5), min_size=4, max_size=20, unique=True),
    ),
)
"""Still harmless, with one construct that compilers treat differently."""


@st.composite
def _abusive(draw: st.DrawFn) -> Node:
    """Growth by counting, by nesting, by choices, by making deterministic, by depth: sizes drawn, none singled out."""
    unit = draw(st.one_of(_CLASSES, st.sampled_from("ab").map(Lit), st.just(Dot()), st.just(Short("w"))))
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return Rep(unit, draw(st.sampled_from([1 << 10, 1 << 14, 1 << 17, 1 << 20])), None)
    if kind == 1:
        node: Node = unit
        for _ in range(draw(st.integers(2, 4))):
            node = Rep(Group(node), 1, draw(st.integers(2, 40)))
        return node
    if kind == 2:
        pair = Alt((Lit("a"), draw(_LITERALS)))
        n = draw(st.integers(2, 24))
        return Cat((Rep(Group(pair), 0, None), Lit("a"), Rep(Group(pair), n, n)))
    if kind == 3:
        words = tuple(Lit(f"{k:03d}") for k in range(draw(st.integers(20, 300))))
        return Rep(Group(Alt(words)), 1, draw(st.integers(2, 5)))
    return Group(unit, draw(st.integers(100, 50_000)))


ABUSIVE: st.SearchStrategy[Node] = _abusive()


def _edge_of(node: Node, *, twice: bool) -> Edge:
    return Edge(node, None, twice)


GENERATED: st.SearchStrategy[Edge] = st.integers(0, MILD_TO_ABUSIVE - 1).flatmap(
    lambda kind: st.builds(
        lambda node, twice: _edge_of(node, twice=twice and kind > 0),
        ABUSIVE if kind == 0 else SPECIAL if kind <= 4 else ORDINARY,
        st.booleans(),
    )
)


def collect(strategy: st.SearchStrategy[Edge], count: int, key: int) -> list[Edge]:
    """``count`` examples of a strategy, repeats included; the same for one version of Hypothesis and one key."""
    found: list[Edge] = []

    @seed(key)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def visit(edge: Edge) -> None:
        found.append(edge)

    visit()
    return found[:count]


def cases(count: int, key: int) -> Iterator[Case]:
    """Exactly ``count`` different cases: two edges and a generated one in turn, as long as there are edges."""
    seen: set[str] = set()
    for case in _mixed(all_edges(), _generated(key)):
        if len(seen) >= count:
            return
        if case.id not in seen:
            seen.add(case.id)
            yield case


def _mixed(first: Sequence[Edge], generated: Iterator[Edge]) -> Iterator[Case]:
    for number, edge in enumerate(first, 1):
        yield case_of(edge)
        if number % 2 == 0:
            yield case_of(next(generated))
    yield from (case_of(edge) for edge in generated)


def _generated(key: int) -> Iterator[Edge]:
    for batch in range(10_000):
        yield from collect(GENERATED, 100, key * 10_000 + batch)


def _round(node: Node) -> bool:
    """Large numbers have at most two binary ones, or are a border of Unicode.

    Minimising would else close in on a limit digit by digit, and each step there costs the whole limit; where exactly
    a compiler gives up is accidental anyway.
    """
    large: list[int] = []
    for current in walk(node):
        if isinstance(current, Rep):
            large += [current.low, (current.high or current.low) - current.low]
        elif isinstance(current, Chars):
            large += [code for pair in current.ranges for code in pair if code not in BORDERS]
    return all(number < SMALL_NUMBER or number.bit_count() <= 2 for number in large)


def rebuild(input_: dict[str, Json]) -> Case | None:
    """The case of an input that minimising proposes; None where it is none.

    Strings stay as proposed. A program without any string to try is kept: compiling alone may show the difference.
    """
    node = parsed(input_)
    probes: Any = input_.get("probes")
    if node is None or not isinstance(probes, list) or not all(isinstance(text, str) for text in probes):
        return None
    if len(set(probes)) != len(probes) or set(input_) != {"program", "probes", "twice"}:
        return None
    if type(input_["twice"]) is not bool or not _round(node):
        return None
    return Case.make(SUITE, OP, {"program": input_["program"], "probes": list(probes), "twice": input_["twice"]})
