"""xgrammar, byte by byte: ``compile_regex`` and ``GrammarMatcher`` over a vocabulary of single bytes.

The package imports torch and transformers for token masks and for Hugging Face tokenizers. Neither takes part here, so
where they are not installed empty stand-ins take their names; what is tested is the compiled library all the same.
"""

from __future__ import annotations

import sys
import types
from importlib.util import find_spec
from typing import Any

from matching import operation, version_of  # type: ignore[import-not-found]

if find_spec("tvm_ffi") is not None:  # of 0.1.30 and later; it looks for a real torch, so it comes before the stand-ins
    import tvm_ffi  # type: ignore[import-not-found]  # noqa: F401


class _Absent(types.ModuleType):
    """A library that is named in annotations and base classes only."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return (lambda *_args, **_more: None) if name == "tensor" else type(name, (), {})


stand_ins = [name for name in ("torch", "transformers") if find_spec(name) is None]
sys.modules.update({name: _Absent(name) for name in stand_ins})

import xgrammar  # noqa: E402 - after the stand-ins

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
    return {
        "xgrammar": version_of("xgrammar"),
        "vocabulary": "256 single bytes",
        "compiler threads": 1,
        "stand-ins": stand_ins,
    }


OPS = {"regex": operation(_compiler.compile_regex, accepts, refused)}
