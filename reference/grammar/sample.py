"""Strings from a language and from just outside it, from an integer stream: equal on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from reference.grammar.ast import Alt, Cat, Chars, Dot, Group, Lit, Node, Rep, Short, walk
from reference.grammar.oracle import Membership, membership

MAX_TEXT = 100
"""Longest sample in characters: the matcher is cubic in it where repetitions nest.

A language without shorter members gets no member sample.
"""

MAX_EXTRA = 3
"""Most copies beyond the least number that one repetition takes."""

_SURROGATES = range(0xD800, 0xE000)
_SHORT_CHARS = {"d": "0379", "D": "a-Z ", "w": "aZ_4", "W": "-. !", "s": " \t", "S": "a0-é"}
_FOREIGN = "abz0 -_.AZ\u00e9\u65e5"


class Stream:
    """Integers from a counter: SHA-256 of key and counter. No platform's random generator takes part."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._count = 0

    def below(self, bound: int) -> int:
        """The next integer in [0, bound)."""
        block = hashlib.sha256(self._key + b"/" + str(self._count).encode()).digest()
        self._count += 1
        return int.from_bytes(block[:8], "big") % bound

    def pick(self, items: str) -> str:
        """One character of ``items``."""
        return items[self.below(len(items))]


class _TooLongError(Exception):
    pass


def members(node: Node, stream: Stream, count: int, tries: int = 4) -> list[str]:
    """Up to ``count`` different strings that the oracle confirms inside (or open, for the AGREE clauses).

    Fewer where the language is small, its members are longer than :data:`MAX_TEXT`, or no oracle can say.
    """
    found: dict[str, None] = {}
    for _ in range(count * tries):
        try:
            text = _draw(node, stream, MAX_TEXT)
        except _TooLongError:
            continue
        if text not in found and membership(node, text) in (Membership.IN, Membership.OPEN):
            found[text] = None
        if len(found) == count:
            break
    return list(found)


def outsiders(node: Node, inside: list[str], stream: Stream, count: int, tries: int = 6) -> list[str]:
    """Up to ``count`` different strings one edit away from a member, which the oracle confirms outside."""
    found: dict[str, None] = {}
    seeds = inside or [""]
    alphabet = _alphabet(node)
    for _ in range(count * tries):
        text = _edit(seeds[stream.below(len(seeds))], alphabet, stream)
        if text not in found and membership(node, text) is Membership.OUT:
            found[text] = None
        if len(found) == count:
            break
    return list(found)


def edges(low: int, high: int | None) -> Iterator[int]:
    """The counts around the bounds of ``{low,high}``: one below and at the lower, at and one above the upper."""
    yield from dict.fromkeys(
        n for n in (low - 1, low, *((high, high + 1) if high is not None else (low + 7,))) if n >= 0
    )


def _draw(node: Node, stream: Stream, room: int) -> str:
    """One string built along the tree; anchors, lookaround and back-references add nothing (the oracle confirms)."""
    match node:
        case Lit(text):
            result = text
        case Chars():
            result = _char(node, stream)
        case Dot():
            result = stream.pick("ax0 -é\u65e5")
        case Short(letter):
            result = stream.pick(_SHORT_CHARS[letter])
        case Cat(parts):
            result = ""
            for part in parts:
                result += _draw(part, stream, room - len(result))
        case Alt(parts):
            result = _draw(parts[stream.below(len(parts))], stream, room)
        case Group(part):
            result = _draw(part, stream, room)
        case Rep(part, low, high, _):
            if low > room:
                raise _TooLongError
            most = low + MAX_EXTRA if high is None else min(high, low + MAX_EXTRA)
            times = (
                high if high is not None and high <= 64 and stream.below(3) == 0 else low + stream.below(most - low + 1)
            )
            result = ""
            for _ in range(times):
                result += _draw(part, stream, room - len(result))
        case _:
            result = ""
    if len(result) > room:
        raise _TooLongError
    return result


def _char(node: Chars, stream: Stream) -> str:
    if not node.negated:
        low, high = node.ranges[stream.below(len(node.ranges))]
        return chr(low + stream.below(high - low + 1))
    for _ in range(64):
        code = ord(stream.pick(_FOREIGN)) + stream.below(3)
        if code not in _SURROGATES and not any(low <= code <= high for low, high in node.ranges):
            return chr(code)
    raise _TooLongError  # a class that leaves out nearly everything


def _alphabet(node: Node) -> str:
    own = ""
    for current in walk(node):
        if isinstance(current, Lit):
            own += current.text[:20]
        elif isinstance(current, Chars):
            own += "".join(chr(code) for pair in current.ranges[:5] for code in pair)
    return "".join(dict.fromkeys(own)) + _FOREIGN


def _edit(text: str, alphabet: str, stream: Stream) -> str:
    at = stream.below(len(text) + 1)
    kind = stream.below(5)
    if kind == 0 and text:  # leave one out
        at = min(at, len(text) - 1)
        return text[:at] + text[at + 1 :]
    if kind == 1 and text:  # replace one
        at = min(at, len(text) - 1)
        return text[:at] + stream.pick(alphabet) + text[at + 1 :]
    if kind == 2 and len(text) > 1:  # cut short
        return text[: len(text) - 1]
    if kind == 3 and text.swapcase() != text:  # the other case
        return text.swapcase()
    return text[:at] + stream.pick(alphabet) + text[at:]  # put one in
