"""xgrammar, byte by byte: ``compile_regex`` and ``GrammarMatcher`` over a vocabulary of single bytes."""

from __future__ import annotations

from typing import Any

import xgrammar
from matching import operation, version_of  # type: ignore[import-not-found]

STOP = 256
VOCABULARY = [*(bytes([code]) for code in range(256)), b"</s>"]

_info = xgrammar.TokenizerInfo(VOCABULARY, xgrammar.VocabType.RAW, vocab_size=257, stop_token_ids=[STOP])
_compiler = xgrammar.GrammarCompiler(_info, max_threads=1, cache_enabled=False)


def accepts(compiled: Any, text: str) -> bool:
    """Feed the bytes, then the stop token."""
    matcher = xgrammar.GrammarMatcher(compiled)
    return all(matcher.accept_token(byte) for byte in text.encode()) and matcher.accept_token(STOP)


def refused(error: BaseException) -> bool:
    """Its parser's errors arrive as RuntimeError; a failed internal check says so."""
    return isinstance(error, RuntimeError | ValueError) and "Check failed" not in str(error)


def hello() -> dict[str, Any]:
    """Version and way of asking."""
    return {"xgrammar": version_of("xgrammar"), "vocabulary": "256 single bytes", "compiler threads": 1}


OPS = {"regex": operation(_compiler.compile_regex, accepts, refused)}
