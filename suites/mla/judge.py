"""Judge the answers to one case: a pure function of the case, its arrays and what the targets returned.

A numeric result is compared once, element by element, with the float64 result and the bound for the way the target
computes. The kind of difference goes under every clause that the case puts to the test, so that one cause has one shape
whatever the clause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from harness.outcome import Outcome, Status
from harness.records import Case, Observation, Verdict
from harness.targets.base import Blobs
from reference.mla.bound import ANY_ORDER, Arithmetic
from reference.mla.floats import decode, ulp
from suites.mla import shape
from suites.mla.build import chosen
from suites.mla.oracle import ARITHMETIC, Expected, Float64, expected
from suites.mla.shape import Difference, Result
from suites.mla.spec import Spec

STAGE: Final = "decode"
EDGES: Final = frozenset({0, 1, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 255, 256, 257})
DTYPE_CLAUSE: Final = {"float32": "M-FLOAT32-1", "bfloat16": "M-BFLOAT16-1", "float16": "M-FLOAT16-1"}
RELATION_CLAUSE: Final = {"repeat": "M-REPEAT-1", "pages": "M-PAGES-1", "alone": "M-BATCH-1", "keys": "M-KEYS-1"}


def value_clauses(spec: Spec) -> list[str]:
    """The clauses under which the values of the first call are judged."""
    if spec.layout:
        return ["M-INDEX-1" if "int64" in spec.layout.values() else "M-LAYOUT-1"]
    if spec.nonfinite:
        return ["M-NAN-1", "M-NAN-2"] if spec.nonfinite != "query-inf" else ["M-NAN-1"]
    longest, empty = max(spec.lengths), 0 in spec.lengths
    holds = {
        "M-VALUE-1": True,
        DTYPE_CLAUSE[spec.dtype]: True,
        "M-TABLE-1": spec.pages != "in-order" and longest > 16,
        "M-EDGE-1": bool(EDGES & set(spec.lengths)),
        "M-ENDS-1": spec.values in ("one-hot", "one-hot-latent"),
        "M-UNUSED-1": spec.poison != "zero" and (spec.spare > 0 or spec.wide > 0 or any(n % 16 for n in spec.lengths)),
        "M-SCALE-1": longest > 1 and spec.values not in ("uniform", "one-hot", "one-hot-latent"),
        "M-ROPE-1": longest > 1 and spec.values != "uniform",
        "M-LATENT-1": longest > 1,
        "M-HEADS-1": spec.heads > 1,
        "M-SHARED-1": spec.pages == "shared" and sum(n > 0 for n in spec.lengths) > 1,
        "M-EMPTY-1": empty,
        "M-THREADS-1": spec.threads > 1,
        "M-LARGE-1": spec.values == "large",
    }
    return [clause for clause, applies in holds.items() if applies]


def clauses_of(spec: Spec) -> list[str]:
    """All clauses that an answer to this case is judged under, the main one first."""
    found = value_clauses(spec)
    found += ["M-WRITE-1", "M-INPUT-1"]
    if "out" in spec.layout:
        found.append("M-OUTSIDE-1")
    if not spec.layout and not spec.nonfinite:
        found.append("M-ROUND-1")
        if spec.values in ("uniform", "one-hot", "one-hot-latent"):
            found.append("M-EXACT-1")
    if spec.relation:
        found.append(RELATION_CLAUSE[spec.relation])
    return found


def judge(case: Case, observations: Mapping[str, Observation], blobs: Blobs) -> Iterator[Verdict]:
    """All verdicts on one case, target by target."""
    truth = expected(case, blobs)
    for target, observation in observations.items():
        with np.errstate(all="ignore"):
            yield from _One(case, truth, target, observation, blobs).verdicts()


class _One:
    """One answer to one case."""

    def __init__(self, case: Case, truth: Expected, target: str, observation: Observation, blobs: Blobs) -> None:
        self.case, self.truth, self.target, self.observation, self.blobs = case, truth, target, observation, blobs
        self.spec = truth.spec

    def verdict(self, clause: str, status: Status, **more: Any) -> Verdict:
        return Verdict(clause, self.case.id, self.target, status, **more)

    def fail(self, clause: str, field: str, change: str, **more: Any) -> Verdict:
        return self.verdict(clause, Status.FAIL, stage=STAGE, field=field, change=change, **more)

    def verdicts(self) -> Iterable[Verdict]:
        if self.observation.outcome is not Outcome.ANSWERED:
            return self._unanswered()
        problem = self._malformed()
        if problem:
            main = self.fail(value_clauses(self.spec)[0], "answer", "malformed", note=problem)
            return [main, *self._blocked(f"the answer is malformed: {problem}")]
        return self._answered()

    def _unanswered(self) -> Iterator[Verdict]:
        main, outcome = value_clauses(self.spec)[0], self.observation.outcome
        detail = self.observation.detail
        if outcome is Outcome.UNSUPPORTED:
            for clause in clauses_of(self.spec):
                yield self.verdict(clause, Status.UNSUPPORTED, note=detail)
        elif outcome is Outcome.REFUSED and self.spec.layout:
            yield self.verdict(main, Status.PASS, decision=True, note=f"refused: {detail}")
        else:
            yield self.fail(main, "outcome", outcome.value, expected="an answer", got=outcome.value, note=detail)
            yield from self._blocked(f"the call {outcome.value.replace('_', ' ')}")

    def _blocked(self, why: str) -> list[Verdict]:
        return [self.verdict(clause, Status.BLOCKED, note=why) for clause in clauses_of(self.spec)[1:]]

    def _malformed(self) -> str:
        """What is missing in an answer. A missing output must never become a pass."""
        payload, wanted = self.observation.payload, {"": len(self.spec.lengths)}
        if self.spec.relation:
            wanted["2."] = 1 if self.spec.relation == "alone" else wanted[""]
        if not isinstance(payload, dict) or len(payload.get("calls", ())) != len(wanted):
            return f"the report of {len(wanted)} call(s) is missing"
        if payload.get("arithmetic", ANY_ORDER.name) not in ARITHMETIC:
            return f"unknown arithmetic {payload['arithmetic']!r}"
        for prefix, batch in wanted.items():
            ref = self.observation.arrays.get(prefix + "out")
            want = (batch, self.spec.heads, 512)
            if ref is None:
                return f"array {prefix}out is missing"
            if tuple(ref.shape) != want or ref.dtype != self.spec.dtype:
                return f"{prefix}out is {ref.dtype} {list(ref.shape)}, not {self.spec.dtype} {list(want)}"
        return ""

    @property
    def arithmetic(self) -> Arithmetic:
        """How the target computes, with the threads that it reports."""
        payload = self.observation.payload
        base = ARITHMETIC[payload.get("arithmetic", ANY_ORDER.name)]
        return Arithmetic(
            base.name, base.unit, base.score, base.exponential, base.block, max(1, int(payload.get("threads", 1))),
            base.score_store, base.weight_store,
        )  # fmt: skip

    def result(self, prefix: str = "") -> Result:
        data = self.blobs.get(self.observation.arrays[prefix + "out"]).data
        return Result(
            got=decode(self.truth.form, data),
            unwritten=shape.unwritten(np.ascontiguousarray(data), self.spec.dtype),
            tolerance=self.truth.bounds(self.arithmetic, prefix).faithful,
            call=self.truth.call(prefix),
        )

    def _answered(self) -> Iterator[Verdict]:
        first = self.result()
        main = shape.difference(first)
        yield from self._values(first, main)
        yield from self._memory(main)
        if "M-ROUND-1" in clauses_of(self.spec):
            yield self._rounding(first, main)
        if "M-EXACT-1" in clauses_of(self.spec):
            yield from self._exact(first, main)
        if self.spec.relation:
            yield self._relation(first, main)
        yield from self._lse()

    def differs(self, clause: str, what: Difference) -> Verdict:
        return self.fail(
            clause, "out", what.change, expected=what.expected, got=what.got, note=what.note, ratio=what.ratio
        )

    def _values(self, first: Result, main: Difference | None) -> Iterator[Verdict]:
        worst = shape.ratio(first)
        for clause in value_clauses(self.spec):
            if main is not None:
                yield self.differs(clause, main)
            else:
                yield self.verdict(clause, Status.PASS, ratio=worst)
        if main is not None and main.change == "unwritten":
            yield self.differs("M-WRITE-1", main)
        else:
            yield self.verdict("M-WRITE-1", Status.PASS)

    def _memory(self, main: Difference | None) -> Iterator[Verdict]:
        """Inputs stay as they were, and so does the memory between the elements of out."""
        calls = self.observation.payload["calls"]
        modified = sorted({name for call in calls for name in call.get("modified", ())})
        if modified:
            note = f"modified: {', '.join(modified)}"
            yield self.fail("M-INPUT-1", "inputs", "modified", expected=[], got=modified, note=note)
        else:
            yield self.verdict("M-INPUT-1", Status.PASS)
        if "out" in self.spec.layout:
            outside = max(int(call.get("outside", 0)) for call in calls)
            if outside:
                # Who ignores the strides of out writes beside it and leaves gaps in it: one cause, one shape.
                change = main.change if main is not None else "outside"
                note = f"{outside} element(s) beside out were written"
                yield self.fail("M-OUTSIDE-1", "out", change, expected=0, got=outside, note=note)
            else:
                yield self.verdict("M-OUTSIDE-1", Status.PASS)

    def _rounding(self, first: Result, main: Difference | None) -> Verdict:
        """Nearest rounding: within half a step, and no common direction of the errors that half a step would hide."""
        if main is not None:
            return self.verdict("M-ROUND-1", Status.BLOCKED, note=f"the values are wrong ({main.change})")
        error = first.got - first.call.out
        nearest = self.truth.bounds(self.arithmetic).nearest
        far = np.abs(error) > nearest
        if not far.any():
            return self.verdict("M-ROUND-1", Status.PASS)
        b, h, d = (int(i) for i in np.unravel_index(int((np.abs(error) / nearest).argmax()), far.shape))
        inward = float((error * np.sign(first.call.out) < 0.0)[far].mean())
        change = "truncated" if inward > 0.99 else "rounded-away" if inward < 0.01 else "rounding"
        step = ulp(self.truth.form, first.call.out)
        bias = float((error * np.sign(first.call.out) / step)[first.call.out != 0.0].mean())
        return self.fail(
            "M-ROUND-1", "out", change,
            expected={"sequence": b, "head": h, "element": d, "value": float(first.call.out[b, h, d])},
            got={"sequence": b, "head": h, "element": d, "value": float(first.got[b, h, d])},
            note=f"{int(far.sum())} of {far.size} element(s) are not the nearest number; mean error {bias:+.2f} steps "
            "(negative: towards zero)",
            ratio=float((np.abs(error) / nearest).max()),
        )  # fmt: skip

    def _exact(self, first: Result, main: Difference | None) -> Iterator[Verdict]:
        family = self.truth.exact(self.arithmetic)
        if not family:
            return
        if main is not None:
            yield self.differs("M-EXACT-1", main)
            return
        off = {b: first.got[b] != want for b, want in family.items()}
        bad = next((b for b, wrong in off.items() if wrong.any()), None)
        if bad is None:
            yield self.verdict("M-EXACT-1", Status.PASS)
            return
        h, d = (int(i) for i in np.argwhere(off[bad])[0])
        want, got = float(family[bad][h, d]), float(first.got[bad, h, d])
        note = f"{int(off[bad].sum())} element(s) of sequence {bad} differ in their last bits"
        yield self.fail("M-EXACT-1", "out", "inexact", expected=want, got=got, note=note)

    def _relation(self, first: Result, main: Difference | None) -> Verdict:
        """The second call beside the first: the same bits, or within both bounds."""
        clause = RELATION_CLAUSE[self.spec.relation]
        second = self.result("2.")
        index = slice(chosen(self.spec), chosen(self.spec) + 1) if self.spec.relation == "alone" else slice(None)
        one, two = first.got[index], second.got
        if self.spec.relation in ("repeat", "pages"):
            apart = ~((one == two) | (np.isnan(one) & np.isnan(two)))
        else:
            allowed = first.tolerance[index] + second.tolerance
            apart = ~(np.abs(one - two) <= allowed + np.abs(first.call.out[index] - second.call.out))
        if not apart.any():
            return self.verdict(clause, Status.PASS)
        other = shape.difference(second)
        if main is not None or other is not None:
            # The difference has a name already; a relation that breaks with it is no other cause.
            return self.differs(clause, main or other)  # type: ignore[arg-type]
        b, h, d = (int(i) for i in np.argwhere(apart)[0])
        return self.fail(
            clause, "out", f"not-equal-{self.spec.relation}", expected=float(one[b, h, d]), got=float(two[b, h, d]),
            note=f"{int(apart.sum())} of {apart.size} element(s) differ between the two calls",
        )  # fmt: skip

    def _lse(self) -> Iterator[Verdict]:
        """Judged where the target returns one; it is no part of the operation that the kernel has."""
        ref = self.observation.arrays.get("lse")
        if ref is None or self.spec.layout or self.spec.nonfinite:
            return
        got: Float64 = np.asarray(self.blobs.get(ref).data, dtype=np.float64)
        want, bound = self.truth.call().lse, self.truth.bounds(self.arithmetic).lse
        if got.shape != want.shape:
            yield self.fail("M-LSE-1", "lse", "shape", expected=list(want.shape), got=list(got.shape))
            return
        wrong = ~((got == want) | (np.abs(got - want) <= bound))
        finite = np.isfinite(want)
        worst = float((np.abs(got - want)[finite] / bound[finite]).max(initial=0.0))
        if not wrong.any():
            yield self.verdict("M-LSE-1", Status.PASS, ratio=worst)
            return
        b, h = (int(i) for i in np.argwhere(wrong)[0])
        base2 = np.abs(got - want / np.log(2.0))[finite] <= 2.0 * bound[finite]
        change = "base-2" if finite.any() and base2.all() else "value" if wrong[finite].any() else "empty"
        yield self.fail("M-LSE-1", "lse", change, expected=_number(want[b, h]), got=_number(got[b, h]),
                        ratio=worst if np.isfinite(worst) else None)  # fmt: skip


def _number(x: Any) -> float | str:
    return float(x) if np.isfinite(x) else repr(float(x))
