"""Stage 1, validate: what in a request bears on whether it is answered.

Every rule returns questions (see :class:`reference.render.records.Question`); the order of the rules is that of the
fields, so nothing depends on which one a server happens to look at first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from reference.render import values
from reference.render.fields import UNSUPPORTED, field
from reference.render.messages_check import message_questions
from reference.render.records import Checked, Json, Question, Route, Setup
from reference.render.tools_check import tool_questions

Taken = dict[str, Any]
"""Field -> value as its type, after lenient conversion; absent or null fields are missing."""

DEEP = 120
"""Nesting of arrays and objects from which on a JSON reader may refuse (RFC 8259, section 9, lets it set a limit)."""


def validate(setup: Setup, route: Route, body: Json) -> Checked:
    """Collect the questions that a request body raises on a route.

    ``body`` is any JSON value. The bounds are those of :mod:`reference.render.fields`; lengths in tokens are judged
    later, where the tokens are known.
    """
    if not isinstance(body, dict):
        return Checked(route, {}, (Question("R-TYPE-1", "(body)", "type:not-object", must=True),))
    taken: Taken = {}
    questions: list[Question] = []
    for name, value in body.items():
        rules = field(name, route)
        if rules is None:
            continue
        got, asked = values.judge(name, rules, value)
        questions += asked
        if got is not None:
            taken[name] = got
            if name in UNSUPPORTED and got not in UNSUPPORTED[name]:
                questions.append(Question("R-EXT-1", name, f"{name}:used"))
    for rule in RULES:
        questions += rule(setup, route, body, taken)
    return Checked(route, body, tuple(dict.fromkeys(questions)), taken)


def budget(taken: Taken) -> int | None:
    """The output budget that a request asks for: ``max_completion_tokens`` before ``max_tokens`` (R-MAX-5)."""
    found = taken.get("max_completion_tokens", taken.get("max_tokens"))
    return found if isinstance(found, int) else None


def _prompt(_setup: Setup, route: Route, body: dict[str, Json], _taken: Taken) -> Iterator[Question]:
    if route == "chat":
        yield from message_questions(body)
        return
    prompt = body.get("prompt")
    if prompt is None:
        yield Question("R-PROMPT-5", "prompt", "prompt:absent", must=True)
    elif isinstance(prompt, str):
        if not prompt:
            yield Question("R-PROMPT-6", "prompt", "prompt:empty")
    elif isinstance(prompt, list):
        yield from _prompt_list(_setup, prompt)
    else:
        yield Question("R-PROMPT-5", "prompt", "prompt:wrong-type", must=True)


def _prompt_list(setup: Setup, prompt: list[Json]) -> Iterator[Question]:
    if not prompt:
        yield Question("R-PROMPT-6", "prompt", "prompt:empty")
    elif all(isinstance(item, str) for item in prompt):
        yield Question("R-PROMPT-2", "prompt", "prompt:list")
        if "" in prompt:
            yield Question("R-PROMPT-6", "prompt", "prompt:empty")
    elif all(isinstance(item, list) for item in prompt):
        yield Question("R-PROMPT-2", "prompt", "prompt:list")
        for item in prompt:
            if not item:
                yield Question("R-PROMPT-6", "prompt", "prompt:empty")
            yield from _ids(setup, item)
    elif any(isinstance(item, (str, list, dict)) for item in prompt):
        yield from _mixed(prompt)
    else:
        yield from _ids(setup, prompt)


def _mixed(prompt: list[Json]) -> Iterator[Question]:
    numbers = [item for item in prompt if not isinstance(item, str)]
    texts = [item for item in prompt if isinstance(item, str)]
    if all(values.integer("prompt", item)[0] is not None for item in prompt) and numbers and texts:
        yield values.convertible("string-to-number")
    else:
        yield Question("R-PROMPT-4", "prompt", "prompt:mixed", must=True)


def _ids(setup: Setup, items: list[Json]) -> Iterator[Question]:
    for item in items:
        if item is None:
            yield Question("R-PROMPT-4", "prompt", "prompt:mixed", must=True)
            continue
        got, asked = values.integer("prompt", item)
        yield from asked
        if got is None:
            continue
        if got < 0:
            yield Question("R-PROMPT-4", "prompt", "prompt-ids:negative", must=True)
        elif got >= setup.embedding:
            yield Question("R-PROMPT-3", "prompt", "prompt-ids:outside-vocabulary")


def _model(setup: Setup, _route: Route, body: dict[str, Json], taken: Taken) -> Iterator[Question]:
    if body.get("model") in (None, ""):
        yield Question("R-MODEL-2", "model", "model:absent")
    elif taken.get("model", setup.served) != setup.served:
        yield Question("R-MODEL-1", "model", "model:unknown", must=True)


def _budgets(setup: Setup, route: Route, _body: dict[str, Json], taken: Taken) -> Iterator[Question]:
    most = budget(taken)
    if most == 0:
        # The completions route documents a minimum of 0, which asks for nothing but the prompt.
        yield Question("R-MAX-1" if route == "chat" else "R-MAX-6", "budget", "budget:zero", must=route == "chat")
    elif taken.get("max_tokens") == 0:
        yield Question("R-MAX-6", "budget", "budget:overridden-zero")
    if most is not None and most > setup.max_model_len:
        yield Question("R-MAX-2", "budget", "budget:beyond-context")
    least = taken.get("min_tokens", 0)
    if most is not None and least > most:
        yield Question("R-MIN-1", "min_tokens", "min_tokens:above-max_tokens", must=True)
    elif least > setup.max_model_len:
        yield Question("R-MIN-2", "min_tokens", "min_tokens:beyond-context")
    if taken.get("truncate_prompt_tokens", 0) > setup.max_model_len:
        yield Question("R-TRUNC-3", "truncate_prompt_tokens", "truncate:beyond-context", must=True)


def _stops(setup: Setup, _route: Route, _body: dict[str, Json], taken: Taken) -> Iterator[Question]:
    stops = taken.get("stop", [])
    if "" in stops:
        yield Question("R-STOP-1", "stop", "stop:empty-string", must=True)
    if len(stops) > 4:
        yield Question("R-STOP-2", "stop", "stop:more-than-four")
    if "" in taken.get("bad_words", []):
        yield Question("R-STOP-1", "bad_words", "bad_words:empty-string", must=True)
    named = [
        *taken.get("stop_token_ids", ()),
        *taken.get("allowed_token_ids", ()),
        *taken.get("logit_bias", ()),
    ]
    ids = [i for i in named if isinstance(i, int)]
    if any(i < 0 for i in ids):
        yield Question("R-IDS-1", "(token ids)", "ids:negative")
    if any(i >= setup.embedding for i in ids):
        yield Question("R-IDS-1", "(token ids)", "ids:outside-vocabulary")
    if any(setup.vocabulary <= i < setup.embedding for i in ids):
        yield Question("R-IDS-1", "(token ids)", "ids:padding-row")
    if taken.get("allowed_token_ids") == []:
        yield Question("R-IDS-3", "allowed_token_ids", "allowed_token_ids:empty")


def _logprobs(_setup: Setup, route: Route, _body: dict[str, Json], taken: Taken) -> Iterator[Question]:
    top = taken.get("top_logprobs", 0)
    if route == "chat" and (top > 0 or top == -1) and not taken.get("logprobs"):
        yield Question("R-LOGP-1", "logprobs", "top_logprobs:without-logprobs", must=True)
    of_prompt = taken.get("prompt_logprobs", 0)
    if taken.get("stream") and (of_prompt > 0 or of_prompt == -1):
        yield Question("R-LOGP-3", "logprobs", "prompt_logprobs:with-stream")


def _stream(_setup: Setup, _route: Route, _body: dict[str, Json], taken: Taken) -> Iterator[Question]:
    options = taken.get("stream_options")
    if options is None or taken.get("stream"):
        return
    # An empty object asks for nothing.
    yield Question("R-STREAM-1", "stream_options", "stream_options:without-stream", must=bool(options))


def _structure(_setup: Setup, _route: Route, _body: dict[str, Json], taken: Taken) -> Iterator[Question]:
    wanted = taken.get("response_format")
    if wanted is not None:
        kind = wanted.get("type")
        if kind not in ("text", "json_object", "json_schema", "structural_tag"):
            yield Question("R-FORMAT-1", "response_format", "response_format:unknown-type", must=True)
        elif kind == "json_schema" and not isinstance(wanted.get("json_schema"), dict):
            yield Question("R-FORMAT-1", "response_format", "response_format:no-schema", must=True)
    rules = taken.get("structured_outputs")
    if rules is None:
        return
    used = [key for key in ("json", "regex", "choice", "grammar", "json_object") if rules.get(key) is not None]
    if len(used) > 1:
        yield Question("R-FORMAT-2", "structured_outputs", "structured_outputs:several", must=True)
    elif not used:
        yield Question("R-FORMAT-3", "structured_outputs", "structured_outputs:none")
    elif rules[used[0]] in ("", []):
        yield Question("R-FORMAT-3", "structured_outputs", "structured_outputs:empty")


def _salt(_setup: Setup, _route: Route, _body: dict[str, Json], taken: Taken) -> Iterator[Question]:
    salt = taken.get("cache_salt")
    if salt == "":
        yield Question("R-RANGE-1", "cache_salt", "cache_salt:empty", must=True)
    elif salt is not None and (len(salt) > 128 or any(c in salt for c in "@/\\\0")):
        yield Question("R-RANGE-2", "cache_salt", "cache_salt:unusual")


def _template(setup: Setup, route: Route, body: dict[str, Json], taken: Taken) -> Iterator[Question]:
    if route != "chat":
        return
    if "chat_template" in taken and not setup.trust_template:
        yield Question("R-GATE-1", "chat_template", "chat_template:untrusted", must=True)
    elif taken.get("chat_template") == "":
        yield Question("R-LEN-3", "chat_template", "chat_template:empty")
    kwargs = taken.get("chat_template_kwargs", {})
    if kwargs.get("chat_template") is not None or "tokenize" in kwargs:
        yield Question("R-KWARGS-2", "chat_template_kwargs", "kwargs:names-an-argument")
    elif kwargs.keys() & {"messages", "tools", "documents", "conversation", "continue_final_message"}:
        yield Question("R-KWARGS-2", "chat_template_kwargs", "kwargs:names-a-field")
    if taken.get("continue_final_message"):
        if taken.get("add_generation_prompt"):
            yield Question("R-CONT-2", "continue_final_message", "continue:with-generation-prompt", must=True)
        elif "add_generation_prompt" not in taken:
            yield Question("R-CONT-3", "continue_final_message", "continue:generation-prompt-by-default")
        messages = body.get("messages")
        last = messages[-1] if isinstance(messages, list) and messages else None
        if isinstance(last, dict) and last.get("role") != "assistant":
            yield Question("R-CONT-4", "continue_final_message", "continue:last-is-not-assistant")
    yield from tool_questions(body)


def _xargs(_setup: Setup, _route: Route, _body: dict[str, Json], taken: Taken) -> Iterator[Question]:
    for value in taken.get("vllm_xargs", {}).values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, (dict, list)) or item is None:
                yield Question("R-EXT-1", "vllm_xargs", "vllm_xargs:nested")


def depth(value: Json) -> int:
    """How many arrays and objects are nested in ``value``, without recursion."""
    deepest = 0
    layer = [value]
    while containers := [item for item in layer if isinstance(item, (dict, list))]:
        deepest += 1
        layer = [child for item in containers for child in (item.values() if isinstance(item, dict) else item)]
    return deepest


def _json(_setup: Setup, _route: Route, body: dict[str, Json], _taken: Taken) -> Iterator[Question]:
    text = json.dumps(body)
    if text.count("[") + text.count("{") > DEEP and depth(body) > DEEP:
        yield Question("R-JSON-4", "(body)", "json:deep")
    if "\\ud" in text and _lone_surrogate(text):
        yield Question("R-UNI-2", "(body)", "unicode:lone-surrogate")


def _lone_surrogate(text: str) -> bool:
    try:
        json.loads(text, object_pairs_hook=_encode_all)
    except UnicodeEncodeError:
        return True
    return False


def _encode_all(pairs: list[tuple[str, Any]]) -> None:
    pending: list[Any] = [item for pair in pairs for item in pair]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            item.encode()
        elif isinstance(item, list):
            pending += item


Rule = Callable[[Setup, Route, dict[str, Json], Taken], Iterator[Question]]
RULES: tuple[Rule, ...] = (
    _prompt, _model, _budgets, _stops, _logprobs, _stream, _structure, _salt, _template, _xargs, _json,
)  # fmt: skip
