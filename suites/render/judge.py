"""Judge the observations of one case under the contract. Pure.

Order of the questions: was it answered at all; may it be; is the answer well formed; are the tokens those of an
admissible rendering, and do the targets choose alike; does the engine request carry the parameters.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from harness.outcome import Outcome, Status
from harness.records import Case, Json, Observation, Verdict
from reference.render.lower import COMPLETION_BUDGET
from reference.render.pipeline import evaluate
from reference.render.records import Evaluation, Question, Refusal, Rendering, Route, Setup
from suites.render.features import features, is_json_type, json_problem, route_of
from suites.render.judge_answer import answer_verdicts, is_library
from suites.render.judge_template import template_verdicts
from suites.render.ordered import unpack
from suites.render.setups import setups
from suites.render.verdicts import Sheet

Observations = Mapping[str, Observation]

BROKEN = (Outcome.FAILED, Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.OUT_OF_MEMORY)


def judge(case: Case, observations: Observations) -> Iterable[Verdict]:
    """Judge one case."""
    sheet = Sheet(case.id, tuple(observations))
    rules = {"text": _text, "models": _models, "health": _health, "repeat": _repeat, "template": template_verdicts}
    sound = _sound(sheet, case.op, observations)
    if sound:
        rules.get(case.op, _request)(sheet, case, sound)
    return sheet.verdicts()


FIRST_CLAUSE = {"template": "R-TMPL-1", "models": "R-MODELS-1", "health": "R-HEALTH-1", "repeat": "R-DET-1"}


def _sound(sheet: Sheet, op: str, observations: Observations) -> dict[str, Observation]:
    """Sort out what is no answer: unsupported cases, and ends that no request may cause (R-ERR-2)."""
    sound: dict[str, Observation] = {}
    for name, seen in observations.items():
        if seen.outcome is Outcome.UNSUPPORTED:
            sheet.add(FIRST_CLAUSE.get(op, "R-ACCEPT-1"), name, Status.UNSUPPORTED, note=seen.detail)
        elif seen.outcome in BROKEN:
            got = seen.payload.get("status") if isinstance(seen.payload, dict) else None
            sheet.fail("R-ERR-2", name, ("", "outcome", seen.outcome.value), None, got, seen.detail[:300])
        else:
            sheet.passed("R-ERR-2", name)
            sound[name] = seen
    return sound


def body_of(seen: Observation) -> Json:
    """The JSON body of an HTTP answer, None where there is none."""
    return seen.payload.get("json") if isinstance(seen.payload, dict) else None


def answered(observations: Observations) -> dict[str, Observation]:
    """The observations that are answers."""
    return {name: seen for name, seen in observations.items() if seen.outcome is Outcome.ANSWERED}


# ---- requests


def _request(sheet: Sheet, case: Case, observations: Observations) -> None:
    setup = setups()[case.input["setup"]]
    more = [] if is_json_type(case.input.get("headers") or {}) else [CONTENT_TYPE]
    judge_request(sheet, case, setup, route_of(case), unpack(case.input["body"]), observations, more)


CONTENT_TYPE = Question("R-HTTP-1", "(content-type)", "content-type:other")


def judge_request(
    sheet: Sheet, case: Case, setup: Setup, route: Route, body: Json, observations: Observations,
    more: Sequence[Question] = (),
) -> None:  # fmt: skip
    """Judge a request body on a route; ``more`` are questions that lie below the body (its text)."""
    found = evaluate(setup, route, body)
    questions = (*more, *found.checked.questions, *_late(setup, found))
    _errors(sheet, observations)
    nulls = isinstance(body, dict) and None in body.values()
    _status(sheet, observations, questions, "R-NULL-1" if nulls else "R-ACCEPT-1")
    answers = answered(observations)
    if any(q.must for q in questions) or not answers:
        return
    answer_verdicts(sheet, setup, found, features(case), case.input.get("headers") or {}, answers)


def _late(setup: Setup, found: Evaluation) -> Iterator[Question]:
    """Questions that only the later stages can raise: the template refuses, the prompt is too long ...

    Where only some choices lead there, the question is open and belongs to the choice; to all of them, where more than
    one is needed for it, or where there are too many to try.
    """
    if found.unrendered and not found.checked.open:
        yield from (Question(c.clause, c.name, f"late:{c.name}") for c in found.choices)
    lengths = [len(made.token_ids) for result in found.results for made in result if isinstance(made, Rendering)]
    left = setup.max_model_len - max(lengths, default=0)
    if found.checked.route == "completions" and "max_tokens" not in found.checked.taken:
        left = min(left, COMPLETION_BUDGET)
    if lengths and found.checked.taken.get("min_tokens", 0) > left:
        yield Question("R-MIN-2", "min_tokens", "late:min_tokens")
    for combinations in found.results:
        refusals = [made for made in combinations if isinstance(made, Refusal)]
        if not refusals:
            continue
        if len(refusals) == len(combinations):
            clause = refusals[0].clause
            yield Question(clause, "(prompt)", f"late:{clause}", must=clause in ("R-LEN-1", "R-TMPL-3"))
        else:
            names = [c for c in found.choices if {r.choices[c.name] for r in refusals} != set(c.options)]
            for blamed in names[:1] or found.choices:
                yield Question(blamed.clause, blamed.name, f"late:{blamed.name}")


def _errors(sheet: Sheet, observations: Observations) -> None:
    """R-ERR-1: a refusal carries an error object."""
    for name, seen in observations.items():
        if seen.outcome is not Outcome.REFUSED or is_library(seen):
            continue
        wrong = error_problem(body_of(seen))
        if wrong:
            sheet.fail("R-ERR-1", name, ("answer", wrong, "malformed"), "an error object", _short(seen.payload))
        else:
            sheet.passed("R-ERR-1", name)


def error_problem(body: Json) -> str:
    """Which field of an error object is wrong; nothing for a right one.

    ``code`` is an integer in Python's releases and in Rust's from 0.33, a string in Rust's before: both are taken.
    """
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return "error"
    if not isinstance(error.get("message"), str) or not error["message"]:
        return "error.message"
    if not isinstance(error.get("type"), str):
        return "error.type"
    return "" if isinstance(error.get("code"), (int, str)) and not isinstance(error["code"], bool) else "error.code"


def _status(
    sheet: Sheet, observations: Observations, questions: Sequence[Question], accept: str = "R-ACCEPT-1"
) -> None:
    """Whether each target answered or refused as it must, or as the others do. ``accept``: the clause that it may."""
    refused = {name: seen.outcome is Outcome.REFUSED for name, seen in observations.items()}
    must = [q for q in questions if q.must]
    if must:
        for question in must:
            for name, did in refused.items():
                shape = ("validate", question.field, "answered")
                if not did:
                    sheet.fail(
                        question.clause, name, shape, "a refusal", _short(observations[name].payload), question.tag
                    )
                elif (
                    len(questions) == 1
                    and question.tag == "model:unknown"
                    and observations[name].payload.get("status") != 404
                ):
                    got = observations[name].payload.get("status")
                    sheet.fail(question.clause, name, ("validate", "status", "value"), 404, got)
                else:
                    sheet.passed(question.clause, name, decision=True)
        return
    if not questions:
        for name, did in refused.items():
            seen = observations[name]
            if did and is_library(seen):
                sheet.fail(accept, name, ("template", "", "refused"), "an answer", seen.detail[:300])
            elif did:
                sheet.fail(accept, name, ("validate", "", "refused"), "an answer", _short(seen.payload))
            else:
                sheet.passed(accept, name)
        return
    _open(sheet, observations, refused, list({q.field: q for q in questions}.values()))


def _open(sheet: Sheet, observations: Observations, refused: dict[str, bool], questions: Sequence[Question]) -> None:
    """Open questions: the targets have to do alike. Two of them at once tell nothing; each is asked on its own too."""
    if len(refused) == 1:
        for question in questions:
            sheet.add(question.clause, next(iter(refused)), Status.SKIPPED, note="no other target to compare with")
    elif len(set(refused.values())) == 1:
        for question in questions:
            for name, did in refused.items():
                sheet.passed(question.clause, name, decision=did)
    elif len(questions) > 1:
        for question in questions:
            for name in refused:
                sheet.add(question.clause, name, Status.BLOCKED, note="the request leaves more than one question open")
    else:
        question = questions[0]
        says = {name: "refused" if did else "answered" for name, did in refused.items()}
        for name in refused:
            peers = tuple(peer for peer in refused if refused[peer] != refused[name])
            expected = {peer: says[peer] for peer in peers}
            got = {"outcome": says[name], "answer": _short(observations[name].payload)}
            shape = ("validate", question.field, "answered or refused")
            sheet.fail(question.clause, name, shape, expected, got, question.tag, peers)


def _short(payload: Json) -> Json:
    """An answer as a finding shows it: the status and the error's message, or the body's beginning."""
    if not isinstance(payload, dict) or "status" not in payload:
        return payload
    body = payload.get("json")
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        return {"status": payload["status"], "message": str(body["error"].get("message"))[:300]}
    text = json.dumps(body)[:300] if "json" in payload else str(payload.get("text"))[:300]
    return {"status": payload["status"], "body": text}


# ---- bodies below the JSON library

JSON_QUESTIONS = {
    "json:invalid": Question("R-JSON-1", "(body)", "json:invalid", must=True),
    "json:constant": Question("R-JSON-1", "(body)", "json:constant", must=True),
    "json:not-utf-8": Question("R-JSON-1", "(body)", "json:not-utf-8", must=True),
    "json:byte-order-mark": Question("R-JSON-3", "(body)", "json:byte-order-mark"),
    "json:duplicate-name-top": Question("R-JSON-2", "(body)", "json:duplicate-name-top"),
    "json:duplicate-name": Question("R-JSON-2", "(body)", "json:duplicate-name"),
    "json:minus-zero": Question("R-JSON-5", "(body)", "json:minus-zero"),
    "json:number-beyond-double": Question("R-JSON-5", "(body)", "json:number-beyond-double"),
}


def _text(sheet: Sheet, case: Case, observations: Observations) -> None:
    setup = setups()[case.input["setup"]]
    problem = "json:not-utf-8" if "hex" in case.input else json_problem(case.input["text"])
    question = JSON_QUESTIONS.get(problem)
    body: Any = None
    if question is None or not question.must:
        body = json.loads(case.input["text"].removeprefix("\ufeff"))
    else:
        _errors(sheet, observations)
        _status(sheet, observations, [question])
        return
    judge_request(sheet, case, setup, "chat", body, observations, [question] if question else [])


# ---- other routes


def _models(sheet: Sheet, case: Case, observations: Observations) -> None:
    """R-MODELS-1: the list holds the served name and the context length."""
    setup = setups()[case.input["setup"]]
    for name, seen in observations.items():
        body = body_of(seen)
        listed = body.get("data") if isinstance(body, dict) and body.get("object") == "list" else None
        cards = [card for card in listed or [] if isinstance(card, dict) and card.get("id") == setup.served]
        if seen.outcome is not Outcome.ANSWERED or not cards:
            shape = ("answer", "data.id", "missing")
            sheet.fail("R-MODELS-1", name, shape, {"id": setup.served, "object": "model"}, _short(seen.payload))
        elif cards[0].get("max_model_len") != setup.max_model_len:
            shape, got = ("answer", "data.max_model_len", "value"), cards[0].get("max_model_len")
            sheet.fail("R-MODELS-1", name, shape, setup.max_model_len, got)
        else:
            sheet.passed("R-MODELS-1", name)


def _health(sheet: Sheet, case: Case, observations: Observations) -> None:
    """R-HEALTH-1: a running server answers 200."""
    for name, seen in observations.items():
        status = seen.payload.get("status") if isinstance(seen.payload, dict) else None
        if status == 200:
            sheet.passed("R-HEALTH-1", name)
        else:
            sheet.fail("R-HEALTH-1", name, ("answer", case.input["path"], "status"), 200, status)


def _repeat(sheet: Sheet, case: Case, observations: Observations) -> None:
    """R-DET-1: the same request gives the same answer, but for its id."""
    for name, seen in observations.items():
        answers = seen.payload.get("answers") if isinstance(seen.payload, dict) else None
        if not isinstance(answers, list) or len(answers) < 2:
            sheet.fail("R-DET-1", name, ("answer", "answers", "missing"), 2, _short(seen.payload))
            continue
        forms = [_without_identity(answer) for answer in answers]
        if all(form == forms[0] for form in forms):
            sheet.passed("R-DET-1", name)
        else:
            sheet.fail("R-DET-1", name, ("answer", "(repeated)", "differs"), _short(answers[0]), _short(answers[1]))
    first = {
        name: msgspec.structs.replace(seen, payload=seen.payload["answers"][0])
        for name, seen in observations.items()
        if isinstance(seen.payload, dict) and seen.payload.get("answers")
    }
    if first:
        _request(sheet, case, first)


def _nameless(one: Json) -> Json:
    return {k: v for k, v in one.items() if k != "request_id"} if isinstance(one, dict) else one


def _without_identity(answer: Json) -> Json:
    if not isinstance(answer, dict):
        return answer
    body = answer.get("json")
    cleaned = [_nameless(one) for one in body] if isinstance(body, list) else _nameless(body)
    if isinstance(cleaned, dict) and "error" in cleaned:
        cleaned = {"error": True}  # its words may name the request's id
    return [answer.get("status"), cleaned]
