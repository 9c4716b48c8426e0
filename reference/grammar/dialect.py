r"""Expressions outside the tree: invalid everywhere, escapes without a meaning, and what only some dialects allow.

Each has a name, which is what cases and reports hold; its text is looked up here, so minimising cannot turn it into
something else under the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec


class Odd(msgspec.Struct, frozen=True):
    """One expression outside the tree.

    ``probes`` are the strings to try. ``inside``/``outside`` are those that every dialect which allows the expression
    decides alike; the others are for the targets to agree on. Those with one ``cause`` are one finding.
    """

    text: str
    probes: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    cause: str = ""


INVALID: Mapping[str, Odd] = MappingProxyType(
    {
        "paren-open": Odd("(a"),
        "paren-close": Odd("a)"),
        "class-open": Odd("[a"),
        "star-first": Odd("*a"),
        "plus-after-bar": Odd("a|+"),
        "range-reversed": Odd("[z-a]"),
        "count-reversed": Odd("a{3,2}"),
        "backslash-last": Odd("a\\", cause="backslash-last"),
        "backslash-alone": Odd("\\", cause="backslash-last"),
        "group-kind-open": Odd("(?"),
    }
)
"""Invalid in Python ``re``, in ECMA-262 (unicode mode), in RFC 9485 and in Rust's ``regex`` alike."""

ESCAPES: Mapping[str, Odd] = MappingProxyType(
    {
        f"escape-{letter}": Odd(f"\\{letter}a", (f"{letter}a", "a"), outside=(f"{letter}a",), cause="escape-unknown")
        for letter in ("A", "Z", "z", "Q", "e", "q", "R")
    }
)
"""A letter after a backslash that is an anchor, something else, or an error; in no strict dialect the letter itself."""

DIALECT: Mapping[str, Odd] = MappingProxyType(
    {
        "flag-ignore-case": Odd("(?i)ab", ("ab", "AB", "aB")),
        "count-without-minimum": Odd("a{,3}", ("", "aaa", "aaaa", "a{,3}")),
        "brace-open": Odd("a{", ("a{", "a")),
        "brace-word": Odd("a{x}", ("a{x}", "a")),
        "class-bracket-first": Odd("[]a]", ("]", "a", "]a", "a]")),
        "class-none": Odd("[]", ("", "a", "]")),
        "class-all": Odd("[^]", ("a", "\n", "^")),
        "star-twice": Odd("a**", ("", "aa", "a*")),
        "count-twice": Odd("a{2}{3}", ("aaaaaa", "aa", "aaa")),
        "possessive": Odd("a*+b", ("b", "aab", "ab+")),
        "atomic": Odd("(?>a|ab)c", ("ac", "abc")),
        "intersection": Odd("[a&&ab]", ("a", "b", "&")),
        "subtraction": Odd("[a-c--b]", ("a", "b", "c", "-")),
        "posix-class": Odd("[[:alpha:]]", ("a", "[", ":]", "1")),
        "flag-scoped": Odd("(?i:a)b", ("ab", "Ab", "AB")),
        "flag-dot-all": Odd("(?s).", ("a", "\n")),
        "flag-verbose": Odd("(?x)a b", ("ab", "a b")),
        "property": Odd("\\p{L}", ("a", "\u00e9", "1", "p{L}")),
        "control-letter": Odd("\\cA", ("\x01", "cA")),
        "octal-zero": Odd("\\0", ("\x00", "0")),
        "code-point-braces": Odd("\\u{61}", ("a", "u" * 61)),
        "group-named-python": Odd("(?P<n>a)b", ("ab", "a")),
        "group-named": Odd("(?<n>a)b", ("ab", "a")),
        "comment": Odd("(?#c)a", ("a", "c", "")),
        "anchor-quantified": Odd("^*a", ("a", "^a", "*a")),
        "word-boundary": Odd("\\bab\\b", ("ab", "bab"), inside=("ab",), outside=("bab", "abb")),
        "word-inside": Odd("a\\Bb", ("ab",), inside=("ab",), outside=("aBb",)),
    }
)
"""Allowed in some dialects only, or with different meanings."""

ODD: Mapping[str, Odd] = MappingProxyType({**INVALID, **ESCAPES, **DIALECT})
TEXTS: Mapping[str, str] = MappingProxyType({name: odd.text for name, odd in ODD.items()})
