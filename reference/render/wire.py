"""JSON bodies as vLLM's render routes give them, made from the results of the stages. Pure: no socket, no clock.

Shapes: vLLM's documentation of the render routes (a chat gives one engine request, a completion a list of them), the
OpenAI API reference for ``/v1/models`` and for error objects.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import msgspec

from reference.render.lower import TOP_LEVEL, lower
from reference.render.pipeline import evaluate
from reference.render.records import Evaluation, Json, Param, Question, Refusal, Rendering, Route, Setup

ROUTES: dict[str, Route] = {"/v1/chat/completions/render": "chat", "/v1/completions/render": "completions"}
PREFIX: dict[Route, str] = {"chat": "chatcmpl-", "completions": "cmpl-"}


class Policy(msgspec.Struct, frozen=True):
    """How a server that follows the contract decides what is open. The default is the reference's own way.

    ``picks`` names an option for a choice, ``refuses`` the tags of open questions that are refused, ``values`` the
    index of the admissible value of an engine field.
    """

    picks: Mapping[str, str] = {}
    refuses: frozenset[str] = frozenset()
    values: Mapping[str, int] = {}


class Reply(msgspec.Struct, frozen=True):
    """Status and JSON body of an answer."""

    status: int
    body: Json


def error(status: int, kind: str, message: str, param: str | None = None) -> Reply:
    """Make an error object (OpenAI API reference, errors: message, type, param, code)."""
    return Reply(status, {"error": {"message": message, "type": kind, "param": param, "code": status}})


def bad_request(message: str, param: str | None = None) -> Reply:
    """Make the refusal of a request that is at fault itself."""
    return error(400, "BadRequestError", message, param)


def reply(setup: Setup, method: str, path: str, body: bytes, headers: Mapping[str, str], policy: Policy) -> Reply:
    """Answer one HTTP request. Header names are lower case."""
    if path in ("/health", "/ping"):
        return Reply(200, None)
    if path == "/v1/models":
        return models(setup)
    route = ROUTES.get(path)
    if route is None or method != "POST":
        return error(404, "NotFoundError", f"there is no {method} {path} here")
    try:
        parsed = parse(body)
    except ValueError as problem:
        return bad_request(f"the body is not JSON: {problem}")
    return render(setup, route, parsed, headers, policy)


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is no JSON value")


def parse(body: bytes) -> Json:
    """Read a body as RFC 8259 has it: UTF-8, no NaN or Infinity, nothing after the value.

    Raises ValueError (also for nesting that this reader cannot follow).
    """
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def models(setup: Setup) -> Reply:
    """List the one model that is served."""
    card = {
        "id": setup.served, "object": "model", "created": 0, "owned_by": "afere", "root": str(setup.folder),
        "parent": None, "max_model_len": setup.max_model_len,
    }  # fmt: skip
    return Reply(200, {"object": "list", "data": [card]})


def render(setup: Setup, route: Route, body: Json, headers: Mapping[str, str], policy: Policy) -> Reply:
    """Render a request body that was JSON."""
    found = evaluate(setup, route, body)
    refusing = [q for q in found.checked.questions if q.must or q.tag in policy.refuses]
    if refusing:
        return _refuse(refusing)
    if found.unrendered:
        return bad_request(f"not supported: {found.unrendered}")
    requests: list[Json] = []
    for index, combinations in enumerate(found.results):
        made = _chosen(combinations, policy)
        if isinstance(made, Refusal):
            return bad_request(made.message)
        identity = PREFIX[route] + _identity(body, headers) + (f"-{index}" if len(found.results) > 1 else "")
        requests.append(_engine_request(setup, found, made, identity, policy))
    return Reply(200, requests[0] if route == "chat" else requests)


def _refuse(questions: list[Question]) -> Reply:
    first = questions[0]
    if first.tag == "model:unknown":
        return error(404, "NotFoundError", "there is no such model here", "model")
    return bad_request(f"{first.field}: {first.tag} ({first.clause})", first.field)


def _chosen(combinations: tuple[Rendering | Refusal, ...], policy: Policy) -> Rendering | Refusal:
    for made in combinations:
        if all(policy.picks.get(name, option) == option for name, option in made.choices.items()):
            return made
    return combinations[0]


def _identity(body: Json, headers: Mapping[str, str]) -> str:
    given = headers.get("x-request-id") or body.get("request_id")
    return str(given) if given else hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]


def _engine_request(setup: Setup, found: Evaluation, made: Rendering, identity: str, policy: Policy) -> Json:
    params = lower(setup, found.checked, len(made.token_ids))
    values = {param.name: _value(param, policy) for param in params}
    return {
        "request_id": identity,
        "model": found.checked.taken.get("model") or setup.served,
        "token_ids": list(made.token_ids),
        "sampling_params": {k: v for k, v in values.items() if k not in TOP_LEVEL and v is not None},
        **{name: TOP_LEVEL[name] if values[name] is None else values[name] for name in TOP_LEVEL},
    }


def _value(param: Param, policy: Policy) -> Json:
    return param.values[min(policy.values.get(param.name, 0), len(param.values) - 1)]
