"""The JSON form of a tree: a postfix program, a flat list of instructions.

Why postfix and flat: minimising removes list elements and lowers integers without knowing what they mean. Here every
sublist is again an expression (a missing operand is the empty expression, what is left over is concatenated), and
leaving out one operator puts its operand in its place. A nested form would need a shrinker of its own.

=================================  ===================================================
instruction                        effect
=================================  ===================================================
``["lit", text]``                  push literal text
``["set", negated, [lo, hi, ..]]`` push a class; code points in pairs
``["dot"]``, ``["short", letter]`` push ``.``, a shorthand class
``["anchor", kind]``               push ``^`` or ``$``
``["ref", number]``                push a back-reference
``["raw", name]``                  push text outside the tree, by name
``["cat", k]``, ``["alt", k]``     pop up to k operands, push their sequence, choice
``["rep", low, more, lazy]``       pop one, push ``low`` to ``low + more`` copies (more null: unbounded)
``["group", depth, capture]``      pop one, push it in parentheses
``["look", behind, negated]``      pop one, push a lookaround
=================================  ===================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reference.grammar import dialect
from reference.grammar.ast import (
    EMPTY,
    MAX_CODE,
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
)

Instruction = list[Any]


class ProgramError(ValueError):
    """The list is not a program; the message names the instruction."""


def to_program(node: Node) -> list[Instruction]:
    """Write a tree as a program."""
    match node:
        case Lit(text):
            return [["lit", text]]
        case Chars(ranges, negated):
            return [["set", negated, [code for pair in ranges for code in pair]]]
        case Dot():
            return [["dot"]]
        case Short(letter):
            return [["short", letter]]
        case Anchor(kind):
            return [["anchor", kind]]
        case Ref(number):
            return [["ref", number]]
        case Raw(name):
            return [["raw", name]]
        case Cat(parts):
            return [step for part in parts for step in to_program(part)] + [["cat", len(parts)]]
        case Alt(parts):
            return [step for part in parts for step in to_program(part)] + [["alt", len(parts)]]
        case Rep(part, low, high, lazy):
            return [*to_program(part), ["rep", low, None if high is None else high - low, lazy]]
        case Group(part, depth, capture):
            return [*to_program(part), ["group", depth, capture]]
        case Look(part, behind, negated):
            return [*to_program(part), ["look", behind, negated]]


def from_program(program: Sequence[Sequence[Any]]) -> Node:
    """Read a program back. Forgiving about operands (see above), strict about everything else.

    :raises ProgramError: an unknown instruction, or arguments that make no expression (a reversed range)
    """
    stack: list[Node] = []
    for step in program:
        try:
            _BUILD[step[0]](stack, *step[1:])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ProgramError(f"not an instruction of a regular expression: {step!r}") from error
    return _join(stack)


def _join(parts: Sequence[Node]) -> Node:
    if not parts:
        return EMPTY
    return parts[0] if len(parts) == 1 else Cat(tuple(parts))


def _pop(stack: list[Node], count: int) -> tuple[Node, ...]:
    if type(count) is not int or count < 0:
        raise ValueError(count)
    taken = stack[len(stack) - min(count, len(stack)) :]
    del stack[len(stack) - len(taken) :]
    return tuple(taken)


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value


def _yes(value: object) -> bool:
    if type(value) is not bool:
        raise ValueError(value)
    return value


def _string(value: object) -> str:
    if type(value) is not str:
        raise ValueError(value)
    return value


def _lit(stack: list[Node], text: Any) -> None:
    stack.append(Lit(_string(text)))


def _set(stack: list[Node], negated: Any, codes: Sequence[Any]) -> None:
    pairs = [(_whole(codes[i]), _whole(codes[i + 1])) for i in range(0, len(codes) - 1, 2)]
    if not pairs or any(low > high or high > MAX_CODE for low, high in pairs):
        raise ValueError(codes)
    if any(low <= 0xDFFF and high >= 0xD800 for low, high in pairs):
        raise ValueError(codes)  # no text in UTF-8 holds a surrogate
    stack.append(Chars(tuple(pairs), _yes(negated)))


def _short(stack: list[Node], letter: Any) -> None:
    if letter not in ("d", "D", "w", "W", "s", "S"):
        raise ValueError(letter)
    stack.append(Short(letter))


def _anchor(stack: list[Node], kind: Any) -> None:
    if kind not in ("^", "$"):
        raise ValueError(kind)
    stack.append(Anchor(kind))


def _raw(stack: list[Node], name: Any) -> None:
    if name not in dialect.TEXTS:
        raise ValueError(name)
    stack.append(Raw(name))


def _cat(stack: list[Node], count: int) -> None:
    stack.append(_join(_pop(stack, count)))


def _alt(stack: list[Node], count: int) -> None:
    parts = _pop(stack, count)
    stack.append(Alt(parts) if len(parts) > 1 else _join(parts))


def _rep(stack: list[Node], low: Any, more: Any, lazy: Any) -> None:
    high = None if more is None else _whole(low) + _whole(more)
    stack.append(Rep(_join(_pop(stack, 1)), _whole(low), high, _yes(lazy)))


def _group(stack: list[Node], depth: Any, capture: Any) -> None:
    inner = _join(_pop(stack, 1))
    stack.append(Group(inner, depth, _yes(capture)) if _whole(depth) else inner)


def _look(stack: list[Node], behind: Any, negated: Any) -> None:
    stack.append(Look(_join(_pop(stack, 1)), _yes(behind), _yes(negated)))


_BUILD: dict[str, Callable[..., None]] = {
    "lit": _lit,
    "set": _set,
    "dot": lambda stack: stack.append(Dot()),
    "short": _short,
    "anchor": _anchor,
    "ref": lambda stack, number: stack.append(Ref(_whole(number))),
    "raw": _raw,
    "cat": _cat,
    "alt": _alt,
    "rep": _rep,
    "group": _group,
    "look": _look,
}
