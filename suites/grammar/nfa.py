"""A small honest compiler: pattern text to a nondeterministic automaton, run without backtracking.

It is the embedded target of this suite and says what a bounded compiler looks like. It reads the pattern text with a
parser of its own, so it shares no code with the oracles. What it does not know, or what would grow beyond its limits,
it refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

MAX_STATES: Final = 4000
MAX_DEPTH: Final = 60
LIMITS: Final = f"{MAX_STATES} states, {MAX_DEPTH} levels of parentheses"

Test = Callable[[str], bool]
State = tuple[Any, ...]
"""("char", test, next) | ("split", next, next) | ("start", next) | ("end", next) | ("match",)"""

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_SHORT: Final[dict[str, Test]] = {
    "d": str.isdecimal,
    "w": lambda c: c.isalnum() or c == "_",
    "s": str.isspace,
}


class Refusal(ValueError):  # noqa: N818 - says what is the case
    """The expression is invalid, unknown to this compiler, or too large for it."""


def _negation(test: Test) -> Test:
    return lambda c: not test(c)


def _short(letter: str) -> Test | None:
    test = _SHORT.get(letter.lower())
    return test if test is None or letter.islower() else _negation(test)


class _Parser:
    """Recursive descent to a tree of tuples: (kind, ...)."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0

    def parse(self) -> Any:
        tree = self._branches()
        if self._at < len(self._text):
            raise Refusal(f"unbalanced parenthesis at {self._at}")
        return tree

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise Refusal("the expression ends too early")
        self._at += 1
        return char

    def _branches(self) -> Any:
        branches = [self._branch()]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._branch())
        return branches[0] if len(branches) == 1 else ("alt", branches)

    def _branch(self) -> Any:
        parts = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._quantified(self._atom()))
        return ("cat", parts)

    def _atom(self) -> Any:
        char = self._take()
        if char == "(":
            return self._group()
        if char == "[":
            return ("char", self._class())
        if char == ".":
            return ("char", lambda c: c != "\n")
        if char in "^$":
            return ("start",) if char == "^" else ("end",)
        if char in "*+?{}]":
            raise Refusal(f"{char!r} at {self._at - 1} repeats nothing or closes nothing")
        if char == "\\":
            return ("char", self._escape())
        return ("char", char.__eq__)

    def _group(self) -> Any:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Refusal(f"more than {MAX_DEPTH} levels of parentheses")
        if self._peek() == "?":
            self._at += 1
            if self._take() != ":":
                raise Refusal("only (...) and (?:...) are known")
        tree = self._branches()
        if self._take() != ")":
            raise Refusal("unbalanced parenthesis")
        self._depth -= 1
        return tree

    def _escape(self) -> Test:
        char = self._take()
        if char == "x":
            return self._hex().__eq__
        short = _short(char)
        if short is not None:
            return short
        if char in _ESCAPES:
            return _ESCAPES[char].__eq__
        if char.isalnum():
            raise Refusal(f"unknown escape \\{char}")
        return char.__eq__

    def _hex(self) -> str:
        digits = self._take() + self._take()
        try:
            return chr(int(digits, 16))
        except ValueError:
            raise Refusal(f"not a hexadecimal number: {digits!r}") from None

    def _class(self) -> Test:
        negated = self._peek() == "^"
        self._at += negated
        tests: list[Test] = []
        while self._peek() != "]":
            tests.append(self._member())
        self._at += 1
        if not tests:
            raise Refusal("an empty class")

        def inside(char: str) -> bool:
            return any(test(char) for test in tests)

        return _negation(inside) if negated else inside

    def _member(self) -> Test:
        char = self._take()
        if char == "[":
            raise Refusal("'[' inside a class")
        if char == "\\":
            letter = self._peek()
            short = _short(letter)
            if short is not None:
                self._at += 1
                return short
            low = self._class_escape()
        else:
            low = char
        if self._peek() != "-" or self._text[self._at + 1 : self._at + 2] in ("]", ""):
            return low.__eq__
        self._at += 1
        char = self._take()
        high = self._class_escape() if char == "\\" else char
        if high < low:
            raise Refusal(f"the range {low}-{high} is reversed")
        return lambda c: low <= c <= high

    def _class_escape(self) -> str:
        char = self._take()
        if char == "x":
            return self._hex()
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char.isalnum():
            raise Refusal(f"unknown escape \\{char} in a class")
        return char

    def _quantified(self, atom: Any) -> Any:
        char = self._peek()
        bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(char)
        if bounds is not None:
            self._at += 1
        elif char == "{":
            bounds = self._counts()
        else:
            return atom
        if atom[0] in ("start", "end"):
            raise Refusal("a repeated anchor")
        if self._peek() == "?":
            self._at += 1  # which match is preferred does not matter for whole strings
        if self._peek() in ("*", "+", "?", "{") and self._peek():
            raise Refusal("two quantifiers in a row")
        return ("rep", atom, *bounds)

    def _counts(self) -> tuple[int, int | None]:
        end = self._text.find("}", self._at)
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        self._at = end + 1
        if end < 0 or not low.isascii() or not low.isdigit() or not (high == "" or (high.isascii() and high.isdigit())):
            raise Refusal("braces that hold no count")
        bounds = (int(low), int(high) if high else None if comma else int(low))
        if bounds[1] is not None and bounds[1] < bounds[0]:
            raise Refusal("the count is reversed")
        return bounds


class Automaton:
    """The compiled expression.

    :raises Refusal: see there
    """

    def __init__(self, pattern: str) -> None:
        self._states: list[State] = [("match",)]
        self._first = self._add(_Parser(pattern).parse(), 0)

    def accepts(self, text: str) -> bool:
        """Say whether the whole text is in the language: work is at most states times characters."""
        current = self._closure([self._first], 0, len(text))
        for at, char in enumerate(text, 1):
            following = [
                self._states[s][2] for s in current if self._states[s][0] == "char" and self._states[s][1](char)
            ]
            current = self._closure(following, at, len(text))
        return 0 in current

    def _closure(self, states: Sequence[int], at: int, length: int) -> set[int]:
        seen: set[int] = set()
        stack = list(states)
        while stack:
            number = stack.pop()
            if number in seen:
                continue
            seen.add(number)
            state = self._states[number]
            if state[0] == "split":
                stack += state[1:]
            elif (state[0] == "start" and at == 0) or (state[0] == "end" and at == length):
                stack.append(state[1])
        return seen

    def _new(self, state: State) -> int:
        if len(self._states) >= MAX_STATES:
            raise Refusal(f"more than {MAX_STATES} states")
        self._states.append(state)
        return len(self._states) - 1

    def _add(self, tree: Any, after: int) -> int:
        """Put a tree in front of state ``after``; returns its first state."""
        kind = tree[0]
        if kind == "cat":
            for part in reversed(tree[1]):
                after = self._add(part, after)
            return after
        if kind == "alt":
            return self._new(("split", *[self._add(part, after) for part in tree[1]]))
        if kind == "rep":
            return self._repeat(tree[1], tree[2], tree[3], after)
        return self._new((*tree, after))

    def _repeat(self, part: Any, low: int, high: int | None, after: int) -> int:
        if max(low, high or 0) > MAX_STATES:
            raise Refusal(f"a count above {MAX_STATES}")
        if high is None:
            loop = self._new(("split",))
            self._states[loop] = ("split", self._add(part, loop), after)
            after = loop
        else:
            end = after
            for _ in range(high - low):
                after = self._new(("split", self._add(part, after), end))
        for _ in range(low):
            after = self._add(part, after)
        return after


def attempt(pattern: str, probes: Sequence[str]) -> dict[str, Any]:
    """One compilation and its strings, in the form of ``ops/matching.py``."""
    try:
        automaton = Automaton(pattern)
    except Refusal as error:
        return {"decision": "refused", "reason": str(error), "accepts": []}
    return {"decision": "compiled", "reason": "", "accepts": [automaton.accepts(text) for text in probes]}


def operation(input_: dict[str, Any]) -> dict[str, Any]:
    """The operation ``regex``."""
    result = attempt(input_["pattern"], input_["probes"])
    result["again"] = attempt(input_["pattern"], input_["probes"]) if input_["twice"] else None
    result["after"] = attempt(**input_["after"])
    return result
