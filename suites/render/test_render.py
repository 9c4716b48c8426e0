"""The suite itself: its cases, its judge, its planted faults."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.expectations import load as known_of
from harness.findings import signature
from harness.minimise import culprit
from harness.outcome import Outcome, Status
from harness.records import Case, Observation, Verdict
from harness.targets.base import Target
from suites.render import SUITE, cases, ordered, snippets
from suites.render.draw import Drawn, Stream
from suites.render.faults import FAULTS, HONEST, PICKS
from suites.render.planted import Hooks, Planted

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)

NOTHING: Any = None
"""Stands for what these cases have no use for: arrays, sessions."""


@st.composite
def drawn_cases(draw: Any) -> Case:
    """Draw a case by Hypothesis."""
    op, given_ = cases.drawn(Drawn(lambda limit: draw(st.integers(0, limit - 1))))
    return Case.make("render", op, given_)


def observe(case: Case, *targets: Target) -> dict[str, Observation]:
    found = {}
    for target in targets:
        answer = target.run(case, NOTHING)
        found[target.name] = Observation(case.id, target.name, answer.outcome, answer.payload, detail=answer.detail)
    return found


def judged(case: Case, *targets: Target) -> list[Verdict]:
    return list(SUITE.judge(case, observe(case, *targets), NOTHING))


def chat(**fields: Any) -> Case:
    op, given_ = cases.request("chat", {**cases.plain_chat(), **fields})
    return Case.make("render", op, given_)


def failing(verdicts: list[Verdict]) -> set[str]:
    return {verdict.clause for verdict in verdicts if verdict.status is Status.FAIL}


def test_the_same_arguments_give_the_same_cases_everywhere() -> None:
    ids = [case.id for case in cases.generate(300, 7)]
    assert ids == [case.id for case in cases.generate(300, 7)]
    assert len(set(ids)) == 300
    assert ids != [case.id for case in cases.generate(300, 8)]


def test_the_stream_is_what_it_always_was() -> None:
    stream = Stream(3, 5)
    assert [stream.below(1000) for _ in range(6)] == list(GOLDEN)


GOLDEN = (876, 538, 655, 76, 923, 826)


@given(JSON)
def test_packing_keeps_the_order_of_keys(value: Any) -> None:
    packed = ordered.pack(value)
    again = ordered.unpack(json.loads(json.dumps(packed, sort_keys=True)))
    assert json.dumps(again) == json.dumps(value)


@given(drawn_cases())
@settings(max_examples=150)
def test_the_reference_conforms_to_itself(case: Case) -> None:
    assert failing(judged(case, Planted("one"), Planted("two"))) == set()


@given(drawn_cases())
@settings(max_examples=100)
def test_what_is_drawn_is_sensible_and_gets_a_verdict(case: Case) -> None:
    assert SUITE.rebuild(case.op, case.input, NOTHING) == case
    assert SUITE.rebuild(case.op, SUITE.plainest(case), NOTHING) is not None
    assert {verdict.target for verdict in judged(case, Planted("one"))} == {"one"}
    assert isinstance(SUITE.script(case, "vllm-rs@0.33.0"), str)
    assert SUITE.features(case) <= SUITE.features(case)


@pytest.mark.parametrize("op", ["chat", "completions", "template", "text", "models", "health", "repeat"])
def test_the_plainest_case_has_no_feature(op: str) -> None:
    first = next(Case.make("render", o, g) for o, g in cases.edge_cases() if o == op)
    plain = Case.make("render", op, SUITE.plainest(first))
    assert SUITE.features(plain) <= {f"route:{first.input.get('method')} {first.input.get('path')}"}


def test_malformed_inputs_have_features_too() -> None:
    for given_ in (
        {},
        {"setup": 3},
        {"setup": "ledger"},
        {"setup": "ledger", "text": 3},
        {"setup": "open", "snippets": 1},
    ):
        for op in ("chat", "template", "text", "repeat", "nothing"):
            assert isinstance(SUITE.features(Case.make("render", op, given_)), frozenset)


def test_every_clause_has_a_fault_and_every_fault_a_clause() -> None:
    known = {clause.id for clause in SUITE.clauses()}
    broken = {clause for fault in FAULTS for clause in fault.breaks}
    assert broken == known
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.breaks and f.breaks[0] in PICKS], ids=lambda f: f.name)
def test_a_choice_is_blamed_on_its_own_clause(fault: Any) -> None:
    wrong, right = fault.build(), Planted("right")
    caught: set[str] = set()
    for op, given_ in cases.edge_cases():
        if op == "chat" or fault.breaks[0] == "R-TRUNC-2":
            caught |= failing(judged(Case.make("render", op, given_), wrong, right))
        if caught:
            break
    assert caught == set(fault.breaks)


@pytest.mark.parametrize("variant", HONEST, ids=lambda f: f.name)
def test_honest_variants_are_let_through(variant: Any) -> None:
    partner = variant.partner() if variant.partner else Planted("partner")
    partner.name = "partner"
    target = variant.build()
    capabilities = set(target.open().capabilities)
    for op, given_ in cases.edge_cases()[:150]:
        case = Case.make("render", op, given_)
        if SUITE.needs(case) <= capabilities:
            assert failing(judged(case, target, partner)) == set(), case.input


def test_a_server_error_is_nobodys_request() -> None:
    seen = Observation("", "x", Outcome.FAILED, {"status": 500})
    case = chat()
    verdicts = list(SUITE.judge(case, {"x": seen}, NOTHING))
    assert failing(verdicts) == {"R-ERR-2"}


def test_what_a_target_cannot_do_is_said() -> None:
    seen = Observation("", "x", Outcome.UNSUPPORTED, detail="no")
    (verdict,) = SUITE.judge(chat(), {"x": seen}, NOTHING)
    assert verdict.status is Status.UNSUPPORTED


def test_two_open_questions_blame_nobody() -> None:
    refusing = Planted("refusing", Hooks(after=_always_refuse))
    verdicts = judged(chat(n=2, top_p=0), refusing, Planted("answering"))
    assert failing(verdicts) == set()
    assert {v.status for v in verdicts if v.clause in ("R-N-2", "R-RANGE-2")} == {Status.BLOCKED}


def test_one_open_question_blames_its_clause() -> None:
    refusing = Planted("refusing", Hooks(after=_always_refuse))
    verdicts = judged(chat(n=2), refusing, Planted("answering"))
    assert failing(verdicts) == {"R-N-2"}
    assert {v.shape for v in verdicts if v.status is Status.FAIL} == {("validate", "n", "answered or refused")}


def _always_refuse(_sent: Any, made: Any) -> Any:
    return type(made)(400, {"error": {"message": "no", "type": "x", "code": 400}})


def test_known_findings_are_those_of_their_witnesses() -> None:
    path = SUITE.expectations()
    assert path is not None
    targets = {kind.name: kind for kind in SUITE.kinds().values() if kind.embedded}
    for entry in known_of(path):
        case = SUITE.rebuild(entry.witness.op, entry.witness.input, NOTHING)
        assert case is not None
        asked = [targets[name].build(NOTHING, NOTHING) for name in entry.targets]
        failed = [v for v in judged(case, *asked) if v.status is Status.FAIL]
        assert entry.signature in {signature("render", v.shape, culprit(SUITE, case)) for v in failed}


def test_snippets_are_all_different() -> None:
    assert len(set(snippets.SNIPPETS.values())) == len(snippets.SNIPPETS)


def test_fixtures_are_what_the_set_ups_say() -> None:
    from suites.render.setups import setups

    for setup in setups().values():
        tokens = json.loads((setup.folder / "tokenizer.json").read_text())
        config = json.loads((setup.folder / "config.json").read_text())
        assert len(tokens["model"]["vocab"]) == setup.vocabulary
        assert config["vocab_size"] == setup.embedding
        digest = hashlib.sha256(json.dumps(tokens["model"], sort_keys=True).encode()).hexdigest()
        assert digest == hashlib.sha256(_first_model().encode()).hexdigest()


def _first_model() -> str:
    from suites.render.setups import LEDGER, setups

    return json.dumps(json.loads((setups()[LEDGER].folder / "tokenizer.json").read_text())["model"], sort_keys=True)
