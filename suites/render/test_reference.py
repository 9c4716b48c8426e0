"""The reference renderer, stage by stage, against what its sources say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from reference.contract import ContractError, load, parse
from reference.render import choices, template, tokenise
from reference.render.lower import canonical, lower, observed
from reference.render.pipeline import evaluate
from reference.render.records import Refusal, Rendering
from reference.render.validate import depth, validate
from reference.render.wire import Policy, render
from reference.render.wire import parse as read
from suites.render.setups import LEDGER, OPEN, setups

HI = {"role": "user", "content": "Hi"}


def tags(body: object, route: Any = "chat", setup: str = LEDGER) -> set[str]:
    return {q.tag for q in validate(setups()[setup], route, body).questions}


def text_of(body: Mapping[str, object], setup: str = LEDGER, **pick: str) -> str | None:
    found = evaluate(setups()[setup], "chat", {"model": "gauge", **body})
    for made in found.results[0]:
        if isinstance(made, Rendering) and all(made.choices.get(k) == v for k, v in pick.items()):
            return made.text
    return None


def test_the_contract_loads_and_is_not_small() -> None:
    clauses = load("render")
    assert len(clauses) >= 100
    assert {clause.level for clause in clauses.values()} == {"MUST", "AGREE"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[[clause]]\nid='x'\nlevel='MUST'\ntext='t'\nsource='s'\nsince='1'",
        "[[clause]]\nid='R-A-1'\nlevel='OUGHT'\ntext='t'\nsource='s'\nsince='1'",
        "[[clause]]\nid='R-A-1'\nlevel='MUST'\ntext=' '\nsource='s'\nsince='1'",
        "[[clause]]\nid='R-A-1'\nlevel='MUST'\ntext='t'\nsource='s'\nsince='1'\nmore=1",
        "[[clause]]\nid='R-A-1'\nlevel='MUST'\ntext='t'\nsource='s'\nsince='1'\n" * 2,
        "[[clause",
    ],
)
def test_a_broken_contract_is_refused(text: str) -> None:
    with pytest.raises(ContractError, match="contract 'x'"):
        parse(text, "x")


def test_a_plain_request_raises_no_question() -> None:
    assert tags({"model": "gauge", "messages": [HI]}) == set()
    assert tags({"model": "gauge", "prompt": "Hi"}, "completions") == set()


@pytest.mark.parametrize(
    ("field", "value", "tag"),
    [
        ("temperature", 2.5, "temperature:above"),
        ("temperature", "0.5", "convert:string-to-number"),
        ("temperature", True, "convert:boolean-to-number"),
        ("temperature", "warm", "type:not-number"),
        ("max_tokens", 5.0, "convert:float-to-integer"),
        ("max_tokens", 5.5, "type:not-integer"),
        ("max_tokens", 0, "budget:zero"),
        ("max_tokens", 513, "budget:beyond-context"),
        ("max_completion_tokens", -1, "budget:negative"),
        ("n", 2, "n:several"),
        ("seed", 2**63, "seed:beyond-64-bit"),
        ("stop", [""], "stop:empty-string"),
        ("stop", ["a"] * 5, "stop:more-than-four"),
        ("min_tokens", None, "null:not-nullable"),
        ("ignore_eos", 1, "convert:number-to-boolean"),
        ("logit_bias", {"x": 1}, "logit_bias:key-not-a-number"),
        ("stop_token_ids", [1024], "ids:outside-vocabulary"),
        ("model", "other", "model:unknown"),
        ("reasoning_effort", "other", "reasoning_effort:unknown-word"),
        ("chat_template", "{{ x }}", "chat_template:untrusted"),
        ("tool_choice", "auto", "tool_choice:without-tools"),
        ("top_logprobs", 1, "top_logprobs:without-logprobs"),
        ("stream_options", {"include_usage": True}, "stream_options:without-stream"),
    ],
)
def test_a_value_raises_its_question(field: str, value: object, tag: str) -> None:
    assert tag in tags({"model": "gauge", "messages": [HI], field: value})


def test_null_where_it_is_allowed_raises_none() -> None:
    assert tags({"model": "gauge", "messages": [HI], "temperature": None, "max_tokens": None, "n": None}) == set()


def test_depth_counts_without_recursion() -> None:
    value: object = []
    for _ in range(5000):
        value = [value]
    assert depth(value) == 5001
    assert depth({"a": [1, {}]}) == 3
    assert depth(1) == 0


def test_parts_are_joined_as_chosen() -> None:
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]}
    assert "[user]a\nb<|end|>" in str(text_of(body))
    assert "[user]ab<|end|>" in str(text_of(body, **{"parts.join": "nothing"}))


def test_a_developer_message_is_moved_or_kept() -> None:
    body = {"messages": [HI, {"role": "developer", "content": "x"}]}
    assert str(text_of(body)).startswith("<|bos|>[system]x<|end|>[user]Hi")
    assert "[user]Hi<|end|>[developer]x" in str(text_of(body, **{"role.developer": "kept"}))


def test_a_template_that_knows_developer_leaves_no_choice() -> None:
    found = evaluate(setups()[OPEN], "chat", {"model": "gauge", "messages": [{"role": "developer", "content": "x"}]})
    assert choices.DEVELOPER not in found.choices


def test_a_template_that_raises_is_a_refusal() -> None:
    found = evaluate(setups()[OPEN], "chat", {"model": "gauge", "messages": [{"role": "root", "content": "x"}]})
    assert all(isinstance(made, Refusal) and made.clause == "R-TMPL-3" for made in found.results[0])


def test_a_continued_message_stays_open() -> None:
    body = {"messages": [HI, {"role": "assistant", "content": "b"}], "continue_final_message": True}
    assert str(text_of({**body, "add_generation_prompt": False})).endswith("[assistant]b")


def test_arguments_keep_their_order() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"b": 1, "a": "é<"}'}}
    assert '{"b": 1, "a": "é<"}' in str(
        text_of({"messages": [{"role": "assistant", "content": "", "tool_calls": [call]}]})
    )


def test_special_tokens_and_bos() -> None:
    setup = setups()[OPEN]
    assert tokenise.encode(setup, "<|user|>a", special=True)[:2] == (1, 4)
    assert tokenise.encode(setup, "a", special=False)[0] != 1
    assert template.special_tokens(setup.folder)["bos_token"] == "<|bos|>"


@pytest.mark.parametrize(
    ("option", "kept"),
    [("left", (3, 4)), ("right", (1, 2))],
)
def test_truncation_keeps_one_side(option: str, kept: tuple[int, ...]) -> None:
    assert tokenise.truncate(setups()[LEDGER], None, (1, 2, 3, 4), {"truncate_prompt_tokens": 2}, option) == kept


def test_a_long_prompt_is_refused_and_a_full_one_is_open() -> None:
    for length, clause in ((513, "R-LEN-1"), (512, "R-LEN-2")):
        found = evaluate(setups()[LEDGER], "completions", {"model": "gauge", "prompt": [5] * length})
        (made,) = found.results[0]
        assert isinstance(made, Refusal)
        assert made.clause == clause


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("top_k", -1, 0),
        ("stop", "a", ["a"]),
        ("temperature", 0.1, 0.10000000149),
        ("logit_bias", {"05": 1}, {"5": 1.0}),
    ],
)
def test_equal_values_have_one_form(name: str, one: object, other: object) -> None:
    assert canonical(name, one) == canonical(name, other)


def test_an_engine_request_of_either_renderer_says_the_same() -> None:
    checked = validate(setups()[LEDGER], "chat", {"model": "gauge", "messages": [HI], "temperature": 0.5})
    python = {"sampling_params": {"temperature": 0.5, "top_p": 1.0, "stop": [], "max_tokens": 499}, "cache_salt": None}
    rust = {"sampling_params": {"temperature": 0.5, "ignore_eos": False}, "stream": False, "priority": 0}
    seen, sparse = observed(python), observed(rust)
    for param in lower(setups()[LEDGER], checked, 13):
        assert seen[param.name] in param.values
        assert sparse[param.name] in param.values


def test_every_bad_request_gets_an_error_object() -> None:
    setup = setups()[LEDGER]
    bodies: tuple[Any, ...] = (
        {},
        [],
        {"messages": []},
        {"model": "x", "messages": [HI]},
        {"messages": [HI], "temperature": 9},
    )
    for body in bodies:
        made = render(setup, "chat", body, {}, Policy())
        assert made.status in (400, 404)
        assert set(made.body["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("body", [b"", b"{", b'{"a": NaN}', b"\xff", b"[" * 100_000])
def test_bodies_that_are_no_json(body: bytes) -> None:
    with pytest.raises(ValueError):
        read(body)
