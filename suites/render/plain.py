"""Which requests a template library can render by itself, and what it is handed for them.

A library has no routes, limits or sampling parameters, and refuses nothing of its own. So it is asked only what the
reference answers without any question, and what is about messages and text alone; all else is for servers.
"""

from __future__ import annotations

import json
from typing import Any

from harness.records import Case, Json
from reference.render.choices import part_text
from reference.render.records import Rendering, Setup
from suites.render.ordered import unpack
from suites.render.setups import setups

MESSAGES, CONTINUES, TEXT = "chat:messages", "chat:continue", "completions:text"
CAPABILITIES = (MESSAGES, CONTINUES, TEXT)
"""Of whoever renders plain requests: messages to tokens, the last message left open, a prompt's text to tokens."""

FIELDS: dict[str, frozenset[str]] = {
    "chat": frozenset({
        "model", "messages", "tools", "tool_choice", "documents", "chat_template_kwargs", "reasoning_effort",
        "add_generation_prompt", "continue_final_message", "add_special_tokens",
    }),
    "completions": frozenset({"model", "prompt", "add_special_tokens"}),
}  # fmt: skip
"""Fields that are about the text of a prompt."""


def needed(case: Case) -> frozenset[str]:
    """The capabilities that a request calls for, beside its set-up: those of a library, or else the whole operation."""
    if case.op not in FIELDS or not _plain(case.op, case.input):
        return frozenset({case.op})
    if case.op == "completions":
        return frozenset({TEXT})
    continues = bool(unpack(case.input["body"]).get("continue_final_message"))
    return frozenset({MESSAGES, CONTINUES}) if continues else frozenset({MESSAGES})


def _plain(op: str, given: dict[str, Json]) -> bool:
    body = unpack(given["body"])
    if given.get("headers") or not isinstance(body, dict) or set(body) - FIELDS[op]:
        return False
    if op == "completions" and not isinstance(body.get("prompt"), str):
        return False
    from reference.render.pipeline import evaluate  # brings the template engine along, which only a run needs

    found = evaluate(setups()[given["setup"]], "chat" if op == "chat" else "completions", body)
    made = [one for result in found.results for one in result]
    return not found.checked.questions and bool(made) and all(isinstance(one, Rendering) for one in made)


# ---- what a library is handed


def handed(setup: Setup, body: dict[str, Json]) -> dict[str, Any]:
    """Arguments for a template library: ``messages``, ``tools``, ``documents``, the two switches, ``variables``.

    What libraries ask of their callers is done, and nothing else: the arguments of a tool call are a mapping, and a
    template that takes text gets text. All else is handed on as the request has it.
    """
    given = dict(body.get("chat_template_kwargs") or {})
    continues = bool(body.get("continue_final_message"))
    add = body.get("add_generation_prompt")
    own = {"add_generation_prompt": not continues if add is None else add}
    if body.get("reasoning_effort") is not None:
        own["reasoning_effort"] = body["reasoning_effort"]
    variables = {**own, **given}
    return {
        "messages": [_message(setup, message) for message in body["messages"]],
        "tools": body.get("tools"),
        "documents": body.get("documents"),
        "add_generation_prompt": bool(variables.pop("add_generation_prompt")),
        "continue_final_message": continues,
        "variables": variables,
    }


def _message(setup: Setup, message: dict[str, Json]) -> dict[str, Json]:
    content = message.get("content")
    if isinstance(content, list) and setup.content_format == "string":
        content = "\n".join(part_text(part) for part in content)
    found = {**message, "content": content}
    if message.get("tool_calls"):
        found["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    return found


def _call(call: dict[str, Json]) -> dict[str, Json]:
    function = call["function"]
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        arguments = json.loads(arguments or "{}")
    return {**call, "function": {**function, "arguments": arguments}}
