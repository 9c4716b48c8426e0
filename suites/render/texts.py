"""Text in classes: what a user may write, from plain words to what has broken renderers before."""

from __future__ import annotations

import re

from suites.render.draw import Draw

WORDS = (
    "the",
    "gauge",
    "reads",
    "seven",
    "tide",
    "plan",
    "of",
    "a",
    "house",
    "and",
    "Hello",
    "weigh",
    "it",
    "again",
    "x",
)

SPICE: dict[str, tuple[str, ...]] = {
    "digits": ("1234567890", "3.14159", "1,000,000", "007"),
    "blanks": ("  ", "   x", "a\t\tb", " \n ", "\n\n\n", "x  "),
    "carriage-return": ("a\r\nb", "\r"),
    "control": ("\x00", "\x1b[0m", "\x7f", "\x08"),
    "special-token": ("<|user|>", "<|end|>", "<|bos|>", "<|assistant|>x", "<|eos|>"),
    "almost-special": ("<|user|", "<|unknown|>", "< |user|>", "<|USER|>"),
    "markup": ("<b>", "a & b", "it's", '"quoted"', "&amp;", "</script>"),
    "backslash": ("\\n", "C:\\x", "\\u00e9", "\\"),
    "jinja": ("{{ x }}", "{% if %}", "{# c #}", "}}"),
    "accents": ("café", "naïve", "Straße", "não"),
    "combining": ("cafe\u0301", "n\u0303", "\u0301"),
    "scripts": ("测量", "αβγ", "сила", "かな", "한글", "שלום", "مرحبا"),
    "emoji": ("😀", "👩‍💻", "🇵🇹", "❤️"),
    "separators": ("\u2028", "\u2029", "\u0085", "\u00a0", "\u200b", "\ufeff"),
    "private": ("\ue000", "\U0010ffff", "\ufffd", "\U000e0001"),
    "long-word": ("a" * 80, "ab" * 60, "😀" * 20),
    "json-like": ('{"a": 1}', "[1, 2]", "null"),
    "case": ("HELLO", "iPhone", "ǅ"),
}
"""Pieces of text that are not plain, by class."""

_CLASSES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("text:special-token", re.compile(r"<\|(pad|bos|eos|system|user|assistant|tool|end)\|>")),
    ("text:control", re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")),
    ("text:carriage-return", re.compile(r"\r")),
    ("text:separator", re.compile(r"[\u0085\u00a0\u200b-\u200f\u2028\u2029\ufeff]")),
    ("text:combining", re.compile(r"[\u0300-\u036f]")),
    ("text:beyond-bmp", re.compile(r"[\U00010000-\U0010ffff]")),
    ("text:non-ascii", re.compile(r"[^\x00-\x7f]")),
    ("text:jinja", re.compile(r"\{\{|\}\}|\{%|\{#")),
    ("text:markup", re.compile(r"[<>&'\"]")),
    ("text:backslash", re.compile(r"\\")),
    ("text:blanks", re.compile(r"^\s|\s$|\s\s|\t|\n")),
)


def classes(text: str) -> set[str]:
    """Name the classes of a text: the first that is found, so that one cause has one name."""
    if len(text) > 300:
        return {"text:long" if len(text) < 1000 else "text:very-long"}
    for name, pattern in _CLASSES:
        if pattern.search(text):
            return {name}
    return set()


def plain(draw: Draw) -> str:
    """Draw a few plain words."""
    return " ".join(draw.pick(WORDS) for _ in range(1 + draw.below(4)))


def text(draw: Draw) -> str:
    """Draw plain words, and in one case out of three something else among them."""
    words = plain(draw)
    if not draw.odds(3):
        return words
    spice = draw.pick(SPICE[draw.pick(tuple(SPICE))])
    return draw.pick((words + " " + spice, spice + words, spice))
