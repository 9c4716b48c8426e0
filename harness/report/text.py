"""Makes any payload fit to be shown: bounded in size, free of characters that break or forge a report.

Payloads are hostile by trade: lone surrogates, escape sequences, bidirectional overrides, strings of megabytes. Every
listener passes what it shows through here and then escapes it for its own format.
"""

from __future__ import annotations

import json
import re
from typing import Final

from harness.records import Json

STRING_LIMIT: Final = 2_000
"""Characters of one string inside a payload that are shown; the rest is counted."""

ITEM_LIMIT: Final = 200
"""Members of one list or object inside a payload that are shown; the rest is counted."""

DEPTH_LIMIT: Final = 40
"""Nesting that is shown. Deeper payloads are legitimate test inputs, and would exhaust the encoder's stack."""

# C0 except tab and newline, DEL, C1, zero-width and bidirectional controls, line separators, surrogates, BOM and the
# two non-characters that XML forbids.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufffe\uffff]"
)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def visible(text: str) -> str:
    r"""Replace invisible, forging and unencodable characters by ``\uXXXX``; newline and tab stay."""
    return _UNSAFE.sub(_escape, text)


def one_line(text: str, limit: int = 300) -> str:
    """Text for a title, a table cell or an attribute: one line, at most ``limit`` characters and a note."""
    flat = " ".join(visible(text[: limit * 4]).split())
    return cut(flat, limit) if len(text) <= limit * 4 else cut(flat, limit, total=len(text))


def cut(text: str, limit: int, total: int | None = None) -> str:
    """At most ``limit`` characters of ``text``; what is left out is counted, never silent."""
    whole = len(text) if total is None else total
    if len(text) <= limit and whole == len(text):
        return text
    return f"{text[:limit]} … (cut: {min(limit, len(text)):,} of {whole:,} characters)"


def shorten(value: Json, string_limit: int = STRING_LIMIT, item_limit: int = ITEM_LIMIT, depth: int = 0) -> Json:
    """A copy of a payload with its longest strings and lists cut, each with a note in place of the rest."""
    if isinstance(value, str):
        return cut(value, string_limit)
    if isinstance(value, int | float | bool) or value is None:
        return value if not isinstance(value, int) or abs(value) < 10**400 else _huge(value)
    if depth >= DEPTH_LIMIT:
        return f"… (cut: nested deeper than {DEPTH_LIMIT})"
    if isinstance(value, dict):
        shown: dict[str, Json] = {
            cut(str(k), string_limit): shorten(v, string_limit, item_limit, depth + 1)
            for k, v in list(value.items())[:item_limit]
        }
        if len(value) > item_limit:
            shown["…"] = f"cut: {item_limit:,} of {len(value):,} members"
        return shown
    if isinstance(value, list | tuple):
        items = [shorten(v, string_limit, item_limit, depth + 1) for v in value[:item_limit]]
        if len(value) > item_limit:
            items.append(f"… (cut: {item_limit:,} of {len(value):,} items)")
        return items
    return cut(repr(value), string_limit)


def _huge(value: int) -> str:
    # Python refuses to print integers of more than 4,300 digits, and nobody reads them.
    return f"… (an integer of {value.bit_length():,} bits)"


def pretty(value: Json, limit: int = 20_000) -> str:
    """JSON for reading: indented, long parts cut with a note, safe to show. At most ``limit`` characters and a note."""
    string_limit = min(STRING_LIMIT, max(limit // 4, 40))
    value = shorten(value, string_limit)
    if isinstance(value, str):
        # A text of several lines is read, and compared, line by line.
        text = '"' + "\n".join(json.dumps(line, ensure_ascii=False)[1:-1] for line in value.split("\n")) + '"'
    else:
        text = _compact_numbers(json.dumps(value, indent=2, ensure_ascii=False))
    return cut(visible(text), limit)


_NUMBERS: Final = re.compile(r"\[\s+(-?[\d.eE+-]+(?:,\s+-?[\d.eE+-]+)*)\s+\]")


def _compact_numbers(text: str) -> str:
    # A list of token ids reads better in a row than one number a line.
    return _NUMBERS.sub(lambda m: "[" + ", ".join(part.strip() for part in m[1].split(",")) + "]", text)


def brief(value: Json, limit: int = 120) -> str:
    """One line of JSON for a table cell."""
    if isinstance(value, str):
        return one_line(value, limit)
    return one_line(json.dumps(shorten(value, limit), ensure_ascii=False), limit)


def flatten(value: Json, prefix: str = "") -> list[tuple[str, str]]:
    """``{"cpu": {"cores": 2}}`` as rows ``("cpu.cores", "2")``, for tables of the environment."""
    if isinstance(value, dict) and value:
        rows: list[tuple[str, str]] = []
        for key, inner in value.items():
            name = one_line(str(key), 100)
            rows.extend(flatten(inner, f"{prefix}.{name}" if prefix else name))
        return rows
    if isinstance(value, list | tuple) and all(isinstance(v, str | int | float) for v in value):
        return [(prefix, one_line(", ".join(str(v) for v in value), 1_000) or "none")]
    return [(prefix, "none" if value == {} else brief(value, 1_000))]
