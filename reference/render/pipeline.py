"""The five stages in a row, for every admissible combination of choices."""

from __future__ import annotations

import json
from collections import OrderedDict

from reference.render import choices, template, tokenise
from reference.render.messages import normalise
from reference.render.records import Evaluation, Json, Refusal, Rendering, Route, Setup
from reference.render.validate import validate

UNRENDERED = {
    "call:not-function": "a tool call that is not a function call",
    "call:no-id": "a tool call without an id",
    "call:no-type": "a tool call without a type",
    "tool:not-function": "a tool that is not a function",
    "tool:parameters-not-object": "a tool whose parameters are no schema",
    "unicode:lone-surrogate": "text that UTF-8 cannot hold",
    "kwargs:names-a-field": "template arguments that take the name of a field of the request",
    "reasoning:not-string": "reasoning that is no text",
    "prompt:empty": "an empty prompt",
    "chat_template:empty": "an empty template",
    "truncate:zero": "a prompt cut to nothing",
}
"""Open questions after which the reference has no opinion of the tokens: nothing says what answering would mean."""


KEPT = 512
"""Evaluations that are kept: one request is judged on several targets, and again while it is made smaller."""

_kept: OrderedDict[tuple[str, str, str, str], Evaluation] = OrderedDict()


def evaluate(setup: Setup, route: Route, body: Json) -> Evaluation:
    """Put a request body through all stages. Raises nothing for any JSON value.

    The result is shared between calls: do not change what is in it.

    Raises :class:`reference.render.records.RenderError` for a broken set-up.
    """
    key = (setup.name, setup.content_format, route, json.dumps(body))
    found = _kept.get(key)
    if found is None:
        found = _kept[key] = _evaluate(setup, route, body)
        if len(_kept) > KEPT:
            _kept.popitem(last=False)
    return found


def _evaluate(setup: Setup, route: Route, body: Json) -> Evaluation:
    checked = validate(setup, route, body)
    if checked.refused:
        return Evaluation(checked)
    why = [UNRENDERED[q.tag] for q in checked.open if q.tag in UNRENDERED]
    if why:
        return Evaluation(checked, unrendered=why[0])
    effective = checked.effective
    asked = choices.touched(setup, route, effective)
    combinations = tuple(choices.combinations(asked))
    if not combinations:
        return Evaluation(checked, asked, unrendered="it touches too many open choices at once")
    results: tuple[tuple[Rendering | Refusal, ...], ...]
    if route == "chat":
        results = (tuple(chat(setup, effective, pick) for pick in combinations),)
    else:
        results = tuple(
            tuple(complete(setup, effective, prompt, pick) for pick in combinations)
            for prompt in prompts(effective["prompt"])
        )
    return Evaluation(checked, asked, results)


def prompts(prompt: Json) -> list[Json]:
    """Split the ``prompt`` of a completion into single prompts: a text, or a list of token ids, each."""
    if isinstance(prompt, str):
        return [prompt]
    return list(prompt) if prompt and all(isinstance(item, (str, list)) for item in prompt) else [prompt]


def chat(setup: Setup, body: dict[str, Json], pick: dict[str, str]) -> Rendering | Refusal:
    """Normalise, template and tokenise a chat request under one combination of choices."""
    given = normalise(setup, body, pick)
    source = body.get("chat_template") if setup.trust_template else None
    try:
        text = template.apply(setup, given, source)
    except template.TemplateRefused as error:
        return Refusal("R-TMPL-3", str(error), pick)
    return _tokenised(setup, text, body, pick, special=bool(body.get("add_special_tokens", False)))


def complete(setup: Setup, body: dict[str, Json], prompt: Json, pick: dict[str, str]) -> Rendering | Refusal:
    """Tokenise one prompt of a completion under one combination of choices."""
    if isinstance(prompt, str):
        return _tokenised(setup, prompt, body, pick, special=bool(body.get("add_special_tokens", True)))
    ids = tuple(int(item) for item in prompt)
    return _measured(setup, None, tokenise.truncate(setup, None, ids, body, _side(body, pick)), pick)


def _tokenised(
    setup: Setup, text: str, body: dict[str, Json], pick: dict[str, str], *, special: bool
) -> Rendering | Refusal:
    try:
        ids = tokenise.encode(setup, text, special=special)
    except UnicodeEncodeError as error:
        return Refusal("R-UNI-2", str(error), pick)
    return _measured(setup, text, tokenise.truncate(setup, text, ids, body, _side(body, pick)), pick)


def _side(body: dict[str, Json], pick: dict[str, str]) -> str:
    return str(body.get("truncation_side") or pick.get("truncate.side", "left"))


def _measured(setup: Setup, text: str | None, ids: tuple[int, ...], pick: dict[str, str]) -> Rendering | Refusal:
    if len(ids) > setup.max_model_len:
        return Refusal("R-LEN-1", f"{len(ids)} tokens, the context holds {setup.max_model_len}", pick)
    if len(ids) == setup.max_model_len:
        return Refusal("R-LEN-2", "the prompt leaves no room for an answer", pick)
    if not ids:
        return Refusal("R-LEN-3", "no token at all", pick)
    return Rendering(pick, text, ids)
