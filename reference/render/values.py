"""Judge one value of one field: its JSON type, the conversions that a lenient reader would make, and its bounds.

A wrong type must be refused (R-TYPE-1) unless a lenient reader could take it for the right one: then nothing but
agreement is asked for (R-TYPE-2), and the value is judged on as if it had been converted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from reference.render.fields import Field
from reference.render.records import Question

# What Python's int() and float() take and JSON's number grammar writes; more (underscores, blanks) nobody promises.
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_BOOLEAN_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "t", "f", "y", "n", "1", "0"})

Found = tuple[Any, tuple[Question, ...]]
"""The value as the field's type (None where there is none) and the questions."""


def wrong(name: str, expected: str) -> Question:
    """Return the question for a value of a wrong type."""
    return Question("R-TYPE-1", name, f"type:not-{expected}", must=True)


def convertible(what: str) -> Question:
    """Return the question for a value that a lenient reader converts: the conversion is the cause, not the field."""
    return Question("R-TYPE-2", "(conversion)", f"convert:{what}")


def integer(name: str, value: Any) -> Found:
    """Take ``value`` as an integer."""
    if isinstance(value, bool):
        return int(value), (convertible("boolean-to-number"),)
    if isinstance(value, int):
        return value, ()
    if isinstance(value, float):
        if math.isfinite(value) and value == int(value):
            return int(value), (convertible("float-to-integer"),)
        return None, (wrong(name, "integer"),)
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        as_float = float(value)
        if math.isfinite(as_float) and as_float == int(as_float):
            return int(as_float), (convertible("string-to-number"),)
    return None, (wrong(name, "integer"),)


def number(name: str, value: Any) -> Found:
    """Take ``value`` as a number."""
    if isinstance(value, bool):
        return float(value), (convertible("boolean-to-number"),)
    if isinstance(value, (int, float)):
        return value, ()
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value), (convertible("string-to-number"),)
    return None, (wrong(name, "number"),)


def boolean(name: str, value: Any) -> Found:
    """Take ``value`` as a boolean."""
    if isinstance(value, bool):
        return value, ()
    if isinstance(value, (int, float)) and value in (0, 1):
        return bool(value), (convertible("number-to-boolean"),)
    if isinstance(value, str) and value.lower() in _BOOLEAN_WORDS:
        return value.lower() in {"true", "yes", "on", "t", "y", "1"}, (convertible("string-to-boolean"),)
    return None, (wrong(name, "boolean"),)


def string(name: str, value: Any) -> Found:
    """Take ``value`` as a string. Nothing is converted to one."""
    return (value, ()) if isinstance(value, str) else (None, (wrong(name, "string"),))


def mapping(name: str, value: Any) -> Found:
    """Take ``value`` as an object."""
    return (value, ()) if isinstance(value, dict) else (None, (wrong(name, "object"),))


def anything(_name: str, value: Any) -> Found:
    """Take any value."""
    return value, ()


def _list_of(take: Callable[[str, Any], Found]) -> Callable[[str, Any], Found]:
    def many(name: str, value: Any) -> Found:
        if not isinstance(value, list):
            return None, (wrong(name, "array"),)
        taken = [take(name, item) for item in value]
        return [item for item, _ in taken], tuple(q for _, questions in taken for q in questions)

    return many


def _string_or_strings(name: str, value: Any) -> Found:
    return ([value], ()) if isinstance(value, str) else _list_of(string)(name, value)


def _bias(name: str, value: Any) -> Found:
    if not isinstance(value, dict):
        return None, (wrong(name, "object"),)
    questions: list[Question] = []
    bias: dict[int, float] = {}
    for key, item in value.items():
        got, asked = number(name, item)
        questions += asked
        if not re.fullmatch(r"-?[0-9]+", key):
            questions.append(Question("R-IDS-2", name, "logit_bias:key-not-a-number", must=True))
        elif got is not None:
            bias[int(key)] = got
            if not -100 <= got <= 100:
                questions.append(Question("R-RANGE-2", name, "logit_bias:beyond-100"))
    return bias, tuple(questions)


def _documents(name: str, value: Any) -> Found:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return None, (wrong(name, "array-of-objects"),)
    if not all(isinstance(entry, str) for item in value for entry in item.values()):
        return value, (Question("R-DOC-2", name, "documents:value-not-a-string"),)
    return value, ()


KINDS: dict[str, Callable[[str, Any], Found]] = {
    "integer": integer,
    "number": number,
    "boolean": boolean,
    "string": string,
    "object": mapping,
    "any": anything,
    "integers": _list_of(integer),
    "strings": _list_of(string),
    "string-or-strings": _string_or_strings,
    "bias": _bias,
    "documents": _documents,
}


def judge(name: str, rules: Field, value: Any) -> Found:
    """Judge one field's value; null first, then the type, then enumerations and bounds."""
    if value is None:
        if rules.nullable:
            return None, ()
        return None, (Question("R-NULL-2", "(null)", "null:not-nullable"),)
    taken, questions = KINDS[rules.kind](name, value)
    if taken is None:
        return None, questions
    if rules.enum and taken not in rules.enum:
        return None, (*questions, Question("R-ENUM-1", name, f"{name}:unknown-word", must=True))
    hits = tuple(
        Question(bound.clause, bound.tag.partition(":")[0], bound.tag, bound.must)
        for bound in rules.bounds
        if isinstance(taken, (int, float)) and bound.hit(taken)
    )
    return taken, questions + hits
