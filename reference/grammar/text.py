r"""A tree as pattern text, in the dialect that RFC 9485, ECMA-262 and Python's ``re`` share.

Only metacharacters are escaped (an escaped ordinary letter is an error in some dialects); inside a class also ``[`` and
``-``, which open a set operation in others. Control characters are written ``\n``, ``\t``, ``\r`` or ``\xHH``. A
repetition of a repetition always gets parentheses, since ``a{2}{3}`` is an error in some dialects and possessive or
lazy in others.
"""

from __future__ import annotations

from reference.grammar import dialect
from reference.grammar.ast import Alt, Anchor, Cat, Chars, Dot, Group, Lit, Look, Node, Raw, Ref, Rep, Short

_META = frozenset("\\^$.|?*+()[]{}")
_META_IN_CLASS = frozenset("\\^-[]&~|#")  # the last four double into set operations in some dialects
_ESCAPABLE_IN_CLASS = frozenset("\\^-[]")
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def to_text(node: Node) -> str:
    """The pattern text of a tree."""
    match node:
        case Lit(text):
            return "".join(_literal(c) for c in text)
        case Chars(ranges, negated):
            return f"[{'^' if negated else ''}{''.join(_range(low, high) for low, high in ranges)}]"
        case Dot():
            return "."
        case Short(letter):
            return "\\" + letter
        case Anchor(kind):
            return kind
        case Ref(number):
            return f"\\{number}"
        case Raw(name):
            return dialect.TEXTS[name]
        case Cat(parts):
            return "".join(f"(?:{to_text(p)})" if isinstance(p, Alt) else to_text(p) for p in parts)
        case Alt(parts):
            return "|".join(f"(?:{to_text(p)})" if isinstance(p, Alt) else to_text(p) for p in parts)
        case Rep(part, low, high, lazy):
            return _atom(part) + _count(low, high) + ("?" if lazy else "")
        case Group(part, depth, capture):
            return ("(" if capture else "(?:") * depth + to_text(part) + ")" * depth
        case Look(part, behind, negated):
            return f"(?{'<' if behind else ''}{'!' if negated else '='}{to_text(part)})"


def _atom(node: Node) -> str:
    single = isinstance(node, Chars | Dot | Short | Group) or (isinstance(node, Lit) and len(node.text) == 1)
    return to_text(node) if single else f"(?:{to_text(node)})"


def _count(low: int, high: int | None) -> str:
    named = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high))
    if named is not None:
        return named
    if high is None:
        return f"{{{low},}}"
    return f"{{{low}}}" if low == high else f"{{{low},{high}}}"


def _literal(char: str) -> str:
    if char in _META:
        return "\\" + char
    return _control(char)


def _control(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    return f"\\x{ord(char):02x}" if ord(char) < 0x20 or ord(char) == 0x7F else char


def _range(low: int, high: int) -> str:
    return _in_class(chr(low)) if low == high else f"{_in_class(chr(low))}-{_in_class(chr(high))}"


def _in_class(char: str) -> str:
    if char in _ESCAPABLE_IN_CLASS:
        return "\\" + char
    if char in _META_IN_CLASS:
        return f"\\x{ord(char):02x}"
    return _control(char)
