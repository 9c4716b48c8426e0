"""vLLM's own renderers. Needs them to be provisioned: ``afere targets add vllm-rs@0.33.0``."""

from __future__ import annotations

from typing import Any

import pytest

from harness.outcome import Outcome, Status
from harness.provision import find
from harness.records import Case, Observation
from harness.suite import Session, TargetName
from suites.render import SUITE, cases

NOTHING: Any = None
"""Stands for what these cases have no use for: arrays, sessions."""


@pytest.mark.real_target
@pytest.mark.parametrize("name", ["vllm-rs@0.33.0", "vllm-render@0.32.0"])
def test_a_real_renderer_answers_and_tells_its_tokens(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    parsed = TargetName.parse(name)
    kind = SUITE.kinds()[parsed.kind]
    needed = kind.needs(parsed)
    assert needed is not None
    if find(needed.name) is None:
        pytest.skip(f"{name} is not provisioned; run: afere targets add {name}")
    target = kind.build(parsed, Session(tmp_path_factory.mktemp("run"), {}))
    target.open()
    try:
        for op, given in (
            cases.request("chat", cases.plain_chat()),
            cases.request("completions", cases.plain_completion()),
        ):
            case = Case.make("render", op, given)
            answer = target.run(case, NOTHING)
            assert answer.outcome is Outcome.ANSWERED
            seen = {name: Observation(case.id, name, answer.outcome, answer.payload)}
            verdicts = list(SUITE.judge(case, seen, NOTHING))
            assert {v.clause for v in verdicts if v.status is Status.FAIL} == set()
            assert any(v.clause == "R-TEXT-1" and v.status is Status.PASS for v in verdicts)
    finally:
        target.close()
