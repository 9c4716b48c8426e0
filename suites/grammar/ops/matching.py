"""What every compiler is asked, once: compile, try strings, compile again, then an ordinary expression.

Runs in the compiler's own interpreter, so it needs the standard library only. Nothing here knows what is right.

A compiler is three functions. ``compile(pattern)`` returns a matcher or raises. ``accepts(matcher, text)`` says whether
the matcher takes the whole text; None where it gives up on purpose. ``refused(error)`` says whether an exception is a
refusal: an error that the library raises to say that it will not take this expression.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any


def operation(
    compile_: Callable[[str], Any], accepts: Callable[[Any, str], bool | None], refused: Callable[[BaseException], bool]
) -> Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]:
    """Make the operation ``regex`` of one compiler."""

    def attempt(pattern: str, probes: list[str]) -> dict[str, Any]:
        try:
            matcher = compile_(pattern)
            return {"decision": "compiled", "reason": "", "accepts": [accepts(matcher, text) for text in probes]}
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:  # a Rust panic is no Exception
            return {
                "decision": "refused" if refused(error) else "failed",
                "reason": f"{type(error).__name__}: {error}"[:500],
                "accepts": [],
            }

    def regex(input_: dict[str, Any], _arrays: dict[str, Any]) -> dict[str, Any]:
        result = attempt(input_["pattern"], input_["probes"])
        result["again"] = attempt(input_["pattern"], input_["probes"]) if input_["twice"] else None
        result["after"] = attempt(input_["after"]["pattern"], input_["after"]["probes"])
        return result

    return regex


def version_of(distribution: str) -> str:
    """The installed version."""
    return version(distribution)
