"""What planted faults and honest variants are made of: the reference in this process, changed at one place."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from harness.outcome import Outcome
from harness.records import Case, Json
from harness.targets.base import Answer, Blobs, Hello
from harness.targets.http import outcome_of
from reference.render import template, tokenise
from reference.render.pipeline import evaluate
from reference.render.records import Evaluation, Refusal, Route, Setup
from reference.render.wire import ROUTES, Policy, Reply, parse, reply
from suites.render import plain
from suites.render.judge_template import normalised, source_of
from suites.render.ordered import unpack
from suites.render.requests import request_of, setup_of
from suites.render.setups import plain_format, setups

CAPABILITIES = (
    "chat", "completions", "text", "models", "health", "repeat", "template", *plain.CAPABILITIES,
    "setup:ledger", "setup:open",
)  # fmt: skip


class Sent(msgspec.Struct, frozen=True):
    """A request as a hook sees it. ``body`` is None where the bytes are no JSON."""

    setup: Setup
    method: str
    path: str
    headers: dict[str, str]
    data: bytes
    body: Json

    @property
    def route(self) -> Route | None:
        """The render route that it goes to."""
        return ROUTES.get(self.path)

    def evaluation(self) -> Evaluation | None:
        """What the reference says about it."""
        return None if self.route is None or self.body is None else evaluate(self.setup, self.route, self.body)


Before = Callable[[dict[str, Any]], dict[str, Any]]
"""Changes a request body before it is rendered."""
After = Callable[[Sent, Reply], Reply]
"""Changes an answer."""
Text = Callable[[dict[str, Json], str], str]
"""Changes the text of a template case; gets its input."""


class Hooks(msgspec.Struct, frozen=True):
    """Where a planted renderer goes its own way."""

    policy: Policy = Policy()
    before: Before | None = None
    after: After | None = None
    text: Text | None = None
    refuses: Callable[[dict[str, Json]], bool] | None = None  # template cases that it refuses
    lenient: bool = False  # answers template cases that Jinja2 refuses
    tokens: Callable[[Setup, str], list[int]] | None = None  # tokenises in its own way


class Planted:
    """A renderer made of the reference and hooks. It takes every operation, as a server would."""

    transport = "in-process"

    def __init__(self, name: str, hooks: Hooks = Hooks()) -> None:  # noqa: B008 - frozen
        self.name = name
        self._hooks = hooks

    def open(self) -> Hello:
        """Nothing to start."""
        return Hello(CAPABILITIES)

    def close(self) -> None:
        """Nothing to end."""

    def run(self, case: Case, blobs: Blobs) -> Answer:  # noqa: ARG002 - no arrays here
        """Answer one case."""
        if case.op == "template":
            return self._template(case)
        answers = [self._ask(case) for _ in range(2 if case.op == "repeat" else 1)]
        payloads = [{"status": r.status, "headers": {}, "json": r.body} for r in answers]
        payload: Json = {"answers": payloads} if case.op == "repeat" else payloads[0]
        return Answer(outcome_of(answers[0].status), json.loads(json.dumps(payload)))

    def _ask(self, case: Case) -> Reply:
        request = request_of(case)
        setup = setups()[setup_of(case)]
        data = request.body or b""
        try:
            body = parse(data)
        except ValueError:
            body = None
        if self._hooks.before is not None and isinstance(body, dict):
            data = json.dumps(self._hooks.before(json.loads(data))).encode()
        made = reply(setup, request.method, request.path, data, request.headers, self._hooks.policy)
        if self._hooks.tokens is not None:
            made = _retokenised(setup, made, self._hooks.tokens)
        if self._hooks.after is None:
            return made
        return self._hooks.after(Sent(setup, request.method, request.path, request.headers, data, body), made)

    def _template(self, case: Case) -> Answer:
        setup = plain_format(case.input["setup"])
        given = unpack(case.input)
        hooks = self._hooks
        if hooks.refuses is not None and hooks.refuses(given):
            return Answer(Outcome.REFUSED, _payload(400, {"error": {"message": "no", "type": "x", "code": 400}}))
        try:
            text = template.apply(setup, normalised(given), source_of(given))
            text = hooks.text(given, text) if hooks.text is not None else text
        except template.TemplateRefused as error:
            if not hooks.lenient or (str(error).startswith("TemplateError: no") and hooks.text is None):
                body = {"error": {"message": str(error), "type": "BadRequestError", "code": 400}}
                return Answer(Outcome.REFUSED, _payload(400, body))
            text = "something"
        try:
            ids = hooks.tokens(setup, text) if hooks.tokens else list(tokenise.encode(setup, text, special=False))
        except UnicodeEncodeError:
            return Answer(Outcome.REFUSED, _payload(400, {"error": {"message": "text", "type": "x", "code": 400}}))
        if not ids:
            return Answer(Outcome.REFUSED, _payload(400, {"error": {"message": "empty", "type": "x", "code": 400}}))
        return Answer(Outcome.ANSWERED, _payload(200, {"request_id": "chatcmpl-1", "token_ids": ids}))


def _payload(status: int, body: Json) -> Json:
    return {"status": status, "headers": {}, "json": body}


def _retokenised(setup: Setup, made: Reply, tokens: Callable[[Setup, str], list[int]]) -> Reply:
    def again(one: Json) -> Json:
        return {**one, "token_ids": tokens(setup, tokenise.decode(setup, tuple(one["token_ids"])))}

    if made.status != 200 or made.body is None or "data" in made.body:
        return made
    return Reply(200, [again(one) for one in made.body] if isinstance(made.body, list) else again(made.body))


def canned(sent: Sent) -> Reply:
    """An answer to anything: the engine request of the plainest request on the same route."""
    route = sent.route or "chat"
    path = next(p for p, r in ROUTES.items() if r == route)
    body: dict[str, Json] = {"model": sent.setup.served}
    body |= {"prompt": "Hi"} if route == "completions" else {"messages": [{"role": "user", "content": "Hi"}]}
    return reply(sent.setup, "POST", path, json.dumps(body).encode(), {}, Policy())


def lenient(clause: str) -> After:
    """A server that does not look for what ``clause`` refuses: it answers such requests all the same."""

    def after(sent: Sent, made: Reply) -> Reply:
        found = sent.evaluation()
        if found is None or made.status == 200:
            return made
        musts = [q.clause for q in found.checked.refused]
        late = [one.clause for result in found.results for one in result if isinstance(one, Refusal)]
        return canned(sent) if clause in (*musts, *late) else made

    return after


def flipped(clause: str) -> After:
    """A server that decides the open question of ``clause`` the other way than the reference does."""

    def after(sent: Sent, made: Reply) -> Reply:
        found = sent.evaluation()
        if found is None:
            return made
        late = [one.clause for result in found.results for one in result if isinstance(one, Refusal)]
        if clause not in (*(q.clause for q in found.checked.open), *late):
            return made
        if made.status != 200:
            return canned(sent)
        return Reply(400, {"error": {"message": "not here", "type": "BadRequestError", "code": 400}})

    return after


def each(change: Callable[[Sent, dict[str, Any]], dict[str, Any]]) -> After:
    """Change every engine request of an answer."""

    def after(sent: Sent, made: Reply) -> Reply:
        if made.status != 200 or sent.route is None:
            return made
        if isinstance(made.body, list):
            return Reply(200, [change(sent, dict(one)) for one in made.body])
        return Reply(200, change(sent, dict(made.body)))

    return after


def parameters(change: Callable[[dict[str, Any]], dict[str, Any]]) -> After:
    """Change the sampling parameters of every engine request."""
    return each(lambda _sent, one: {**one, "sampling_params": change(dict(one["sampling_params"]))})
