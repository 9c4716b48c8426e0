"""The choices that a request touches: where no source fixes what a renderer does, and what it may do there.

The answers of a target are explained by the combination of options that gives its token ids. So one cause is blamed on
the clause of its choice, and never on "the tokens differ".
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from reference.render.messages_check import TEXT_PARTS, arguments_kind
from reference.render.records import Choice, Json, Setup

PARTS = Choice("parts.join", "R-JOIN-1", ("newline", "nothing", "space"))
EMPTY_PART = Choice("parts.empty", "R-JOIN-3", ("skipped", "kept"))
STRING = Choice("content.string", "R-CONTENT-5", ("one-part", "string"))
NULL = Choice("content.null", "R-CONTENT-4", ("empty", "none", "absent"))
NULL_PARTS = Choice("content.null", "R-CONTENT-4", ("no-part", "empty-part", "empty", "none", "absent"))
TOOL_PARTS = Choice("tool.parts", "R-CONTENT-6", ("joined", "parts", "string"))
DEVELOPER = Choice("role.developer", "R-ROLE-1", ("system-merged", "kept", "system"))
NAME = Choice("message.name", "R-NAME-1", ("passed", "dropped"))
EXTRA = Choice("message.extra", "R-MSG-2", ("dropped", "passed"))
REASONING = Choice("message.reasoning", "R-REASON-1", ("both-names", "as-given", "dropped"))
ARGUMENTS = Choice("call.arguments", "R-CALL-2", ("empty-object", "value", "text"))
BIG = Choice("call.big-number", "R-CALL-5", ("exact", "rounded"))
TOOL_FILL = Choice("tool.missing", "R-TOOL-4", ("null", "absent"))
TOOL_EXTRA = Choice("tool.extra", "R-TOOL-7", ("passed", "dropped"))
TOOL_ORDER = Choice("tool.order", "R-TOOL-8", ("schema", "given"))
PRECEDENCE = Choice("kwargs.precedence", "R-KWARGS-3", ("request", "kwargs"))
SPECIAL = Choice("kwargs.special-token", "R-KWARGS-4", ("kwargs", "model"))
EFFORT = Choice("effort.thinking", "R-EFFORT-1", ("set", "unset"))
ASSISTANT_PARTS = Choice("assistant.parts", "R-CONTENT-7", ("apart", "joined"))
SIDE = Choice("truncate.side", "R-TRUNC-2", ("left", "right", "left-after-special", "right-before-special"))

TOOL_KEYS = ("type", "function")
FUNCTION_KEYS = ("name", "description", "parameters")
REQUEST_KWARGS = ("add_generation_prompt", "reasoning_effort", "enable_thinking")
SPECIAL_TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")

MOST = 96
"""More combinations than this are not tried: a request that touches so many choices tells causes apart for nobody."""


@cache
def knows_developer(template: str) -> bool:
    """Whether a template speaks of the role ``developer``: only then can it be expected to take it."""
    return re.search(r"""["']developer["']""", template) is not None


def touched(setup: Setup, route: str, body: dict[str, Json]) -> tuple[Choice, ...]:
    """The choices that bear on the tokens of this request, in a fixed order and each once."""
    found = _chat(setup, body) if route == "chat" else ()
    cut = body.get("truncate_prompt_tokens") is not None and body.get("truncation_side") is None
    return tuple(dict.fromkeys([*found, *((SIDE,) if cut else ())]))


def combinations(choices: tuple[Choice, ...]) -> Iterator[dict[str, str]]:
    """Every combination of options, ours first. Nothing is yielded where there are more than :data:`MOST`."""
    count = 1
    for choice in choices:
        count *= len(choice.options)
    if count > MOST:
        return
    names = [choice.name for choice in choices]
    for options in itertools.product(*(choice.options for choice in choices)):
        yield dict(zip(names, options, strict=True))


def _chat(setup: Setup, body: dict[str, Json]) -> Iterator[Choice]:
    template = body.get("chat_template") or setup.template
    listed = body.get("messages")
    messages = listed if isinstance(listed, list) else []
    for message in messages:
        if isinstance(message, dict):
            yield from _message(setup, template, message)
    yield from _tools(body)
    kwargs = body.get("chat_template_kwargs")
    if isinstance(kwargs, dict):
        if any(key in kwargs for key in REQUEST_KWARGS):
            yield PRECEDENCE
        if any(key in kwargs for key in SPECIAL_TOKENS):
            yield SPECIAL
    if body.get("reasoning_effort") is not None:
        yield EFFORT


def _message(setup: Setup, template: str, message: dict[str, Json]) -> Iterator[Choice]:
    role, content = message.get("role"), message.get("content")
    parts = setup.content_format == "openai"
    if role == "developer" and not knows_developer(template):
        yield DEVELOPER
    if isinstance(message.get("name"), str):
        yield NAME
    if content is None or content == []:
        yield NULL_PARTS if parts else NULL
    elif isinstance(content, list):
        yield from _parts(parts, role, content)
    elif parts:
        yield TOOL_PARTS if role == "tool" else STRING
    yield from _extras(role, message)


def _parts(parts: bool, role: Json, content: list[Json]) -> Iterator[Choice]:  # noqa: FBT001
    if parts and role == "tool":
        yield TOOL_PARTS
        yield PARTS
    if parts and role == "assistant" and len(content) > 1:
        yield ASSISTANT_PARTS
    if not parts and len(content) > 1:
        texts = [part_text(part) for part in content]
        yield PARTS
        if any(text == "" for text in texts):
            yield EMPTY_PART


def part_text(part: Json) -> str:
    """The text that a part carries; nothing for a part without text."""
    if isinstance(part, str):
        return part
    kind = part.get("type", "text") if isinstance(part, dict) else "text"
    key = TEXT_PARTS.get(kind, "text") if isinstance(kind, str) else "text"
    text = part.get(key) if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


def _extras(role: Json, message: dict[str, Json]) -> Iterator[Choice]:
    thinking = message.get("reasoning") or message.get("reasoning_content")
    if thinking:
        yield REASONING if role == "assistant" else EXTRA
    if message.get("tool_calls") and role != "assistant":
        yield EXTRA
    if message.get("tool_call_id") is not None and role != "tool":
        yield EXTRA
    if role == "assistant" and isinstance(message.get("tool_calls"), list):
        for call in message["tool_calls"]:
            function = call.get("function") if isinstance(call, dict) else None
            if not isinstance(function, dict):
                continue
            arguments: Any = function.get("arguments")
            kind = arguments_kind(arguments) if isinstance(arguments, str) else "none"
            if kind in ("not-object", "broken", "nan", "surrogate"):
                yield ARGUMENTS
            elif kind == "big-number":
                yield BIG


def _tools(body: dict[str, Json]) -> Iterator[Choice]:
    for tool in body.get("tools") or []:
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict):
            continue
        if "type" not in tool or any(key not in function for key in FUNCTION_KEYS):
            yield TOOL_FILL
        if set(tool) - set(TOOL_KEYS) or set(function) - set(FUNCTION_KEYS):
            yield TOOL_EXTRA
        orders = ((tool, TOOL_KEYS), (function, FUNCTION_KEYS))
        if any([k for k in given if k in keys] != [k for k in keys if k in given] for given, keys in orders):
            yield TOOL_ORDER
