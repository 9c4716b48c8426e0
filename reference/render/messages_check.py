"""The questions that the ``messages`` of a chat request raise.

Shapes are those of the OpenAI API reference, chat/create. Where it leaves a case open, or where it is narrower than
what every server takes, the question is open.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from reference.render.records import Json, Question

KNOWN_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
TEXT_PARTS = {"refusal": "refusal", "thinking": "thinking"}
"""Parts other than ``text`` that carry text, and the key it is under."""
MEDIA_PARTS = frozenset({"image_url", "input_audio", "video_url", "audio_url", "file", "image_embeds"})


def message_questions(body: dict[str, Json]) -> Iterator[Question]:
    """Yield the questions of ``body["messages"]``."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield Question("R-MSG-1", "messages", "messages:none", must=True)
        return
    for message in messages:
        if not isinstance(message, dict):
            yield Question("R-MSG-1", "messages", "message:not-object", must=True)
            continue
        yield from _role(message)
        yield from _content(message)
        yield from _name(message)
        yield from _calls(message)


def _role(message: dict[str, Json]) -> Iterator[Question]:
    role = message.get("role")
    if not isinstance(role, str):
        yield Question("R-MSG-1", "messages.role", "role:not-string", must=True)
    elif role == "function":
        yield Question("R-ROLE-2", "messages.role", "role:function")
    elif role not in KNOWN_ROLES:
        yield Question("R-ROLE-2", "messages.role", "role:unknown")
    if role == "tool" and "tool_call_id" not in message:
        yield Question("R-ROLE-3", "messages.tool_call_id", "tool:no-call-id")
    elif role == "tool" and not isinstance(message["tool_call_id"], str):
        yield Question("R-TYPE-1", "messages.tool_call_id", "type:not-string", must=True)


def has_calls(message: dict[str, Json]) -> bool:
    """Whether a message carries tool calls."""
    return bool(message.get("tool_calls"))


def _content(message: dict[str, Json]) -> Iterator[Question]:
    content = message.get("content")
    if message.get("role") == "assistant" and (content is None or content == []):
        if not has_calls(message):
            yield Question("R-CONTENT-3", "messages.content", "assistant:no-content")
    elif content is None:
        tag = "content:null" if "content" in message else "content:absent"
        yield Question("R-CONTENT-2", "messages.content", tag)
    elif content in ("", []):
        if message.get("role") != "assistant":
            yield Question("R-CONTENT-2", "messages.content", "content:empty")
    elif isinstance(content, list):
        for part in content:
            yield from _part(part)
    elif not isinstance(content, str):
        yield Question("R-CONTENT-1", "messages.content", "content:wrong-type", must=True)


def _part(part: Json) -> Iterator[Question]:
    if isinstance(part, str):
        yield Question("R-PART-1", "messages.content", "part:bare-string")
        return
    if not isinstance(part, dict):
        yield Question("R-CONTENT-1", "messages.content", "part:not-object", must=True)
        return
    kind = part.get("type")
    if kind == "text":
        if not isinstance(part.get("text"), str):
            yield Question("R-CONTENT-1", "messages.content", "part:text-not-string", must=True)
    elif isinstance(kind, str) and kind in TEXT_PARTS:
        if isinstance(part.get(TEXT_PARTS[kind]), str):
            yield Question("R-PART-1", "messages.content", f"part:{kind}")
        else:
            yield Question("R-CONTENT-1", "messages.content", "part:text-not-string", must=True)
    elif isinstance(kind, str) and kind in MEDIA_PARTS:
        yield Question("R-PART-2", "messages.content", "part:media", must=True)
    elif isinstance(kind, str) and kind in ("input_text", "output_text"):
        yield Question("R-PART-1", "messages.content", "part:responses-type")
    elif kind is None and isinstance(part.get("text"), str):
        yield Question("R-PART-1", "messages.content", "part:no-type")
    else:
        yield Question("R-CONTENT-1", "messages.content", "part:unknown-type", must=True)


def _name(message: dict[str, Json]) -> Iterator[Question]:
    if "name" in message and message["name"] is None:
        yield Question("R-NULL-2", "(null)", "null:not-nullable")
    elif "name" in message and not isinstance(message["name"], str):
        yield Question("R-NAME-2", "messages.name", "name:not-string")
    for key in ("reasoning", "reasoning_content"):
        if message.get(key) is not None and not isinstance(message[key], str):
            yield Question("R-REASON-2", "messages.reasoning", "reasoning:not-string")


def _calls(message: dict[str, Json]) -> Iterator[Question]:
    calls = message.get("tool_calls")
    if calls is None or message.get("role") != "assistant":
        return
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        yield Question("R-CALL-6", "messages.tool_calls", "calls:not-array-of-objects", must=True)
        return
    for call in calls:
        for key in ("id", "type"):
            if key not in call:
                yield Question("R-CALL-4", "messages.tool_calls", f"call:no-{key}")
            elif not isinstance(call[key], str):
                yield Question("R-CALL-6", "messages.tool_calls", f"call:{key}-not-string", must=True)
        if call.get("type", "function") != "function":
            yield Question("R-CALL-4", "messages.tool_calls", "call:not-function")
            continue
        function = call.get("function")
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            yield Question("R-CALL-6", "messages.tool_calls", "call:no-function-name", must=True)
            continue
        yield from _arguments(function)


def _arguments(function: dict[str, Json]) -> Iterator[Question]:
    if "arguments" not in function or function["arguments"] is None:
        yield Question("R-CALL-4", "messages.tool_calls", "arguments:missing")
        return
    arguments = function["arguments"]
    if not isinstance(arguments, str):
        yield Question("R-CALL-3", "messages.tool_calls", "arguments:not-string")
        return
    kind = arguments_kind(arguments)
    if kind in ("broken", "nan", "surrogate"):
        yield Question("R-CALL-3", "messages.tool_calls", f"arguments:{kind}")


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def arguments_kind(text: str) -> str:
    """Class of the text of a call's arguments: object, empty, not-object, broken, nan, surrogate, big-number."""
    if not text:
        return "empty"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "broken"
    try:
        json.loads(text, parse_constant=_no_constant)
    except ValueError:
        return "nan"
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "surrogate"
    if not isinstance(value, dict):
        return "not-object"
    return "big-number" if _has_big(value) else "object"


def _has_big(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_big(item) for item in value.values())
    if isinstance(value, list):
        return any(_has_big(item) for item in value)
    return isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64
