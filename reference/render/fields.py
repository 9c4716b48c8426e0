"""Every field of a request as data: its JSON type, its routes, whether null is allowed, and the bounds of its values.

Types and bounds are those of the OpenAI API reference (chat/create, completions/create) and, for the extensions, of
vLLM's documentation of its OpenAI-compatible server (extra parameters, ``SamplingParams``). A bound with ``must`` is
fixed by one of them; a bound without is where implementations were seen to draw, or could draw, a line of their own.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal[
    "integer", "number", "boolean", "string", "object", "any",
    "integers", "strings", "string-or-strings", "bias", "documents",
]  # fmt: skip

CHAT, COMPLETIONS = frozenset({"chat"}), frozenset({"completions"})
BOTH = CHAT | COMPLETIONS


class Bound(msgspec.Struct, frozen=True):
    """Values on the far side of a limit: ``compare`` is ``<``, ``<=``, ``>``, ``>=`` or ``=``."""

    compare: str
    limit: float
    tag: str
    clause: str
    must: bool = False

    def hit(self, value: float) -> bool:
        """Whether the value lies there."""
        return {
            "<": value < self.limit,
            "<=": value <= self.limit,
            ">": value > self.limit,
            ">=": value >= self.limit,
            "=": value == self.limit,
        }[self.compare]


class Field(msgspec.Struct, frozen=True):
    """One field. ``nullable`` is what the API reference says; null elsewhere is left open."""

    kind: Kind
    routes: frozenset[str] = BOTH
    nullable: bool = False
    bounds: tuple[Bound, ...] = ()
    enum: tuple[str, ...] = ()
    lowered: str = ""  # the engine's sampling parameter that carries it, where there is one
    default: object = None  # of that sampling parameter, as documented


def _must(compare: str, limit: float, tag: str, clause: str = "R-RANGE-1") -> Bound:
    return Bound(compare, limit, tag, clause, must=True)


def _open(compare: str, limit: float, tag: str, clause: str = "R-RANGE-2") -> Bound:
    return Bound(compare, limit, tag, clause)


INT64 = 2**63
_PENALTY = (_must("<", -2, "penalty:below"), _must(">", 2, "penalty:above"))
_LOGPROBS = (
    _must("<", -1, "logprobs:below", "R-LOGP-1"),
    _open("=", -1, "logprobs:all", "R-LOGP-2"),
    _open(">", 20, "logprobs:many", "R-LOGP-2"),
)
_BUDGET = (_must("<", 0, "budget:negative", "R-MAX-1"),)

FIELDS: dict[str, Field] = {
    # sampling
    "temperature": Field(
        "number", nullable=True, lowered="temperature", default=1.0,
        bounds=(_must("<", 0, "temperature:below"), _must(">", 2, "temperature:above")),
    ),
    "top_p": Field(
        "number", nullable=True, lowered="top_p", default=1.0,
        bounds=(_must("<", 0, "top_p:below"), _open("=", 0, "top_p:zero"), _must(">", 1, "top_p:above")),
    ),
    "top_k": Field(
        "integer", lowered="top_k", default=0,
        bounds=(_must("<", -1, "top_k:below"), _open(">=", 2**32, "top_k:beyond-32-bit")),
    ),
    "min_p": Field(
        "number", lowered="min_p", default=0.0, bounds=(_must("<", 0, "min_p:below"), _must(">", 1, "min_p:above"))
    ),
    "frequency_penalty": Field("number", nullable=True, lowered="frequency_penalty", default=0.0, bounds=_PENALTY),
    "presence_penalty": Field("number", nullable=True, lowered="presence_penalty", default=0.0, bounds=_PENALTY),
    "repetition_penalty": Field(
        "number", lowered="repetition_penalty", default=1.0,
        bounds=(_must("<=", 0, "repetition_penalty:below"), _open(">", 2, "repetition_penalty:above-2")),
    ),
    "seed": Field(
        "integer", nullable=True, lowered="seed",
        bounds=(_must(">=", INT64, "seed:beyond-64-bit"), _must("<", -INT64, "seed:beyond-64-bit")),
    ),
    "max_tokens": Field("integer", nullable=True, bounds=_BUDGET, lowered="max_tokens", default=16),
    "max_completion_tokens": Field("integer", CHAT, nullable=True, bounds=_BUDGET),
    "min_tokens": Field(
        "integer", lowered="min_tokens", default=0, bounds=(_must("<", 0, "min_tokens:negative", "R-MIN-1"),)
    ),
    "n": Field(
        "integer", nullable=True, lowered="n", default=1,
        bounds=(_must("<", 1, "n:below", "R-N-1"), _open(">", 1, "n:several", "R-N-2")),
    ),
    "stop": Field("string-or-strings", nullable=True, lowered="stop", default=()),
    "stop_token_ids": Field("integers", lowered="stop_token_ids", default=()),
    "bad_words": Field("strings", lowered="bad_words", default=()),
    "logit_bias": Field("bias", nullable=True, lowered="logit_bias"),
    "allowed_token_ids": Field("integers", lowered="allowed_token_ids"),
    "ignore_eos": Field("boolean", lowered="ignore_eos", default=False),
    "skip_special_tokens": Field("boolean", lowered="skip_special_tokens", default=True),
    "spaces_between_special_tokens": Field("boolean", lowered="spaces_between_special_tokens", default=True),
    "include_stop_str_in_output": Field("boolean", lowered="include_stop_str_in_output", default=False),
    "prompt_logprobs": Field("integer", bounds=_LOGPROBS, lowered="prompt_logprobs"),
    "thinking_token_budget": Field(
        "integer", lowered="thinking_token_budget", bounds=(_must("<", -1, "thinking_token_budget:below"),)
    ),
    "top_logprobs": Field("integer", CHAT, nullable=True, bounds=_LOGPROBS),
    # shape of the answer
    "stream": Field("boolean", nullable=True),
    "stream_options": Field("object", nullable=True),
    "echo": Field("boolean"),
    "return_token_ids": Field("boolean", nullable=True),
    "include_reasoning": Field("boolean", CHAT),
    "parallel_tool_calls": Field("boolean", CHAT, nullable=True),
    # what the template sees
    "add_generation_prompt": Field("boolean", CHAT),
    "continue_final_message": Field("boolean", CHAT),
    "add_special_tokens": Field("boolean"),
    "chat_template": Field("string", CHAT, nullable=True),
    "chat_template_kwargs": Field("object", CHAT, nullable=True),
    "documents": Field("documents", CHAT, nullable=True),
    "reasoning_effort": Field(
        "string", CHAT, nullable=True, enum=("none", "minimal", "low", "medium", "high", "xhigh", "max")
    ),
    # the prompt's length
    "truncate_prompt_tokens": Field(
        "integer", nullable=True,
        bounds=(_must("<", -1, "truncate:below", "R-TRUNC-3"), _open("=", 0, "truncate:zero", "R-TRUNC-4")),
    ),
    "truncation_side": Field("string", nullable=True, enum=("left", "right")),
    # identity and scheduling
    "model": Field("string"),
    "user": Field("string"),
    "request_id": Field("string"),
    "priority": Field(
        "integer",
        bounds=(_open(">=", 2**31, "priority:beyond-32-bit"), _open("<", -(2**31), "priority:beyond-32-bit")),
    ),
    "cache_salt": Field("string", nullable=True),
    "session_id": Field("string", nullable=True),
    "kv_transfer_params": Field("object", nullable=True),
    "vllm_xargs": Field("object", nullable=True),
    # structure of the answer
    "response_format": Field("object"),
    "structured_outputs": Field("object"),
    # extensions that only some implementations have
    "use_beam_search": Field("boolean"),
    "length_penalty": Field("number"),
    "suffix": Field("string", COMPLETIONS, nullable=True),
    "media_io_kwargs": Field("object", CHAT, nullable=True),
    "mm_processor_kwargs": Field("object", CHAT, nullable=True),
    "return_prompt_text": Field("boolean", CHAT, nullable=True),
}  # fmt: skip
"""The fields that one value decides. ``logprobs`` (whose type depends on the route), ``messages``, ``prompt``,
``tools`` and ``tool_choice`` have rules of their own in :mod:`reference.render.validate`."""

LOGPROBS: dict[str, Field] = {
    "chat": Field("boolean", nullable=True),
    "completions": Field("integer", nullable=True, bounds=_LOGPROBS, lowered="logprobs"),
}

UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "use_beam_search": (False,),
    "length_penalty": (1, 1.0),
    "spaces_between_special_tokens": (True,),
    "suffix": (),
    "media_io_kwargs": (),
    "mm_processor_kwargs": (),
    "return_prompt_text": (False,),
}
"""Extensions that a renderer may refuse: the values that ask for nothing. Any other value is an open question."""


def field(name: str, route: str) -> Field | None:
    """The rules for a field on a route; None where the route does not know it (then it is ignored)."""
    if name == "logprobs":
        return LOGPROBS[route]
    found = FIELDS.get(name)
    return found if found is not None and route in found.routes else None
