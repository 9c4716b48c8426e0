"""outlines-core, byte by byte: ``Index`` over a vocabulary of single bytes."""

from __future__ import annotations

from typing import Any

from matching import operation, version_of  # type: ignore[import-not-found]
from outlines_core import Index, Vocabulary

STOP = 256
_vocabulary = Vocabulary(STOP, {bytes([code]): [code] for code in range(256)})


def compile_(pattern: str) -> Any:
    """Build the index."""
    return Index(pattern, _vocabulary)


def accepts(index: Any, text: str) -> bool:
    """Follow the transitions."""
    state = index.get_initial_state()
    for byte in text.encode():
        state = index.get_next_state(state, byte)
        if state is None:
            return False
    return bool(index.is_final_state(state))


def refused(error: BaseException) -> bool:
    """It refuses by ValueError; a panic arrives as another class."""
    return isinstance(error, ValueError)


def hello() -> dict[str, Any]:
    """Version and way of asking."""
    return {"outlines-core": version_of("outlines_core"), "vocabulary": "256 single bytes"}


OPS = {"regex": operation(compile_, accepts, refused)}
