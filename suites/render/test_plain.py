"""Libraries in the base install: what they are asked, and where a difference of theirs is placed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.outcome import Outcome, Status
from harness.records import Case, Json, Observation, Verdict
from harness.targets.base import Target
from suites.render import SUITE, cases, local, plain
from suites.render.faults import FAULTS
from suites.render.planted import Planted

NOTHING: Any = None
"""Stands for what these cases have no use for: arrays."""


def case_of(op: str, **fields: Json) -> Case:
    body = cases.plain_chat() if op == "chat" else cases.plain_completion()
    return Case.make("render", *cases.request(op, {**body, **fields}))


def judged(case: Case, change: Callable[[dict[str, Json]], dict[str, Json]]) -> list[Verdict]:
    """Judge what transformers gives, changed."""
    answer = local.transformers_target().run(case, NOTHING)
    payload = {"rendered": [change(one) for one in answer.payload["rendered"]]}
    seen = Observation(case.id, "x", Outcome.ANSWERED, payload)
    return list(SUITE.judge(case, {"x": seen}, NOTHING))


def shapes(verdicts: list[Verdict]) -> set[tuple[str, str]]:
    return {(v.stage, v.field) for v in verdicts if v.status is Status.FAIL}


ANSWER = {"role": "assistant", "content": "b"}


@pytest.mark.parametrize(
    ("op", "fields", "needed"),
    [
        ("chat", {}, {plain.MESSAGES}),
        ("chat", {"chat_template_kwargs": {"note": [1, "é"]}, "add_special_tokens": True}, {plain.MESSAGES}),
        ("completions", {}, {plain.TEXT}),
        ("chat", {"messages": [ANSWER], "continue_final_message": True, "add_generation_prompt": False},
         {plain.MESSAGES, plain.CONTINUES}),
        ("chat", {"temperature": 0.5}, {"chat"}),  # to be lowered
        ("chat", {"messages": []}, {"chat"}),  # to be refused
        ("chat", {"messages": [{"role": "user", "content": ""}]}, {"chat"}),  # may be refused
        ("chat", {"model": "other"}, {"chat"}),
        ("completions", {"prompt": [5, 6]}, {"completions"}),  # nothing to tokenise
        ("completions", {"prompt": "a " * 600}, {"completions"}),  # beyond the context
    ],
)  # fmt: skip
def test_a_library_is_asked_what_is_about_text_alone(op: str, fields: dict[str, Json], needed: set[str]) -> None:
    assert SUITE.needs(case_of(op, **fields)) == needed | {"setup:ledger"}


@pytest.mark.parametrize("make", [local.transformers_target, local.minijinja_target])
def test_a_library_renders_what_it_is_asked(make: Callable[[], Target]) -> None:
    target = make()
    capabilities = set(target.open().capabilities)
    asked = 0
    for case in cases.generate(300, 11):
        if case.op == "template" or not SUITE.needs(case) <= capabilities:
            continue
        asked += 1
        answer = target.run(case, NOTHING)
        assert answer.outcome is Outcome.ANSWERED, answer.detail
        assert len(answer.payload["rendered"]) == 1
    assert asked > 30


def test_a_library_is_not_asked_for_an_engine_request() -> None:
    verdicts = judged(case_of("chat"), lambda one: one)
    assert not shapes(verdicts)
    assert {v.clause for v in verdicts if v.status is Status.PASS} >= {"R-TEXT-1", "R-TOKEN-1"}
    assert not {v.clause for v in verdicts} & {"R-ID-1", "R-PARAM-1", "R-ANSWER-1"}


@pytest.mark.parametrize("op", ["chat", "completions"])
def test_the_first_stage_that_differs_is_named(op: str) -> None:
    other = {"text": "something else"}
    assert shapes(judged(case_of(op), lambda one: {**one, **other})) == {("template", "text")}
    assert shapes(judged(case_of(op), lambda one: {**one, "token_ids": [*one["token_ids"], 7]})) == {
        ("tokenise", "token_ids")
    }
    assert shapes(judged(case_of(op), lambda one: {**one, **other, "token_ids": [7]})) == {("template", "text")}
    assert shapes(judged(case_of(op), lambda one: {**one, "token_ids": None})) == {("answer", "(body)")}


def test_a_library_that_refuses_a_plain_request_fails() -> None:
    case = case_of("chat")
    seen = Observation(case.id, "x", Outcome.REFUSED, {"rendered": []}, detail="no such filter")
    assert shapes(list(SUITE.judge(case, {"x": seen}, NOTHING))) == {("template", "")}


def test_choices_are_not_compared_between_a_server_and_a_library() -> None:
    case = case_of("chat", messages=[{"role": "developer", "content": "a"}])
    library, server = local.transformers_target(), Planted("server")
    observations = {}
    for target in (library, server):
        answer = target.run(case, NOTHING)
        observations[target.name] = Observation(case.id, target.name, answer.outcome, answer.payload)
    verdicts = list(SUITE.judge(case, observations, NOTHING))
    assert not shapes(verdicts)
    assert {v.status for v in verdicts if v.clause == "R-ROLE-1"} == {Status.SKIPPED}


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("no-merges", "tokenise"),
        ("no-bos", "tokenise"),
        ("bos-twice", "tokenise"),
        ("other-side", "tokenise"),
        ("drops-kwargs", "template"),
        ("sorts-tools", "template"),
        ("reverses", "template"),
    ],
)
def test_the_stage_is_read_off_the_tokens_of_a_server(name: str, stage: str) -> None:
    fault = next(fault for fault in FAULTS if fault.name == name)
    target, found = fault.build(), set()
    for op, given in cases.edge_cases()[:700]:
        if op not in ("chat", "completions"):
            continue
        case = Case.make("render", op, given)
        answer = target.run(case, NOTHING)
        seen = {name: Observation(case.id, name, answer.outcome, answer.payload)}
        found |= {v.stage for v in SUITE.judge(case, seen, NOTHING) if v.clause == fault.breaks[0] and v.stage}
    assert found == {stage}
