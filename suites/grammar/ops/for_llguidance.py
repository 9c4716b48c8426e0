"""llguidance, byte by byte: ``LLMatcher`` over a vocabulary of single bytes."""

from __future__ import annotations

from typing import Any

import llguidance
from matching import operation, version_of  # type: ignore[import-not-found]

STOP = 256


class _Bytes:
    """The tokenizer that ``TokenizerWrapper`` asks for."""

    eos_token_id = STOP
    bos_token_id = None
    tokens = [*(bytes([code]) for code in range(256)), b"\xff</s>"]  # noqa: RUF012 - read once
    special_token_ids = [STOP]  # noqa: RUF012 - read once

    def __call__(self, text: str | bytes) -> list[int]:
        return list(text if isinstance(text, bytes) else text.encode())


class Refusal(ValueError):  # noqa: N818 - says what is the case
    """The matcher is in its error state after construction."""


_tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Bytes()), n_vocab=257, eos_token=STOP, slices=[])


def compile_(pattern: str) -> Any:
    """Build a matcher; it reports errors by its state, never by an exception."""
    matcher = llguidance.LLMatcher(_tokenizer, llguidance.LLMatcher.grammar_from_regex(pattern), log_level=0)
    if matcher.is_error():
        raise Refusal(matcher.get_error())
    return matcher


def accepts(matcher: Any, text: str) -> bool | None:
    """Feed the bytes; None where the matcher reached one of its own limits."""
    state = matcher.deep_copy()
    tokens = list(text.encode())
    consumed = state.try_consume_tokens(tokens)
    if state.is_error():
        if "panic" in state.get_error().lower():
            raise RuntimeError(state.get_error())
        return None
    return bool(consumed == len(tokens) and state.is_accepting())


def refused(error: BaseException) -> bool:
    """Its own error state, unless it caught a panic of its own."""
    return isinstance(error, Refusal) and "panic" not in str(error).lower()


def hello() -> dict[str, Any]:
    """Version and way of asking."""
    return {"llguidance": version_of("llguidance"), "vocabulary": "256 single bytes", "limits": "its defaults"}


OPS = {"regex": operation(compile_, accepts, refused)}
