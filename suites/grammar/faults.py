"""Planted faults: compilers that are wrong in one way each. And honest variants: different, and right.

Most are a change to the tree or to the string before the positional matcher decides, so each is exactly one mistake.
Those that hang, eat memory or die are real processes under real limits.
"""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.sandbox import Limits
from harness.suite import Fault
from harness.targets.base import InProcess, Target
from harness.targets.stdio import WorkerTarget, python_worker
from reference.grammar.ast import (
    EMPTY,
    Alt,
    Anchor,
    Cat,
    Chars,
    Group,
    Lit,
    Look,
    Node,
    Raw,
    Ref,
    Rep,
    walk,
)
from reference.grammar.dialect import ESCAPES, INVALID
from reference.grammar.match import PYTHON, Reading, matches
from reference.grammar.program import from_program
from reference.grammar.text import to_text
from suites.grammar import nfa, targets
from suites.grammar.features import tree_features

Decide = Callable[[Node, Sequence[str]], dict[str, Any]]
Rewrite = Callable[[Node], Node]


def _compiled(accepts: Sequence[bool | None]) -> dict[str, Any]:
    return {"decision": "compiled", "reason": "", "accepts": list(accepts)}


def _refused(reason: str) -> dict[str, Any]:
    return {"decision": "refused", "reason": reason, "accepts": []}


def _odd(name: str, probes: Sequence[str], flags: int = 0) -> dict[str, Any]:
    """Expressions outside the tree go to ``re``: they are tiny, so it cannot hang."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compiled = re.compile(to_text(Raw(name)), flags)
        except re.error as error:
            return _refused(str(error))
    return _compiled([compiled.fullmatch(text) is not None for text in probes])


def positions(node: Node, probes: Sequence[str], reading: Reading = PYTHON) -> dict[str, Any]:
    """The honest compiler that the planted ones are made of."""
    odd = next((n.name for n in walk(node) if isinstance(n, Raw)), None)
    if odd is not None:
        return _odd(odd, probes)
    if any(isinstance(n, Ref) for n in walk(node)):
        return _refused("back-references are unknown here")
    return _compiled([matches(node, text, reading) for text in probes])


def _target(name: str, decide: Decide, *, again: Decide | None = None, after: Decide | None = None) -> Target:
    """A target in this process; ``again`` and ``after`` stand in where the second or the ordinary one goes wrong."""

    def operation(input_: dict[str, Any], _arrays: Any) -> dict[str, Any]:
        node, probes = from_program(input_["program"]), input_["probes"]
        result = decide(node, probes)
        result["again"] = (again or decide)(node, probes) if input_["twice"] else None
        result["after"] = nfa.attempt(targets.AFTER_PATTERN, targets.AFTER_PROBES)
        if after is not None:
            result["after"] = after(node, probes) or result["after"]
        return result

    return targets.Compiler(InProcess(name, {targets.OP: operation}), send=lambda input_: input_)


def rewritten(node: Node, change: Rewrite) -> Node:
    """Apply a change to every node, the parts first."""
    match node:
        case Cat(parts):
            node = Cat(tuple(rewritten(p, change) for p in parts))
        case Alt(parts):
            node = Alt(tuple(rewritten(p, change) for p in parts))
        case Rep() | Group() | Look():
            node = msgspec.structs.replace(node, part=rewritten(node.part, change))
    return change(node)


def _misread(change: Rewrite) -> Decide:
    """A compiler that takes an expression for another one."""
    return lambda node, probes: positions(rewritten(node, change), probes)


# --- one wrong reading of the tree each


def _no_upper_bound(node: Node) -> Node:
    return msgspec.structs.replace(node, high=None) if isinstance(node, Rep) and (node.high or 0) > 1 else node


def _one_less(node: Node) -> Node:
    if isinstance(node, Rep) and node.high is not None and node.high > node.low:
        return msgspec.structs.replace(node, high=node.high - 1)
    return node


def _no_anchors(node: Node) -> Node:
    return EMPTY if isinstance(node, Anchor) else node


def _no_lookaround(node: Node) -> Node:
    return EMPTY if isinstance(node, Look) else node


def _digit_for_reference(node: Node) -> Node:
    return Lit(str(node.number)) if isinstance(node, Ref) else node


def _no_last_branch(node: Node) -> Node:
    return Alt(node.parts[:-1]) if isinstance(node, Alt) else node


def _first_prefix_wins(node: Node) -> Node:
    """Branches that an earlier literal branch is a prefix of are never tried."""
    if not isinstance(node, Alt):
        return node
    kept: list[Node] = []
    for part in node.parts:
        text = part.text if isinstance(part, Lit) else None
        if text is None or not any(isinstance(k, Lit) and text.startswith(k.text) for k in kept):
            kept.append(part)
    return Alt(tuple(kept))


def _any_case(node: Node) -> Node:
    if not isinstance(node, Chars):
        return node
    both = [(ord(chr(low).lower()), ord(chr(high).lower())) for low, high in node.ranges]
    both += [(ord(chr(low).upper()), ord(chr(high).upper())) for low, high in node.ranges if high < 0x80]
    return Chars(tuple(pair for pair in (*both, *node.ranges) if pair[0] <= pair[1]), node.negated)


def _no_line_ends(node: Node) -> Node:
    return Chars((*node.ranges, (10, 10)), negated=True) if isinstance(node, Chars) and node.negated else node


def _fewest(node: Node) -> Node:
    return msgspec.structs.replace(node, high=node.low) if isinstance(node, Rep) and node.lazy else node


def _last_letter_only(node: Node) -> Node:
    """A repetition after a sequence repeats its last letter."""
    if not isinstance(node, Rep):
        return node
    inner = node.part
    while isinstance(inner, Group):
        inner = inner.part
    if isinstance(inner, Lit) and len(inner.text) > 1:
        return Cat((Lit(inner.text[:-1]), msgspec.structs.replace(node, part=Lit(inner.text[-1]))))
    return node


def _once_only(node: Node) -> Node:
    """A repeated sequence is accepted once and never again."""
    changed = _last_letter_only(node)
    return node if changed is node or not isinstance(node, Rep) else Rep(node.part, min(node.low, 1), 1)


# --- wrong about strings


def _bytes_for_characters(node: Node, probes: Sequence[str]) -> dict[str, Any]:
    def wide(text: str) -> str:
        return text.encode("utf-8").decode("latin-1")

    def spread(part: Node) -> Node:
        if isinstance(part, Lit):
            return Lit(wide(part.text))
        if isinstance(part, Chars):
            return Chars(tuple((min(low, 0xFF), min(high, 0xFF)) for low, high in part.ranges), part.negated)
        if isinstance(part, Rep) and isinstance(part.part, Lit) and not part.part.text.isascii():
            return Cat((Lit(part.part.text[:-1]), msgspec.structs.replace(part, part=Lit(part.part.text[-1]))))
        return part

    return positions(rewritten(node, spread), [wide(text) for text in probes])


def _prefixes(node: Node, probes: Sequence[str]) -> dict[str, Any]:
    """A string is accepted when another string of the same case that is a member goes on from it."""
    result = positions(node, probes)
    inside = [text for text, said in zip(probes, result["accepts"], strict=False) if said]
    result["accepts"] = [
        said or any(text and member.startswith(text) for member in inside)
        for text, said in zip(probes, result["accepts"], strict=False)
    ]
    return result


def _tails(node: Node, probes: Sequence[str]) -> dict[str, Any]:
    """A search that starts at the start and does not look at the end."""
    result = positions(node, probes)
    if result["decision"] == "compiled" and not tree_features(node) & {"anchor", "anchor:inside"}:
        result["accepts"] = [
            said or any(positions(node, [text[:n]])["accepts"] == [True] for n in range(min(len(text), 40)))
            for text, said in zip(probes, result["accepts"], strict=True)
        ]
    return result


def _nothing_is_empty(node: Node, probes: Sequence[str]) -> dict[str, Any]:
    """The empty expression is taken for one that allows anything."""
    result = positions(node, probes)
    return _compiled([True] * len(probes)) if node == EMPTY else result


# --- wrong about refusing


def _refuse_all(_node: Node, _probes: Sequence[str]) -> dict[str, Any]:
    return _refused("not today")


def _take_invalid(node: Node, probes: Sequence[str]) -> dict[str, Any]:
    if isinstance(node, Raw) and node.name in INVALID:
        return _compiled([False] * len(probes))
    return positions(node, probes)


def _letter_itself(node: Node, probes: Sequence[str]) -> dict[str, Any]:
    if isinstance(node, Raw) and node.name in ESCAPES:
        return positions(Lit(to_text(node).replace("\\", "")), probes)
    return positions(node, probes)


def _no_flags(node: Node, probes: Sequence[str]) -> dict[str, Any]:
    if isinstance(node, Raw) and node.name == "flag-ignore-case":
        return positions(Lit("ab"), probes)
    return positions(node, probes)


def _fail_inside(node: Node, probes: Sequence[str]) -> dict[str, Any]:
    if any(isinstance(n, Look) for n in walk(node)):
        raise AttributeError("'NoneType' object has no attribute 'next'")
    return positions(node, probes)


def _recurse(node: Node, probes: Sequence[str]) -> dict[str, Any]:
    if any(isinstance(n, Group) and n.depth > 300 for n in walk(node)):
        raise RecursionError("maximum recursion depth exceeded")
    return positions(node, probes)


def _error_as_answer(node: Node, probes: Sequence[str]) -> dict[str, Any]:
    if any(isinstance(n, Look) for n in walk(node)):
        return {"decision": "compiled", "reason": "KeyError: 3", "accepts": []}
    return positions(node, probes)


def _worse_again(node: Node, probes: Sequence[str]) -> dict[str, Any]:
    result = positions(node, probes)
    return _refused("out of slots") if result["decision"] == "compiled" else result


def _poisoned(node: Node, probes: Sequence[str]) -> dict[str, Any]:
    """The ordinary expression afterwards is refused where this one was refused."""
    return _refused("poisoned") if positions(node, probes)["decision"] == "refused" else {}


# --- honest, and different


def _reading(reading: Reading) -> Decide:
    return lambda node, probes: positions(node, probes, reading)


def _careful(node: Node, probes: Sequence[str]) -> dict[str, Any]:
    """Refuses cleanly whatever is not ordinary."""
    tags = tree_features(node)
    special = {t for t in tags if t.startswith(("look", "odd:", "anchor", "back", "depth:large", "count:large"))}
    return _refused(f"{sorted(special)} is not supported") if special else positions(node, probes)


def _short_breathed(node: Node, probes: Sequence[str]) -> dict[str, Any]:
    """Gives up, and says so, on strings of more than six characters."""
    result = positions(node, probes)
    result["accepts"] = [None if len(t) > 6 else said for t, said in zip(probes, result["accepts"], strict=False)]
    return result


_ECMA = Reading("\n\r\u2028\u2029", "ascii")
_PLANTED_LIMITS = Limits(wall_s=8.0, cpu_s=1.0, memory_bytes=256 << 20)


def _worker(name: str, planted: str = "") -> Target:
    """A planted compiler in a process of its own, under small limits."""
    logs = Path(tempfile.gettempdir()) / "afere-planted"
    command = python_worker(sys.executable, targets.OPS / "planted.py")
    return targets.Compiler(
        WorkerTarget(name, command, logs=logs, limits=_PLANTED_LIMITS, env={"AFERE_PLANTED": planted}, ready_s=60.0)
    )


def _fault(name: str, summary: str, breaks: tuple[str, ...], decide: Decide, **more: Any) -> Fault:
    return Fault(name, summary, lambda: _target(name, decide, **more), breaks)


def _dead(name: str, summary: str, breaks: tuple[str, ...]) -> Fault:
    return Fault(name, summary, lambda: _worker(name, name), breaks)


HONEST: tuple[Fault, ...] = (
    Fault("positions", "sets of positions; Python's reading", lambda: _target("positions", positions)),
    Fault("nfa", "the embedded automaton", lambda: targets.in_process("nfa", nfa.operation)),
    Fault("nfa-worker", "the same in a process of its own", lambda: _worker("nfa-worker")),
    Fault(
        "ecma",
        "reads . and the shorthand classes as ECMA-262 does",
        lambda: _target("ecma", _reading(_ECMA)),
        partner=lambda: _target("ecma-peer", _reading(_ECMA)),
    ),
    Fault("careful", "refuses cleanly whatever is not ordinary", lambda: _target("careful", _careful)),
    Fault("short-breathed", "gives up on longer strings", lambda: _target("short-breathed", _short_breathed)),
)

PLANTED: tuple[Fault, ...] = (
    _dead("never-ends", "loops on a large count", ("G-END-1",)),
    _dead("eats-memory", "allocates without end on a large count", ("G-MEM-1",)),
    _dead("dies-of-depth", "ends by a signal on deep parentheses", ("G-CRASH-1", "G-DEPTH-1")),
    _fault("recursion", "an internal error on deep parentheses", ("G-REFUSE-1", "G-DEPTH-1"), _recurse),
    _fault("internal-error", "an internal error on lookaround", ("G-REFUSE-1",), _fail_inside),
    _fault("error-as-answer", "an internal error that passes for an answer", ("G-REFUSE-1",), _error_as_answer),
    _fault("refuses-all", "refuses everything", ("G-PLAIN-1",), _refuse_all),
    _fault("no-upper-bound", "{m,n} as {m,}", ("G-COUNT-1", "G-MEMBER-2"), _misread(_no_upper_bound)),
    _fault("one-less", "{m,n} as {m,n-1}", ("G-COUNT-1", "G-MEMBER-1"), _misread(_one_less)),
    _fault("no-anchors", "ignores ^ and $", ("G-ANCHOR-1",), _misread(_no_anchors)),
    _fault("no-lookaround", "ignores lookaround", ("G-LOOK-1",), _misread(_no_lookaround)),
    _fault("digit-for-reference", "back-reference as a digit", ("G-BACKREF-1",), _misread(_digit_for_reference)),
    _fault("no-last-branch", "drops the last branch", ("G-ALT-1", "G-MEMBER-1"), _misread(_no_last_branch)),
    _fault("first-prefix-wins", "commits to the first branch that fits", ("G-ALT-1",), _misread(_first_prefix_wins)),
    _fault("any-case", "classes without regard to case", ("G-CLASS-1", "G-MEMBER-2"), _misread(_any_case)),
    _fault("no-line-ends", "negated classes leave out the line feed", ("G-CLASS-1",), _misread(_no_line_ends)),
    _fault("fewest", "a lazy quantifier takes the fewest copies only", ("G-LAZY-1", "G-MEMBER-1"), _misread(_fewest)),
    _fault("last-letter-only", "repeats the last letter of a group", ("G-GROUP-1",), _misread(_last_letter_only)),
    _fault("once-only", "a repeated group is taken once", ("G-GROUP-1",), _misread(_once_only)),
    _fault("bytes", "bytes taken for characters", ("G-UNICODE-1",), _bytes_for_characters),
    _fault("prefixes", "accepts what a member starts with", ("G-WHOLE-1", "G-MEMBER-2"), _prefixes),
    _fault("tails", "accepts a member with a tail", ("G-WHOLE-1", "G-MEMBER-2"), _tails),
    _fault("nothing-is-empty", "the empty expression allows anything", ("G-EMPTY-1",), _nothing_is_empty),
    _fault("takes-invalid", "compiles what no dialect allows", ("G-INVALID-1",), _take_invalid),
    _fault("letter-itself", "an unknown escape is the letter itself", ("G-ESCAPE-1",), _letter_itself),
    _fault("worse-again", "refuses what it compiled before", ("G-SAME-1",), positions, again=_worse_again),
    _fault("poisoned", "refuses the ordinary after a refusal", ("G-AFTER-1",), positions, after=_poisoned),
    _fault("dot-all", ". matches line ends too", ("G-DOT-1",), _reading(Reading("", "unicode"))),
    _fault("ascii-only", "shorthand classes within ASCII", ("G-SHORT-1",), _reading(Reading("\n", "ascii"))),
    _fault("no-flags", "ignores (?i)", ("G-DIALECT-1",), _no_flags),
)

FAULTS: tuple[Fault, ...] = HONEST + PLANTED
