"""Python's own ``re``, in a process of its own because it backtracks without a bound."""

from __future__ import annotations

import re
import sys
import warnings
from typing import Any

from matching import operation  # type: ignore[import-not-found]


def compile_(pattern: str) -> Any:
    """Compile, past the cache."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about texts that may come to mean something else
        re.purge()
        return re.compile(pattern)


def accepts(compiled: Any, text: str) -> bool:
    """The whole text."""
    return compiled.fullmatch(text) is not None


def refused(error: BaseException) -> bool:
    """``re.error``, and OverflowError for a count beyond its limit."""
    return isinstance(error, re.error | OverflowError)


def hello() -> dict[str, Any]:
    """Version."""
    return {"python": sys.version.split()[0]}


OPS = {"regex": operation(compile_, accepts, refused)}
