"""lm-format-enforcer, character by character: ``RegexParser``."""

from __future__ import annotations

from typing import Any

from interegular import InvalidSyntax, Unsupported  # type: ignore[import-not-found]
from lmformatenforcer import RegexParser
from matching import operation, version_of  # type: ignore[import-not-found]


def accepts(parser: Any, text: str) -> bool:
    """Add the characters. In the invalid state ``can_end`` is true, so that state is looked at by itself."""
    for char in text:
        parser = parser.add_character(char)
        if parser.current_state == RegexParser.INVALID_STATE:
            return False
    return bool(parser.can_end())


def refused(error: BaseException) -> bool:
    """Its parser's own classes, ValueError, and the bare Exception that it raises for a count that makes no sense."""
    return isinstance(error, InvalidSyntax | Unsupported | ValueError) or type(error) is Exception


def hello() -> dict[str, Any]:
    """Versions and way of asking."""
    return {
        "lm-format-enforcer": version_of("lm-format-enforcer"),
        "interegular": version_of("interegular"),
        "vocabulary": "characters",
    }


OPS = {"regex": operation(RegexParser, accepts, refused)}
