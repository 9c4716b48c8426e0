"""Stage 5, lower: the request's parameters as the engine request must carry them.

Sources: the OpenAI API reference (meaning, defaults), vLLM's documentation of ``SamplingParams`` (names, defaults and
the values it documents as equal or clamped). An engine request that leaves a field out means the documented default.
"""

from __future__ import annotations

import struct
from typing import Any

from reference.render.fields import FIELDS
from reference.render.records import Checked, Json, Param, Setup
from reference.render.validate import budget

COMPLETION_BUDGET = 16
"""``max_tokens`` of the completions route where the request sets none (OpenAI API reference)."""
COLDEST = 0.01
"""vLLM raises a temperature between 0 and this to it, and says so in its log."""

TOP_LEVEL: dict[str, Json] = {
    "stream": False, "priority": 0, "cache_salt": None, "return_token_ids": False, "stream_options": None,
    "kv_transfer_params": None,
}  # fmt: skip
"""Fields of the engine request beside the sampling parameters, with their documented defaults."""

_OTHERS = ("max_tokens", "n", "logprobs", "prompt_logprobs")


def single(value: float) -> float:
    """Round to 32-bit floating point, which is enough for a sampling parameter to be the same."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return value


def canonical(name: str, value: Json) -> Json:
    """One form for values of an engine field that mean the same; None where it means the default."""
    if value is None:
        return None
    if isinstance(value, float) or (name in FIELDS and FIELDS[name].kind == "number"):
        value = single(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value
    if name == "top_k" and value == -1:
        value = 0
    elif name == "stop" and isinstance(value, str):
        value = [value]
    elif name == "logit_bias" and isinstance(value, dict):
        value = {str(int(key)): single(item) for key, item in value.items()} or None
    elif name in ("structured_outputs", "stream_options") and isinstance(value, dict):
        value = {key: item for key, item in sorted(value.items()) if item not in (None, False)} or None
    elif name in ("extra_args", "kv_transfer_params") and isinstance(value, dict):
        value = {key: item for key, item in value.items() if item is not None} or None
    if name in FIELDS and FIELDS[name].lowered:
        default = FIELDS[name].default
        if value == (list(default) if isinstance(default, tuple) else default):
            return None
    return None if name in TOP_LEVEL and value == TOP_LEVEL[name] else value


def lower(setup: Setup, checked: Checked, length: int) -> tuple[Param, ...]:
    """Give every field of the engine request for a prompt of ``length`` tokens, values in canonical form."""
    taken = checked.taken
    found = [_sampling(setup, name, taken) for name, rules in FIELDS.items() if rules.lowered and name not in _OTHERS]
    found += [_max_tokens(setup, checked, length), *_logprobs(checked), _n(taken), _structure(taken), _extra(taken)]
    found += [_top_level(name, taken) for name in TOP_LEVEL]
    return tuple(found)


def _top_level(name: str, taken: dict[str, Any]) -> Param:
    values = [canonical(name, taken.get(name))]
    unused = name == "stream_options" and not taken.get("stream")
    if (unused or name == "return_token_ids") and values != [None]:
        values.append(None)  # asks for nothing, or for something that is the generate route's business
    return Param(name, tuple(values), "R-FIELD-1", "R-FIELD-2", name in taken)


def _param(name: str, *values: Json, given: bool, agree: str = "", clause: str = "R-PARAM-1") -> Param:
    forms: list[Json] = []
    for value in values:
        form = canonical(name, value)
        if form not in forms:
            forms.append(form)
    return Param(name, tuple(forms), clause, agree or ("R-PARAM-2" if given else "R-PARAM-3"), given)


def _sampling(setup: Setup, name: str, taken: dict[str, Any]) -> Param:
    if name not in taken:
        served = setup.defaults.get(name)
        return _param(name, served, None, given=False) if served is not None else _param(name, None, given=False)
    value = taken[name]
    also = [value]
    if name == "temperature" and 0 < value < COLDEST:
        also.append(COLDEST)
    elif taken.get("temperature") == 0 and name in ("top_p", "top_k", "min_p"):
        also.append(None)  # greedy: the others have no effect
    elif name in ("seed", "thinking_token_budget") and value == -1:
        also.append(None)
    elif name == "logit_bias":
        also.append({key: max(-100.0, min(100.0, item)) for key, item in value.items()})
    elif name in ("stop_token_ids", "allowed_token_ids"):
        also.append(list(dict.fromkeys(value)))
    return _param(name, *also, given=True)


def room(setup: Setup, length: int) -> int:
    """Tokens that the context has left after a prompt of ``length``."""
    return setup.max_model_len - length


def _max_tokens(setup: Setup, checked: Checked, length: int) -> Param:
    most = budget(checked.taken)
    left = room(setup, length)
    if most is not None:
        clamped = min(most, left)
        values = (clamped, most) if not (checked.taken.get("echo") and most == 0) else (1, most)
        return _param("max_tokens", *values, given=True, clause="R-MAX-5", agree="R-MAX-4")
    if checked.route == "completions":
        return _param("max_tokens", min(COMPLETION_BUDGET, left), COMPLETION_BUDGET, given=False, agree="R-MAX-7")
    return _param("max_tokens", left, None, given=False, agree="R-MAX-3")


def _logprobs(checked: Checked) -> tuple[Param, Param]:
    taken = checked.taken
    wanted = taken.get("logprobs")
    if checked.route == "chat":
        wanted = taken.get("top_logprobs", 0) if wanted else None
    of_prompt = taken.get("prompt_logprobs")
    values = [of_prompt]
    if of_prompt is None and taken.get("echo"):
        # vLLM's documentation of echo says nothing on prompt log-probabilities.
        values.append(taken.get("top_logprobs", 0) if checked.route == "chat" else taken.get("logprobs"))
    return (
        _param("logprobs", wanted, given=wanted is not None),
        _param("prompt_logprobs", *values, given=of_prompt is not None or bool(taken.get("echo"))),
    )


def _n(taken: dict[str, Any]) -> Param:
    return _param("n", taken.get("n"), given="n" in taken)


def _structure(taken: dict[str, Any]) -> Param:
    rules = taken.get("structured_outputs")
    wanted = taken.get("response_format")
    value: Json = rules
    if wanted is not None and wanted.get("type") == "json_object":
        value = {**(rules or {}), "json_object": True}
    elif wanted is not None and wanted.get("type") == "json_schema":
        value = {**(rules or {}), "json": wanted["json_schema"].get("schema")}
    return _param("structured_outputs", value, given=value is not None)


def _extra(taken: dict[str, Any]) -> Param:
    return _param("extra_args", taken.get("vllm_xargs"), given="vllm_xargs" in taken)


def observed(answer: dict[str, Json]) -> dict[str, Json]:
    """Flatten a rendered engine request to ``{field: canonical value}`` for the fields that :func:`lower` speaks of.

    Two names that releases use for one thing are taken as one: ``vllm_xargs`` inside the sampling parameters is
    ``extra_args``, and transfer parameters inside ``extra_args`` belong to the top level.
    """
    params = answer.get("sampling_params")
    params = dict(params) if isinstance(params, dict) else {}
    extra = dict(params.get("extra_args") or {}) | dict(params.get("vllm_xargs") or {})
    transfer = extra.pop("kv_transfer_params", None) or answer.get("kv_transfer_params")
    names = [name for name, rules in FIELDS.items() if rules.lowered and name not in _OTHERS]
    found = {name: canonical(name, params.get(name)) for name in (*names, *_OTHERS, "structured_outputs")}
    found["extra_args"] = canonical("extra_args", extra)
    found |= {name: canonical(name, answer.get(name)) for name in TOP_LEVEL}
    found["kv_transfer_params"] = canonical("kv_transfer_params", transfer)
    return found
