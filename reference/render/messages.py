"""Stage 2, normalise: messages, tools and variables as the template gets them, under one combination of choices.

What is not a choice is fixed by the transformers documentation of chat templates (messages are dictionaries in the
request's order; the arguments of a tool call are a dictionary, not its text) and the OpenAI API reference.
"""

from __future__ import annotations

import json
from typing import Any

from reference.render.choices import (
    FUNCTION_KEYS,
    REQUEST_KWARGS,
    SPECIAL_TOKENS,
    TOOL_KEYS,
    part_text,
)  # fmt: skip
from reference.render.messages_check import arguments_kind
from reference.render.records import Json, Normalised, Setup

Pick = dict[str, str]
JOINTS = {"newline": "\n", "nothing": "", "space": " "}


def normalise(setup: Setup, body: dict[str, Json], pick: Pick) -> Normalised:
    """Normalise a chat request. ``pick`` names an option for each choice that the request touches.

    The body must have passed validation; nothing is refused here.
    """
    messages = [_message(setup, message, pick) for message in body["messages"]]
    if pick.get("role.developer") in ("system", "system-merged"):
        messages = _developer_to_system(messages, merge=pick["role.developer"] == "system-merged")
    tools = [_tool(tool, pick) for tool in body["tools"]] if body.get("tools") else None
    continues = bool(body.get("continue_final_message"))
    generate = body.get("add_generation_prompt")
    variables, add = _variables(body, pick, add=(not continues) if generate is None else bool(generate))
    return Normalised(messages, tools, body.get("documents"), variables, add, continues)


def _variables(body: dict[str, Json], pick: Pick, *, add: bool) -> tuple[dict[str, Json], bool]:
    """The template's further variables, and whether to add the generation prompt."""
    given = dict(body.get("chat_template_kwargs") or {})
    for key in (
        "chat_template",
        "tokenize",
        "messages",
        "tools",
        "documents",
        "conversation",
        "continue_final_message",
    ):
        given.pop(key, None)
    if pick.get("kwargs.special-token") == "model":
        given = {key: value for key, value in given.items() if key not in SPECIAL_TOKENS}
    own: dict[str, Json] = {"add_generation_prompt": add}
    effort = body.get("reasoning_effort")
    if effort is not None:
        own["reasoning_effort"] = effort
        if pick.get("effort.thinking") != "unset":
            own["enable_thinking"] = effort != "none"
    if "enable_thinking" in given:
        own.pop("enable_thinking", None)
    merged = {**own, **given} if pick.get("kwargs.precedence") == "kwargs" else {**given, **own}
    merged = {key: value for key, value in merged.items() if key not in REQUEST_KWARGS or value is not None}
    return merged, bool(merged.pop("add_generation_prompt", add))


def _message(setup: Setup, message: dict[str, Json], pick: Pick) -> dict[str, Json]:
    role = message["role"]
    found: dict[str, Json] = {"role": role}
    content = _content(setup, message, pick)
    if content is not ABSENT:
        found["content"] = content
    passed = pick.get("message.extra") == "passed"
    if message.get("tool_calls") and (role == "assistant" or passed):
        found["tool_calls"] = [_call(call, pick) for call in message["tool_calls"]]
    if message.get("tool_call_id") is not None and (role == "tool" or passed):
        found["tool_call_id"] = message["tool_call_id"]
    if isinstance(message.get("name"), str) and pick.get("message.name") != "dropped":
        found["name"] = message["name"]
    thinking = message.get("reasoning") or message.get("reasoning_content")
    if thinking and role == "assistant" and pick.get("message.reasoning") == "as-given":
        found |= {k: message[k] for k in ("reasoning", "reasoning_content") if message.get(k)}
    elif thinking and (passed or (role == "assistant" and pick.get("message.reasoning") != "dropped")):
        found |= {"reasoning": thinking, "reasoning_content": thinking}
    return found


ABSENT: Any = object()
_NULLS: dict[str, Json] = {"empty": "", "none": None, "absent": ABSENT, "no-part": []}


def _content(setup: Setup, message: dict[str, Json], pick: Pick) -> Json:
    content, role = message.get("content"), message["role"]
    if content is None or content == []:
        option = pick.get("content.null", "empty")
        return [{"type": "text", "text": ""}] if option == "empty-part" else _NULLS[option]
    if setup.content_format == "openai":
        return _parts(role, content, pick)
    if isinstance(content, str):
        return content
    texts = [part_text(part) for part in content]
    if pick.get("parts.empty", "skipped") == "skipped" and len(texts) > 1:
        texts = [text for text in texts if text]
    return JOINTS[pick.get("parts.join", "newline")].join(texts)


def _parts(role: Json, content: Json, pick: Pick) -> Json:
    if isinstance(content, str):
        option = pick.get("tool.parts" if role == "tool" else "content.string", "one-part")
        return content if option in ("string", "joined") else [{"type": "text", "text": content}]
    if role == "tool" and pick.get("tool.parts", "joined") in ("joined", "string"):
        return JOINTS[pick.get("parts.join", "newline")].join(part_text(part) for part in content)
    texts = [part_text(part) for part in content]
    if role == "assistant" and pick.get("assistant.parts") == "joined":
        texts = ["".join(texts)]
    return [{"type": "text", "text": text} for text in texts]


def _developer_to_system(messages: list[dict[str, Json]], *, merge: bool) -> list[dict[str, Json]]:
    renamed = [{**m, "role": "system"} if m["role"] == "developer" else m for m in messages]
    systems = [m for m in renamed if m["role"] == "system"]
    if not merge or renamed[: len(systems)] == systems[:1]:
        return renamed
    texts = [_text(m.get("content")) for m in systems]
    merged = {"role": "system", "content": "\n\n".join(text for text in texts if text)}
    return [merged, *(m for m in renamed if m["role"] != "system")]


def _text(content: Json) -> str:
    if isinstance(content, list):
        return "\n".join(part_text(part) for part in content)
    return content or ""


def _call(call: dict[str, Json], pick: Pick) -> dict[str, Json]:
    function = call.get("function")
    if not isinstance(function, dict):
        return dict(call)
    return {**call, "function": {**function, "arguments": _arguments(function.get("arguments"), pick)}}


def _arguments(given: Json, pick: Pick) -> Json:
    """The arguments as a dictionary (transformers documentation, tool use: not as text)."""
    if not isinstance(given, str):
        return given if given is not None else {}
    kind = arguments_kind(given)
    if kind == "empty":
        return {}
    if kind in ("object", "big-number"):
        value = json.loads(given)
        return _rounded(value) if pick.get("call.big-number") == "rounded" else value
    option = pick.get("call.arguments", "empty-object")
    if option == "text":
        return given
    if option == "value" and kind != "broken":
        return json.loads(given)
    return {}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        return float(value)
    return value


def _tool(tool: dict[str, Json], pick: Pick) -> dict[str, Json]:
    function = tool["function"]
    shaped = _shape(function, FUNCTION_KEYS, pick, {"description": None, "parameters": None})
    outer = {key: shaped if key == "function" else value for key, value in tool.items()}
    return _shape(outer, TOOL_KEYS, pick, {"type": "function"})


def _shape(given: dict[str, Json], keys: tuple[str, ...], pick: Pick, missing: dict[str, Json]) -> dict[str, Json]:
    values = dict(given)
    if pick.get("tool.missing", "null") == "null":
        values = {**values, **{key: value for key, value in missing.items() if key not in values}}
    extras = [] if pick.get("tool.extra") == "dropped" else [key for key in values if key not in keys]
    if pick.get("tool.order") == "given":
        order = [key for key in values if key in keys or key in extras]
    else:
        order = [*(key for key in keys if key in values), *extras]
    return {key: values[key] for key in order}
