"""What a case has that the plainest case lacks: the tags among which the cause of a difference is found.

A tag names a class (``budget:beyond-context``, ``convert:string-to-number``) and never a value or a place, so that one
cause has one name wherever it turns up.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from harness.records import Case, Json
from reference.render.fields import field
from reference.render.lower import COLDEST, canonical
from reference.render.messages_check import TEXT_PARTS, arguments_kind
from reference.render.records import Route
from reference.render.validate import budget, validate
from reference.render.values import judge
from suites.render import snippets, texts
from suites.render.ordered import unpack
from suites.render.setups import LEDGER, setups

PLAIN_FIELDS = frozenset({"model", "messages", "prompt"})
ID_FIELDS = frozenset({"stop_token_ids", "allowed_token_ids", "logit_bias"})

SPECIAL: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("temperature", lambda value: value == 0, "temperature:zero"),
    ("temperature", lambda value: 0 < value < COLDEST, "temperature:near-zero"),
    ("seed", lambda value: value == -1, "seed:minus-one"),
    ("thinking_token_budget", lambda value: value == -1, "thinking_token_budget:minus-one"),
    ("stop_token_ids", lambda value: len(set(value)) < len(value), "stop_token_ids:twice"),
)
"""Values that stand for something of their own: field, test, tag."""


MALFORMED = frozenset({"input:malformed"})
KEPT = 512
_kept: OrderedDict[str, frozenset[str]] = OrderedDict()


def features(case: Case) -> frozenset[str]:
    """Tags of a case. Those of the last cases are kept, for a case is asked for its tags several times."""
    found = _kept.get(case.id)
    if found is None:
        try:
            found = _features(case)
        except (KeyError, ValueError, TypeError, AttributeError, IndexError, RecursionError):
            found = MALFORMED  # minimising asks about inputs before it asks whether they are cases at all
        _kept[case.id] = found
        if len(_kept) > KEPT:
            _kept.popitem(last=False)
    return found


def _features(case: Case) -> frozenset[str]:
    given = unpack(case.input)
    found: set[str] = set()
    if given.get("setup") != LEDGER and case.op != "template":
        found.add(f"setup:{given['setup']}")
    if "x-request-id" in (given.get("headers") or {}):
        found.add("header:request-id")
    if "content-type" in (given.get("headers") or {}):
        found.add("content-type:json" if is_json_type(given["headers"]) else "content-type:other")
    if case.op == "template":
        found |= set(_template(given))
    elif case.op == "text":
        found |= set(_text(given))
    elif "body" in given:
        found |= set(_body(given["setup"], route_of(case), given["body"]))
    elif case.op == "health":
        found.add(f"route:{given['method']} {given['path']}")
    return frozenset(found)


def is_json_type(headers: dict[str, str]) -> bool:
    """Whether the headers of a case say that the body is JSON; those of most cases say nothing, and it is."""
    return headers.get("content-type", "application/json").partition(";")[0].strip() == "application/json"


def route_of(case: Case) -> Route:
    """The route that a case goes to."""
    return "completions" if "completions" in (case.op, case.input.get("route")) else "chat"


def _body(setup: str, route: Route, body: Json) -> Iterator[str]:
    checked = validate(setups()[setup], route, body)
    yield from (question.tag for question in checked.questions)
    if not isinstance(body, dict):
        return
    spoken = {question.field for question in checked.questions}
    for name, value in body.items():
        if name in PLAIN_FIELDS or name in spoken:
            continue
        rules = field(name, route)
        if rules is None:
            if name not in ("tools", "tool_choice"):
                yield "field:unknown"
        elif value is None or (rules.lowered and canonical(rules.lowered, checked.taken.get(name)) is None):
            if not judge(name, rules, value)[1]:
                yield "field:default"
        elif name in ("max_tokens", "max_completion_tokens"):
            if "budget" not in spoken:
                yield from _budget(setup, checked.taken, name)
        elif not judge(name, rules, value)[1] and not (name in ID_FIELDS and "(token ids)" in spoken):
            taken = checked.taken[name]
            state = "set" if taken not in ([], {}, "") else "empty"
            yield next((tag for which, test, tag in SPECIAL if which == name and test(taken)), f"{name}:{state}")
    yield from _tools(body)
    kwargs = body.get("chat_template_kwargs")
    if isinstance(kwargs, dict) and route == "chat":
        yield from (
            f"kwargs:{key}" for key in kwargs if key in ("add_generation_prompt", "bos_token", "enable_thinking")
        )
        if "note" in kwargs:
            yield from ("snippet:tojson", *snippets.kinds(kwargs["note"]))
    if route == "chat":
        yield from _messages(body.get("messages"))
    else:
        yield from _prompt(body.get("prompt"))


def _budget(setup: str, taken: dict[str, Any], name: str) -> Iterator[str]:
    most = budget(taken)
    if most is None or not 0 < most <= setups()[setup].max_model_len:
        return
    # The room that a prompt leaves is not known here; a budget near the context's length may be beyond it.
    yield "budget:near-context" if most > setups()[setup].max_model_len // 2 else f"{name}:set"


def _messages(messages: Json) -> Iterator[str]:
    if not isinstance(messages, list):
        return
    if len(messages) > 1:
        yield "messages:several"
    for message in messages:
        if not isinstance(message, dict):
            continue
        role = message.get("role")
        if role in ("system", "developer", "assistant", "tool"):
            yield f"role:{role}"
        yield from _content(role, message.get("content"))
        for key in ("name", "reasoning", "reasoning_content", "refusal"):
            if isinstance(message.get(key), str):
                yield f"message:{key}"
        if isinstance(message.get("tool_calls"), list):
            yield from _calls(role, message["tool_calls"])
            if role == "assistant" and message["tool_calls"] and message.get("content") in (None, []):
                yield "content:none-beside-calls"
        if set(message) - {
            "role",
            "content",
            "name",
            "tool_calls",
            "tool_call_id",
            "reasoning",
            "reasoning_content",
            "refusal",
        }:
            yield "message:unknown-field"


def _content(role: Json, content: Json) -> Iterator[str]:
    if isinstance(content, str):
        yield from texts.classes(content)
    elif isinstance(content, list) and content:
        several = len(content) > 1
        yield "content:parts" if several else "content:one-part"
        if several and role != "user":
            yield f"parts:{role}"
        for part in content:
            if isinstance(part, dict):
                text = part.get(TEXT_PARTS.get(str(part.get("type")), "text"))
                if text == "":
                    yield "part:empty-between" if len(content) > 2 else "part:empty-beside" if several else "part:empty"
                if isinstance(text, str):
                    yield from texts.classes(text)
                if set(part) - {"type", "text", *TEXT_PARTS.values()}:
                    yield "part:unknown-field"


def _calls(role: Json, calls: list[Json]) -> Iterator[str]:
    if not calls:
        yield "calls:empty"
    elif role != "assistant":
        yield "calls:not-on-assistant"
    else:
        yield "calls:set"
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if not isinstance(arguments, str):
            continue
        kind = arguments_kind(arguments)
        if kind == "object":
            if not json.loads(arguments):
                continue  # an empty object reads the same, however it is printed
            yield from ("snippet:tojson", *(snippets.kinds(json.loads(arguments)) - {"value:container", "value:word"}))
        elif kind not in ("broken", "nan", "surrogate"):
            yield f"arguments:{kind}"


def _tools(body: dict[str, Json]) -> Iterator[str]:
    tools = body.get("tools")
    if not isinstance(tools, list) or not tools:
        return
    yield from ("tools:set", "snippet:tojson")
    for tool in tools:
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict):
            continue
        if not {"name", "description", "parameters"} <= set(function):
            yield "tool:missing-fields"
        if set(function) - {"name", "description", "parameters"} or set(tool) - {"type", "function"}:
            yield "tool:unknown-field"
        order = [key for key in function if key in ("name", "description", "parameters")]
        if order != [key for key in ("name", "description", "parameters") if key in function] or list(tool)[:1] != [
            "type"
        ]:
            yield "tool:order"
        if isinstance(function.get("parameters"), dict):
            yield from snippets.kinds(function["parameters"]) - {"value:container", "value:word"}


def _prompt(prompt: Json) -> Iterator[str]:
    if isinstance(prompt, str):
        yield from texts.classes(prompt)
    elif isinstance(prompt, list) and prompt and all(isinstance(item, int) for item in prompt):
        yield "prompt:ids"
        if any(isinstance(item, int) and 1000 <= item < 1024 for item in prompt):
            yield "prompt-ids:padding-row"
        if len(prompt) > 200:
            yield (
                "prompt:long"
                if len(prompt) < 512
                else "prompt:fills-context"
                if len(prompt) == 512
                else "prompt:too-long"
            )


def _template(given: dict[str, Json]) -> Iterator[str]:
    listed = [source for source in given["snippets"] if source != snippets.PLAIN]
    for source in listed:
        name = snippets.NAMES.get(source, "unknown")
        yield from snippets.TAGS.get(name, (f"snippet:{name}",))
    printing = (name for name in map(snippets.NAMES.get, listed) if name in snippets.TAKES_VALUE)
    if not all(str(name).startswith(snippets.TESTS) for name in printing):
        yield from snippets.kinds(given["variables"].get("v"))
    for message in given["messages"]:
        yield from texts.classes(str(message.get("content", "")))
    if [m["role"] for m in given["messages"]] != ["user", "assistant"]:
        yield "messages:other"
    yield from (f"{key}:set" for key in ("tools", "documents", "add_generation_prompt") if key in given)


def json_problem(text: str) -> str:
    """Class of a body below the level of a JSON library; nothing for one that RFC 8259 allows without remark."""
    if text.startswith("\ufeff"):
        return "json:byte-order-mark"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "json:invalid"
    constants: list[str] = []
    doubles: list[bool] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        doubles.append(len({key for key, _ in items}) < len(items))
        return dict(items)

    json.loads(text, parse_constant=constants.append, object_pairs_hook=pairs)
    if constants:
        return "json:constant"
    if any(doubles):
        return "json:duplicate-name-top" if doubles[-1] else "json:duplicate-name"
    if isinstance(value, dict) and re.search(r": ?-0[,}]", text):
        return "json:minus-zero"
    if "e400" in text:
        return "json:number-beyond-double"
    return ""


def _text(given: dict[str, Json]) -> Iterator[str]:
    if "hex" in given:
        yield "json:not-utf-8"
        return
    text = given["text"]
    problem = json_problem(text)
    if problem:
        yield problem
    if problem not in ("json:invalid", "json:constant", "json:byte-order-mark"):
        yield from _body(given["setup"], "chat", json.loads(text))
