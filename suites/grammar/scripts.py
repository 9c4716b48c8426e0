"""A short script per finding that shows it without Afere: compile the pattern, try the strings, print."""

from __future__ import annotations

from typing import Final

from harness.records import Case
from harness.suite import TargetName
from reference.grammar.text import to_text
from suites.grammar.features import parsed

_XGRAMMAR: Final = """import xgrammar
words = [*(bytes([i]) for i in range(256)), b"</s>"]
info = xgrammar.TokenizerInfo(words, xgrammar.VocabType.RAW, stop_token_ids=[256])
compiled = xgrammar.GrammarCompiler(info, max_threads=1).compile_regex(pattern)
for text in strings:
    matcher = xgrammar.GrammarMatcher(compiled)
    print(repr(text), all(matcher.accept_token(b) for b in text.encode()) and matcher.accept_token(256))
"""
_LLGUIDANCE: Final = """import llguidance
class Bytes:
    eos_token_id, bos_token_id, special_token_ids = 256, None, [256]
    tokens = [*(bytes([i]) for i in range(256)), b"\\xff</s>"]
    def __call__(self, text): return list(text if isinstance(text, bytes) else text.encode())
tokens = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Bytes()), n_vocab=257, eos_token=256, slices=[])
matcher = llguidance.LLMatcher(tokens, llguidance.LLMatcher.grammar_from_regex(pattern))
print("error:", matcher.get_error())
for text in strings:
    m, ids = matcher.deep_copy(), list(text.encode())
    print(repr(text), m.try_consume_tokens(ids) == len(ids) and m.is_accepting())
"""
_OUTLINES: Final = """from outlines_core import Index, Vocabulary
index = Index(pattern, Vocabulary(256, {bytes([i]): [i] for i in range(256)}))
for text in strings:
    state = index.get_initial_state()
    for byte in text.encode():
        state = None if state is None else index.get_next_state(state, byte)
    print(repr(text), state is not None and index.is_final_state(state))
"""
_LMFE: Final = """from lmformatenforcer import RegexParser
for text in strings:
    parser = RegexParser(pattern)
    for char in text:
        parser = parser.add_character(char)
    print(repr(text), parser.current_state != RegexParser.INVALID_STATE and parser.can_end())
"""
_RE: Final = """import re
for text in strings:
    print(repr(text), re.fullmatch(pattern, text) is not None)
"""
BODIES: Final = {
    "xgrammar": _XGRAMMAR,
    "llguidance": _LLGUIDANCE,
    "outlines-core": _OUTLINES,
    "lm-format-enforcer": _LMFE,
    "python-re": _RE,
}


def literal(text: str) -> str:
    """A Python expression for a text; runs of parentheses are written as products."""
    lead = len(text) - len(text.lstrip("("))
    tail = len(text) - len(text.rstrip(")"))
    if lead > 50 and lead == tail:
        return f"'(' * {lead} + {text[lead:-tail]!r} + ')' * {tail}"
    return repr(text)


def script(case: Case, target: str) -> str:
    """The script for one case on one target; for a target without one, what to ask it."""
    node = parsed(case.input)
    pattern = "" if node is None else to_text(node)
    head = f"pattern = {literal(pattern)}\nstrings = {case.input['probes']!r}\n"
    try:
        kind = TargetName.parse(target).kind
    except ValueError:
        kind = target
    return head + BODIES.get(kind, f"print(pattern, strings)  # the strings to try on {target}\n")
