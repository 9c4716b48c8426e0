"""Case and observations to verdicts. Pure: the oracles are bounded, and nothing here asks a target.

What a case is about is read off its tree. A clause on one construct (counts, alternation, ...) speaks only of trees in
which that construct is the only special one, so that a row of the matrix says what it names; the general clauses on
members and outsiders speak of every tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from harness.outcome import Outcome, Status
from harness.records import Case, Json, Observation, Verdict
from reference.grammar.ast import Dot, Node, Raw, walk
from reference.grammar.dialect import ESCAPES, INVALID, ODD
from reference.grammar.oracle import Membership, membership
from reference.grammar.text import to_text
from suites.grammar.features import parsed, tree_features
from suites.grammar.targets import AFTER_PATTERN

STOPPED = {Outcome.TIMED_OUT: ("G-END-1", "time"), Outcome.OUT_OF_MEMORY: ("G-MEM-1", "memory")}
AFTER_ACCEPTS = [True, False, True, False, False]

# A construct and the features that make a tree be about it. What a tree has besides decides whether it is only that.
TOPICS: dict[str, frozenset[str]] = {
    "G-COUNT-1": frozenset({"repeat:counted", "count:large"}),
    "G-ALT-1": frozenset({"alternation", "alternation:many"}),
    "G-CLASS-1": frozenset({"class", "class:negated", "class:metacharacter"}),
    "G-UNICODE-1": frozenset({"non-ascii"}),
    "G-LAZY-1": frozenset({"repeat:lazy"}),
    "G-GROUP-1": frozenset({"repeat:sequence"}),
    "G-ANCHOR-1": frozenset({"anchor", "anchor:inside"}),
    "G-LOOK-1": frozenset({"lookahead", "lookahead:negated", "lookbehind", "lookbehind:negated"}),
    "G-BACKREF-1": frozenset({"back-reference"}),
}
# Features that go along with any topic.
PLAIN = frozenset({"repeat", "repeat:optional", "empty"})
HELPERS: dict[str, frozenset[str]] = {
    "G-UNICODE-1": frozenset({"class", "class:negated", "class:wide"}),
    "G-LAZY-1": frozenset({"repeat:counted"}),
    "G-BACKREF-1": frozenset({"alternation", "class"}),
    "G-LOOK-1": frozenset({"class", "dot"}),
    "G-ANCHOR-1": frozenset({"alternation"}),
    "G-COUNT-1": frozenset({"class"}),
}
ORDINARY = PLAIN | frozenset(
    {
        "class",
        "class:negated",
        "alternation",
        "group",
        "repeat:counted",
        "repeat:sequence",
        "repeat:nested",
        "non-ascii",
    }
)
SMALL = 16
"""Longest ordinary count; RFC 9485 lets an implementation refuse larger ones."""


class Expected(msgspec.Struct, frozen=True):
    """What is right for a case: one membership per probe, and the clauses that its tree is about."""

    pattern: str
    node: Node
    features: frozenset[str]
    probes: tuple[str, ...]
    memberships: tuple[Membership, ...]
    topics: tuple[str, ...]
    odd: str  # name of the expression outside the tree, where the case is one
    ordinary: bool


def expected(input_: dict[str, Json]) -> Expected:
    """What is right for an input.

    :raises ValueError: the input holds no program
    :raises OracleConflictError: the oracles disagree
    """
    node = parsed(input_)
    if node is None:
        raise ValueError("the case holds no program")
    return _expected(node, tuple(input_["probes"]))


@lru_cache(maxsize=4096)
def _expected(node: Node, probes: tuple[str, ...]) -> Expected:
    tags = tree_features(node)
    odd = next((n.name for n in walk(node) if isinstance(n, Raw)), "")
    answers = tuple(_odd_membership(odd, text) if odd else membership(node, text) for text in probes)
    topics = tuple(
        clause
        for clause, marks in TOPICS.items()
        if tags & marks and tags <= PLAIN | marks | HELPERS.get(clause, frozenset())
    )
    if odd.startswith("word-"):
        topics = ("G-LOOK-1",)
    elif _only_empty(node, tags):
        topics = ("G-EMPTY-1", *topics)
    ordinary = tags <= ORDINARY and _small(node)
    return Expected(to_text(node), node, tags, probes, answers, topics, odd, ordinary)


def _odd_membership(name: str, text: str) -> Membership:
    if text in ODD[name].inside:
        return Membership.IN
    return Membership.OUT if text in ODD[name].outside else Membership.OPEN


def _only_empty(node: Node, tags: frozenset[str]) -> bool:
    return "empty" in tags and not any(getattr(n, "text", "") or hasattr(n, "ranges") for n in walk(node))


def _small(node: Node) -> bool:
    """Every count at most SMALL, and at most SMALL ** 2 characters when all counts are written out."""
    sizes = 1
    for current in walk(node):
        high = getattr(current, "high", None)
        largest = max(high or 0, getattr(current, "low", 0))
        sizes *= max(1, largest)
        if largest > SMALL or len(getattr(current, "text", "")) > 200 or len(getattr(current, "parts", ())) > SMALL:
            return False
        if getattr(current, "depth", 1) > SMALL:
            return False
    return sizes <= SMALL**2


def judge(case: Case, observations: Mapping[str, Observation]) -> Iterator[Verdict]:
    """All verdicts on one case."""
    right = expected(case.input)
    for target, observation in observations.items():
        speak = _Speaker(case, target, right)
        if observation.outcome is Outcome.UNSUPPORTED:
            yield from speak.unsupported(observation.detail)
            continue
        yield from _process(speak, observation)
        if observation.outcome in (Outcome.ANSWERED, Outcome.REFUSED):
            yield from _decision(speak, observation)
    yield from _agreement(case, right, observations)


class _Speaker:
    """Makes the verdicts on one observation."""

    def __init__(self, case: Case, target: str, right: Expected) -> None:
        self.case, self.target, self.right = case, target, right

    def passed(self, clause: str, *, decision: bool = False) -> Verdict:
        return Verdict(clause, self.case.id, self.target, Status.PASS, decision=decision)

    def failed(self, clause: str, shape: tuple[str, str, str], want: Json, got: Json, note: str = "") -> Verdict:
        shown = self.right.pattern if len(self.right.pattern) <= 200 else self.right.pattern[:200] + "..."
        return Verdict(
            clause,
            self.case.id,
            self.target,
            Status.FAIL,
            *shape,
            expected=want,
            got={"pattern": shown, "result": got},
            note=note[:300],
        )

    def unsupported(self, reason: str) -> Iterator[Verdict]:
        clauses = ["G-END-1", "G-MEM-1", "G-CRASH-1", "G-REFUSE-1", *self.right.topics]
        for clause in clauses:
            yield Verdict(clause, self.case.id, self.target, Status.UNSUPPORTED, note=reason[:300])


def _process(speak: _Speaker, observation: Observation) -> Iterator[Verdict]:
    """Time, memory, life of the process, and the way of refusing: one verdict each."""
    outcome = observation.outcome
    failures: dict[str, tuple[tuple[str, str, str], str]] = {}
    if outcome in STOPPED:
        clause, what = STOPPED[outcome]
        failures[clause] = (("limits", what, "exceeded"), "an answer or a refusal within the limit")
    elif outcome is Outcome.CRASHED:
        failures["G-CRASH-1"] = (("process", "life", "ended"), "the process stays alive")
    elif outcome is Outcome.FAILED:
        failures["G-REFUSE-1"] = (("compile", "refusal", "internal-error"), "an answer, or an error raised on purpose")
    for clause, (shape, want) in failures.items():
        yield speak.failed(clause, shape, want, outcome.value, observation.detail)
    if outcome in (Outcome.ANSWERED, Outcome.REFUSED, Outcome.FAILED):  # else nothing more is known than how it ended
        yield from (speak.passed(clause) for clause in ("G-END-1", "G-MEM-1", "G-CRASH-1"))
    if not failures:
        yield speak.passed("G-REFUSE-1", decision=outcome is Outcome.REFUSED)
    deep = "depth:large" in speak.right.features
    if deep and failures:
        shape, want = next(iter(failures.values()))
        yield speak.failed("G-DEPTH-1", shape, want, outcome.value, observation.detail)
    elif deep:
        yield speak.passed("G-DEPTH-1", decision=outcome is Outcome.REFUSED)


def _decision(speak: _Speaker, observation: Observation) -> Iterator[Verdict]:
    """What it decided: about the expression, its strings, the second time, and afterwards."""
    payload, right = observation.payload, speak.right
    if not _well_formed(payload, len(right.probes)):
        shape = ("compile", "payload", "malformed")
        yield speak.failed("G-REFUSE-1", shape, "decision, accepts, again, after", payload)
        return
    compiled = payload["decision"] == "compiled"
    yield from _about_itself(speak, payload)
    if right.odd in INVALID:
        if compiled:
            yield speak.failed("G-INVALID-1", ("compile", "invalid", "accepted"), "refused", "compiled")
        else:
            yield speak.passed("G-INVALID-1", decision=True)
        return
    if right.ordinary:
        if compiled:
            yield speak.passed("G-PLAIN-1")
        else:
            shape = ("compile", "ordinary", "refused")
            yield speak.failed("G-PLAIN-1", shape, "compiled", payload["decision"], str(payload["reason"]))
    if compiled:
        yield from _strings(speak, payload["accepts"])
    elif right.odd in ESCAPES:
        yield speak.passed("G-ESCAPE-1", decision=True)
    else:
        for clause in {"G-LOOK-1", "G-BACKREF-1", "G-ANCHOR-1"} & set(right.topics):
            yield speak.passed(clause, decision=True)


def _well_formed(payload: Any, probes: int) -> bool:
    if not isinstance(payload, dict) or payload.get("decision") not in ("compiled", "refused"):
        return False
    accepts = payload.get("accepts")
    wanted = probes if payload["decision"] == "compiled" else 0
    return (
        isinstance(accepts, list)
        and len(accepts) == wanted
        and all(a is None or type(a) is bool for a in accepts)
        and isinstance(payload.get("after"), dict)
        and "again" in payload
        and isinstance(payload.get("reason"), str)
    )


def _about_itself(speak: _Speaker, payload: dict[str, Any]) -> Iterator[Verdict]:
    after, again = payload["after"], payload["again"]
    if after.get("decision") == "compiled" and after.get("accepts") == AFTER_ACCEPTS:
        yield speak.passed("G-AFTER-1")
    else:
        want = {"pattern": AFTER_PATTERN, "accepts": AFTER_ACCEPTS}
        yield speak.failed("G-AFTER-1", ("after", "ordinary", "changed"), want, after)
    if again is not None:
        first = {"decision": payload["decision"], "accepts": payload["accepts"]}
        second = {"decision": again.get("decision"), "accepts": again.get("accepts")}
        if first == second:
            yield speak.passed("G-SAME-1")
        else:
            yield speak.failed("G-SAME-1", ("again", "decision", "changed"), first, second)


def _strings(speak: _Speaker, accepts: list[bool | None]) -> Iterator[Verdict]:
    """Members and outsiders; where the compiler gave up on a string (None) it made no decision."""
    right = speak.right
    rows = list(zip(right.probes, right.memberships, accepts, strict=True))
    refused = next((text for text, is_, said in rows if is_ is Membership.IN and said is False), None)
    taken = next((text for text, is_, said in rows if is_ is Membership.OUT and said is True), None)
    lost = speak_member(speak, "G-MEMBER-1", refused)
    gained = speak_outsider(speak, "G-MEMBER-2", taken)
    if any(is_ is Membership.IN and said is not None for _, is_, said in rows) and right.odd not in ESCAPES:
        yield lost or speak.passed("G-MEMBER-1")
    if any(is_ is Membership.OUT and said is not None for _, is_, said in rows) and right.odd not in ESCAPES:
        yield gained or speak.passed("G-MEMBER-2")
        yield from _whole(speak, rows)
    if right.odd in ESCAPES:
        yield speak_outsider(speak, "G-ESCAPE-1", taken) or speak.passed("G-ESCAPE-1")
    for clause in right.topics:
        if not any(is_ in (Membership.IN, Membership.OUT) for is_ in right.memberships):
            continue
        yield speak_member(speak, clause, refused) or speak_outsider(speak, clause, taken) or speak.passed(clause)


def speak_member(speak: _Speaker, clause: str, text: str | None) -> Verdict | None:
    """The verdict that a member was refused, if one was."""
    if text is None:
        return None
    return speak.failed(clause, ("match", "string", "misjudged"), {"string": text, "accepted": True}, False)


def speak_outsider(speak: _Speaker, clause: str, text: str | None) -> Verdict | None:
    """The verdict that an outsider was accepted, if one was."""
    if text is None:
        return None
    return speak.failed(clause, ("match", "string", "misjudged"), {"string": text, "accepted": False}, True)


def _whole(speak: _Speaker, rows: list[tuple[str, Membership, bool | None]]) -> Iterator[Verdict]:
    """Outsiders that are a proper prefix of a member, or a member with a tail."""
    inside = [text for text, is_, _ in rows if is_ is Membership.IN]
    edges = [
        (text, said)
        for text, is_, said in rows
        if is_ is Membership.OUT and any(m.startswith(text) or text.startswith(m) for m in inside)
    ]
    if edges:
        taken = next((text for text, said in edges if said is True), None)
        yield speak_outsider(speak, "G-WHOLE-1", taken) or speak.passed("G-WHOLE-1")


def _agreement(case: Case, right: Expected, observations: Mapping[str, Observation]) -> Iterable[Verdict]:
    """Strings that no source decides: those who compiled the expression compare their answers."""
    open_ = [n for n, is_ in enumerate(right.memberships) if is_ is Membership.OPEN]
    if not open_ or right.odd in INVALID or right.odd in ESCAPES:
        return
    answers = {
        target: tuple(o.payload["accepts"][n] for n in open_)
        for target, o in sorted(observations.items())
        if o.outcome is Outcome.ANSWERED and _well_formed(o.payload, len(right.probes))
    }
    answers = {target: said for target, said in answers.items() if None not in said}
    if len(answers) < 2:
        return
    if right.odd:
        clause, field = "G-DIALECT-1", "dialect"
    elif any(isinstance(n, Dot) for n in walk(right.node)):
        clause, field = "G-DOT-1", "dot"
    else:
        clause, field = "G-SHORT-1", "shorthand"
    counts = Counter(answers.values())
    most = max(counts.values())
    common = [said for said in counts if counts[said] == most]  # of several nobody is the odd one out: all differ
    strings = [right.probes[n] for n in open_]
    for target, said in answers.items():
        speak = _Speaker(case, target, right)
        other = next((c for c in common if c != said), said)
        if other == said:
            yield speak.passed(clause)
        else:
            want, got = dict(zip(strings, other, strict=True)), dict(zip(strings, said, strict=True))
            failed = speak.failed(clause, ("agree", field, "differs"), want, got)
            yield msgspec.structs.replace(failed, peers=tuple(t for t, theirs in answers.items() if theirs != said))
