from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.blobs import BlobStore
from harness.minimise import candidates, culprit
from harness.outcome import Outcome, Status
from harness.records import Case, Observation
from harness.sandbox import Limits
from harness.selfcheck import check, passed
from harness.suite import Session, TargetName
from harness.targets.base import Answer, InProcess, TargetUnavailable
from harness.targets.stdio import WorkerTarget, python_worker
from reference.grammar.ast import EMPTY, Alt, Anchor, Cat, Dot, Group, Lit, Look, Node, Ref, Rep, Short, chars_of, span
from reference.grammar.dialect import DIALECT, ESCAPES, INVALID, TEXTS
from reference.grammar.match import READINGS, matches
from reference.grammar.oracle import Membership, membership, tame
from reference.grammar.program import ProgramError, from_program, to_program
from reference.grammar.sample import Stream, members, outsiders
from reference.grammar.text import to_text
from suites.grammar import SUITE, nfa, targets
from suites.grammar.cases import ORDINARY, SPECIAL, case_of, cases, input_of, rebuild
from suites.grammar.edges import Edge, all_edges
from suites.grammar.faults import positions
from suites.grammar.judge import expected
from suites.grammar.scripts import script

TREES: st.SearchStrategy[Node] = st.one_of(ORDINARY, SPECIAL)
TEXTS_TRIED = st.text("abcz09 _-.\u00e9\n", max_size=6)


def judged(node: Node, probes: tuple[str, ...], answer: Answer) -> dict[str, Status]:
    case = case_of(Edge(node, probes))
    observation = Observation(case.id, "t", answer.outcome, answer.payload, detail=answer.detail)
    return {v.clause: v.status for v in SUITE.judge(case, {"t": observation}, None)}  # type: ignore[arg-type]


def answer_of(target: object, case: Case) -> Answer:
    return target.run(case, None)  # type: ignore[attr-defined,no-any-return]


# --- the reference


@given(TREES, TEXTS_TRIED)
@settings(max_examples=200, deadline=None)
def test_positions_and_re_agree_on_whole_strings(node: Node, text: str) -> None:
    if tame(node):
        assert matches(node, text) is (re.fullmatch(to_text(node), text) is not None)


@given(TREES, TEXTS_TRIED)
@settings(max_examples=200, deadline=None)
def test_the_automaton_reads_the_text_as_the_tree_means_it(node: Node, text: str) -> None:
    said = nfa.attempt(to_text(node), [text])
    if said["decision"] == "compiled":
        assert said["accepts"] == [matches(node, text)]


@given(TREES)
@settings(max_examples=200, deadline=None)
def test_a_program_read_back_is_the_same_expression(node: Node) -> None:
    again = from_program(to_program(node))
    assert to_program(again) == to_program(from_program(to_program(again)))
    assert matches(again, "") is matches(node, "")
    assert to_text(again).replace("(?:", "").replace(")", "") == to_text(node).replace("(?:", "").replace(")", "")


@given(TREES)
@settings(max_examples=100, deadline=None)
def test_samples_are_what_they_are_said_to_be(node: Node) -> None:
    inside = members(node, Stream("k"), 3)
    assert all(membership(node, text) in (Membership.IN, Membership.OPEN) for text in inside)
    assert all(membership(node, text) is Membership.OUT for text in outsiders(node, inside, Stream("k"), 3))


@given(TREES)
@settings(max_examples=60, deadline=None)
def test_every_part_of_a_program_is_a_program(node: Node) -> None:
    program = to_program(node)
    for n in range(len(program)):
        to_text(from_program(program[:n] + program[n + 1 :]))


def test_a_huge_count_costs_no_more_than_the_string() -> None:
    assert matches(Rep(Lit("a"), 1_000_000, 1_000_000), "aaa") is False
    assert matches(Rep(Group(Rep(Lit("a"), 0, 1)), 1_000_000, 2_000_000), "aaa") is True


def test_loops_in_loops_are_decided_without_backtracking() -> None:
    node = Cat((Rep(Group(Rep(Lit("a"), 1, None)), 1, None), Lit("b")))
    assert not tame(node)
    assert matches(node, "a" * 60 + "b") is True
    assert matches(node, "a" * 60) is False


@pytest.mark.parametrize(
    ("node", "text", "answer"),
    [
        (Dot(), "\n", Membership.OPEN),
        (Dot(), "a", Membership.IN),
        (Short("d"), "\u0663", Membership.OPEN),
        (Short("d"), "a", Membership.OUT),
        (Alt((Dot(), Lit("\n"))), "\n", Membership.IN),
        (Cat((Group(Lit("a")), Ref(1))), "aa", Membership.IN),
        (Cat((Group(Lit("a")), Ref(1))), "a1", Membership.OUT),
        (Ref(3), "a", Membership.UNKNOWN),
        (Cat((Lit("a"), Look(Lit("a"), behind=True), Lit("b"))), "ab", Membership.IN),
        (Cat((Lit("a"), Anchor("^"), Lit("b"))), "ab", Membership.OUT),
    ],
)
def test_membership(node: Node, text: str, answer: Membership) -> None:
    assert membership(node, text) is answer


def test_the_readings_differ_from_each_other() -> None:
    decided = {
        tuple(matches(Cat((Dot(), Short("d"))), t, r) for t in ("\n1", "\r1", "\u20281", "a\u0663")) for r in READINGS
    }
    assert len(decided) == len(READINGS)


@pytest.mark.parametrize("name", sorted(INVALID))
def test_invalid_expressions_are_invalid_in_python(name: str) -> None:
    with pytest.raises(re.error):
        re.compile(TEXTS[name])


def test_no_name_stands_for_two_expressions() -> None:
    assert len({*INVALID, *ESCAPES, *DIALECT}) == len(INVALID) + len(ESCAPES) + len(DIALECT) == len(TEXTS)


@pytest.mark.parametrize(
    "program", [[["set", False, [98, 97]]], [["rep", -1, 0, False]], [["raw", "(?i)"]], [["no"]], [[]]]
)
def test_what_is_no_program_is_refused(program: list[list[object]]) -> None:
    with pytest.raises(ProgramError):
        from_program(program)


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (Rep(Rep(Lit("a"), 2, 2), 3, 3), "(?:a{2}){3}"),
        (Cat((Lit("a"), Alt((Lit("b"), EMPTY)))), "a(?:b|)"),
        (Lit("a.b\\\n"), "a\\.b\\\\\\n"),
        (chars_of("^]-\\a"), "[\\-\\\\\\]\\^a]"),
        (chars_of("&[", negated=True), "[^\\x26\\[]"),
        (Group(Lit("a"), 3), "(((a)))"),
        (Rep(span("0", "9"), 1, None, lazy=True), "[0-9]+?"),
    ],
)
def test_text(node: Node, text: str) -> None:
    assert to_text(node) == text


# --- cases


def test_cases_are_different_and_as_many_as_asked_for() -> None:
    planned = list(cases(220, 3))
    assert len({case.id for case in planned}) == 220
    assert [c.id for c in cases(40, 3)] == [c.id for c in planned[:40]]


def test_no_case_says_what_is_right() -> None:
    for case in cases(60, 0):
        assert set(case.input) == {"program", "probes", "twice"}
        assert set(targets.wire(case.input)) == {"pattern", "probes", "twice", "after"}


def test_a_case_is_rebuilt_as_it_was() -> None:
    for case in cases(220, 0):
        again = rebuild(case.input)
        assert again is None or again.id == case.id
        assert expected(case.input).pattern == targets.wire(case.input)["pattern"]


def test_features_survive_whatever_minimising_proposes() -> None:
    for case in list(cases(40, 0)):
        for number, proposal in enumerate(candidates(case.input, SUITE.plainest(case))):
            if isinstance(proposal, dict):
                SUITE.features(Case.make("grammar", "regex", proposal))
                rebuild(proposal)
            if number > 60:
                break


def test_the_plainest_case_has_no_culprit() -> None:
    plain = Case.make("grammar", "regex", SUITE.plainest(case_of(all_edges()[0])))
    assert culprit(SUITE, plain) == frozenset()


@pytest.mark.parametrize("number", [300, 16_385, 65_537 * 3])
def test_minimising_does_not_close_in_on_a_limit(number: int) -> None:
    assert (rebuild(input_of(Rep(Lit("a"), number, number), [])) is None) is (number.bit_count() > 2)


def test_abuse_stays_a_small_share() -> None:
    """A stopped case costs its whole limit."""
    large = [c for c in cases(400, 1) if SUITE.features(c) & {"count:large", "depth:large"}]
    assert len(large) < 60


# --- judging


def compiled(*accepts: bool | None, after: object = None, again: object = None) -> Answer:
    ordinary = {"decision": "compiled", "accepts": [True, False, True, False, False], "reason": ""}
    payload = {
        "decision": "compiled",
        "reason": "",
        "accepts": list(accepts),
        "again": again,
        "after": after or ordinary,
    }
    return Answer(Outcome.ANSWERED, payload)


def test_a_right_answer_passes_every_clause() -> None:
    assert set(judged(Lit("a"), ("a", "b"), compiled(True, False)).values()) == {Status.PASS}


def test_an_answer_about_fewer_strings_is_malformed() -> None:
    assert judged(Lit("a"), ("a", "b"), compiled(True))["G-REFUSE-1"] is Status.FAIL


def test_a_missing_second_decision_does_not_pass_for_the_same() -> None:
    assert judged(Lit("a"), ("a",), compiled(True, again={}))["G-SAME-1"] is Status.FAIL


@pytest.mark.parametrize(
    ("outcome", "clause"),
    [
        (Outcome.TIMED_OUT, "G-END-1"),
        (Outcome.OUT_OF_MEMORY, "G-MEM-1"),
        (Outcome.CRASHED, "G-CRASH-1"),
        (Outcome.FAILED, "G-REFUSE-1"),
    ],
)
def test_a_bad_end_fails_one_clause_and_lets_nothing_pass(outcome: Outcome, clause: str) -> None:
    verdicts = judged(Lit("a"), ("a",), Answer(outcome))
    assert verdicts[clause] is Status.FAIL
    assert "G-MEMBER-1" not in verdicts
    assert list(verdicts.values()).count(Status.FAIL) == 1


def test_deep_nesting_has_a_clause_of_its_own() -> None:
    assert judged(Group(Lit("a"), 500), (), Answer(Outcome.CRASHED))["G-DEPTH-1"] is Status.FAIL


def test_unsupported_is_said_of_every_clause_that_would_apply() -> None:
    verdicts = judged(Rep(Lit("a"), 2, 3), ("a",), Answer(Outcome.UNSUPPORTED))
    assert set(verdicts.values()) == {Status.UNSUPPORTED}
    assert {"G-END-1", "G-COUNT-1"} <= set(verdicts)


def test_a_refusal_of_lookaround_is_a_decision() -> None:
    case = case_of(Edge(Cat((Look(Lit("a")), Lit("a"))), ("a",)))
    payload = {**compiled().payload, "decision": "refused"}
    observation = Observation(case.id, "t", Outcome.REFUSED, payload)
    verdicts = list(SUITE.judge(case, {"t": observation}, None))  # type: ignore[arg-type]
    assert all(v.status is Status.PASS for v in verdicts)
    assert any(v.clause == "G-LOOK-1" and v.decision for v in verdicts)


def test_of_two_that_disagree_neither_is_called_right() -> None:
    case = case_of(Edge(Dot(), ("\n",)))
    observations = {
        name: Observation(case.id, name, Outcome.ANSWERED, compiled(said).payload)
        for name, said in (("a", True), ("b", False))
    }
    failed = {v.target: v.peers for v in SUITE.judge(case, observations, None) if v.status is Status.FAIL}  # type: ignore[arg-type]
    assert failed == {"a": ("b",), "b": ("a",)}


def test_of_three_the_odd_one_out_is_named() -> None:
    case = case_of(Edge(Dot(), ("\n",)))
    answers = {"a": True, "b": False, "c": False}
    observations = {n: Observation(case.id, n, Outcome.ANSWERED, compiled(s).payload) for n, s in answers.items()}
    failed = {v.target: v.peers for v in SUITE.judge(case, observations, None) if v.status is Status.FAIL}  # type: ignore[arg-type]
    assert failed == {"a": ("b", "c")}


# --- targets


@pytest.mark.parametrize(
    "pattern", ["(", "a{", "a{3,2}", "[z-a]", "\\q", "(?=a)a", "a**", "^*a", "[[:alpha:]]", "a{9999}"]
)
def test_the_automaton_refuses_what_it_does_not_know(pattern: str) -> None:
    assert nfa.attempt(pattern, ["a"])["decision"] == "refused"


def session(tmp_path: Path) -> Session:
    return Session(tmp_path, {"wall_s": 20.0, "cpu_s": 5.0, "memory_mb": 512})


def test_python_re_answers_and_refuses_in_its_worker(tmp_path: Path) -> None:
    target = targets.python_re("python-re", session(tmp_path))
    try:
        assert "regex" in target.open().capabilities
        store = BlobStore(tmp_path / "blobs")
        answer = target.run(case_of(Edge(Rep(Lit("ab"), 1, 2), ("ab", "ababab"), twice=True)), store)
        assert (answer.outcome, answer.payload["accepts"]) == (Outcome.ANSWERED, [True, False])
        assert answer.payload["again"]["accepts"] == [True, False]
        refused = target.run(case_of(Edge(from_program([["raw", "paren-open"]]), ())), store)
        assert refused.outcome is Outcome.REFUSED
        failed = target.run(case_of(Edge(Group(Lit("a"), 3000), ())), store)
        assert failed.outcome is Outcome.FAILED
        assert "RecursionError" in failed.detail
    finally:
        target.close()


def test_a_compiler_that_never_ends_costs_one_case(tmp_path: Path) -> None:
    command = python_worker(sys.executable, targets.OPS / "planted.py")
    limits = Limits(wall_s=20.0, cpu_s=0.5, memory_bytes=512 << 20)
    worker = WorkerTarget("t", command, logs=tmp_path, limits=limits, env={"AFERE_PLANTED": "never-ends"})
    target = targets.Compiler(worker)
    store = BlobStore(tmp_path / "blobs")
    try:
        target.open()
        assert target.run(case_of(Edge(Rep(Lit("a"), 1024, 1024), ())), store).outcome is Outcome.TIMED_OUT
        assert target.run(case_of(Edge(Lit("a"), ("a",))), store).outcome is Outcome.ANSWERED
    finally:
        target.close()


def test_an_internal_error_is_no_refusal() -> None:
    target = targets.Compiler(InProcess("t", {"regex": lambda _i, _a: {"decision": "failed", "reason": "KeyError: 3"}}))
    answer = answer_of(target, case_of(Edge(Lit("a"), ("a",))))
    assert (answer.outcome, answer.detail) == (Outcome.FAILED, "KeyError: 3")


def test_a_compiler_that_is_not_provisioned_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFERE_CACHE", str(tmp_path))
    kind = targets.kinds()["llguidance"]
    with pytest.raises(TargetUnavailable, match=r"afere targets add llguidance@1\.7\.6"):
        kind.build(TargetName.parse("llguidance@1.7.6"), session(tmp_path))


@pytest.mark.parametrize("kind", [*targets.COMPILERS, "python-re", "nfa"])
def test_the_script_of_a_case_is_python(kind: str) -> None:
    case = case_of(Edge(Group(Lit("'\u00e9"), 400), ("a", "\n")))
    compile(script(case, f"{kind}@1.0"), "script", "exec")


def test_the_script_shows_the_difference(capsys: pytest.CaptureFixture[str]) -> None:
    exec(script(case_of(Edge(Rep(Lit("ab"), 1, None), ("abab", "a"))), "python-re"), {})
    assert capsys.readouterr().out == "'abab' True\n'a' False\n"


# --- the clauses


def test_every_clause_is_named_by_a_planted_fault() -> None:
    named = {clause for fault in SUITE.faults() for clause in fault.breaks}
    assert {clause.id for clause in SUITE.clauses()} == named


def test_faults_in_process_are_caught_and_honest_variants_let_through() -> None:
    """The planted processes are left to ``afere selfcheck``: each stopped one costs its limit."""

    class Quick:
        def __getattr__(self, name: str) -> object:
            return getattr(SUITE, name)

        def faults(self) -> tuple[object, ...]:
            slow = {"never-ends", "eats-memory", "dies-of-depth", "nfa-worker"}
            return tuple(f for f in SUITE.faults() if f.name not in slow)

    result = check(Quick(), cases=150)  # type: ignore[arg-type]
    assert result.escaped == ()
    assert result.alarms == ()
    assert set(result.toothless) <= {"G-END-1", "G-MEM-1", "G-CRASH-1"}
    assert not passed(result)


def test_the_honest_compiler_refuses_back_references() -> None:
    assert positions(Cat((Group(Lit("a")), Ref(1))), ["aa"])["decision"] == "refused"


# --- real compilers


@pytest.mark.real_target
@pytest.mark.parametrize("kind", list(targets.COMPILERS))
def test_a_real_compiler_decides_an_ordinary_expression(kind: str, tmp_path: Path) -> None:
    try:
        target = targets.kinds()[kind].build(TargetName(kind, targets.COMPILERS[kind].version), session(tmp_path))
        target.open()
    except TargetUnavailable as error:
        pytest.skip(str(error))
    try:
        case = case_of(Edge(Rep(span("0", "9"), 2, 3), ("1", "12", "123", "1234", "a")))
        answer = target.run(case, BlobStore(tmp_path / "blobs"))
        assert answer.payload["accepts"] == [False, True, True, False, False]
        assert target.run(
            case_of(Edge(from_program([["raw", "paren-open"]]), ())), BlobStore(tmp_path / "b")
        ).outcome is (Outcome.REFUSED)
    finally:
        target.close()
