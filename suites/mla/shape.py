"""The shape of a numeric difference: what kind of wrong a result is, so that one cause keeps one name.

The order of the tests is the order of precedence: what was never written explains the rest, a result that is zero
throughout explains a missing NaN, and so on to ``value``, which is all that nothing better describes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from reference.mla import absorbed
from reference.mla.geometry import DEEPSEEK
from suites.mla.oracle import Bool, Call, Float64


class Difference(msgspec.Struct, frozen=True):
    """What is wrong: ``change`` names the kind, ``note`` says more for a reader, ``expected`` and ``got`` a sample."""

    change: str
    note: str
    expected: dict[str, Any]
    got: dict[str, Any]
    ratio: float | None


class Result(msgspec.Struct, frozen=True):
    """A result beside what it should be, all ``[B, H, 512]``: ``unwritten`` marks what the target never wrote."""

    got: Float64
    unwritten: Bool
    tolerance: Float64
    call: Call

    @property
    def wrong(self) -> Bool:
        """Elements that are off: beyond the tolerance, NaN or infinite where a number belongs, or never written."""
        clean = self.call.clean[..., None]
        with np.errstate(invalid="ignore"):
            far = ~(np.abs(self.got - self.call.out) <= self.tolerance)
        hidden = np.isfinite(self.got)
        return np.asarray(self.unwritten | np.where(clean, far, hidden & self.must_be_nan))

    @property
    def must_be_nan(self) -> Bool:
        """Where a NaN took part, so that the result has to be one; an infinity may end as anything."""
        query_nan = np.isnan(self.call.query).any(axis=2)
        rows_nan = np.array([bool(np.isnan(r).any()) for r in self.call.rows])
        return np.asarray((query_nan | rows_nan[:, None])[..., None] & ~self.call.clean[..., None])


def ratio(result: Result) -> float:
    """The largest error over its bound where numbers are compared; infinite where one is not finite."""
    clean = np.broadcast_to(result.call.clean[..., None], result.got.shape)
    if not clean.any():
        return 0.0
    error = np.abs(result.got - result.call.out)[clean]
    bounds = result.tolerance[clean]
    if not np.isfinite(error).all():
        return float("inf")
    return float((error / np.where(bounds > 0.0, bounds, np.where(error > 0.0, 1e-300, 1.0))).max())


def difference(result: Result) -> Difference | None:
    """Name the kind of difference; None where nothing is wrong."""
    wrong = result.wrong
    if not wrong.any():
        return None
    change = next(name for name, test in TESTS if test(result))
    b, h, d = (int(i) for i in _worst_element(result, wrong))
    sample = {"sequence": b, "head": h, "element": d}
    where = f"{int(wrong.any(axis=(1, 2)).sum())} of {wrong.shape[0]} sequence(s), "
    where += (
        f"{int(wrong.any(axis=2).sum())} of {wrong.shape[0] * wrong.shape[1]} head(s), {int(wrong.sum())} element(s)"
    )
    return Difference(
        change=change,
        note=f"wrong in {where}{_hint(result, wrong)}",
        expected={**sample, "value": _plain(result.call.out[b, h, d]), "bound": _plain(result.tolerance[b, h, d])},
        got={**sample, "value": "not written" if result.unwritten[b, h, d] else _plain(result.got[b, h, d])},
        ratio=_finite(ratio(result)),
    )


def _plain(x: Any) -> float | str:
    value = float(x)
    return value if np.isfinite(value) else repr(value)


def _finite(x: float) -> float | None:
    return x if np.isfinite(x) else None


def _worst_element(result: Result, wrong: Bool) -> tuple[Any, ...]:
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = np.abs(result.got - result.call.out) / result.tolerance
    excess = np.where(wrong, np.where(np.isnan(excess), np.inf, excess), -1.0)
    return np.unravel_index(int(excess.argmax()), wrong.shape)


def _unwritten(result: Result) -> bool:
    return bool(result.unwritten.any())


def _zero(result: Result) -> bool:
    """Zero wherever something else belongs, NaN included."""
    belongs = np.abs(np.where(np.isnan(result.call.out), np.inf, result.call.out)) > result.tolerance
    return bool((result.got[belongs] == 0.0).all())


def _nan(result: Result) -> bool:
    clean = np.broadcast_to(result.call.clean[..., None], result.got.shape)
    return bool((~np.isfinite(result.got) & clean).any())


def _hidden(result: Result) -> bool:
    return bool((np.isfinite(result.got) & result.must_be_nan).any())


def _permuted(axis: int) -> Callable[[Result], bool]:
    """Whether every wrong slice along ``axis`` equals the expectation of another one."""

    def test(result: Result) -> bool:
        out, got, bounds = result.call.out, result.got, result.tolerance
        size = out.shape[axis]
        if size < 2 or not result.call.clean.all():
            return False
        for i in range(size):
            mine = got.take(i, axis)
            if not any(
                (np.abs(mine - out.take(k, axis)) <= np.maximum(bounds.take(k, axis), bounds.take(i, axis))).all()
                for k in range(size)
            ):
                return False
        return True

    return test


def _scaled(result: Result) -> bool:
    """Whether one factor explains all: got = factor * expected, the factor not 1."""
    out, got, bounds = result.call.out, result.got, result.tolerance
    strong = (np.abs(out) > 100.0 * bounds) & np.isfinite(out) & np.isfinite(got)
    if strong.sum() < 16:
        return False
    factor = float(np.median(got[strong] / out[strong]))
    finite = np.isfinite(out)
    return bool((np.abs(got - factor * out)[finite] <= (2.0 * max(1.0, abs(factor)) * bounds)[finite]).all())


TESTS: tuple[tuple[str, Callable[[Result], bool]], ...] = (
    ("unwritten", _unwritten),
    ("zero", _zero),
    ("nan", _nan),
    ("hidden-nan", _hidden),
    ("heads-permuted", _permuted(1)),
    ("sequences-permuted", _permuted(0)),
    ("scaled", _scaled),
    ("value", lambda _result: True),
)


def _hint(result: Result, wrong: Bool) -> str:
    """More for the reader: whether the result is that of fewer tokens, or just outside its bound."""
    worst = ratio(result)
    if worst < 4.0:
        return f"; outside the bound by a factor of {worst:.3g}"
    block = DEEPSEEK.block
    for b in np.nonzero(wrong.any(axis=(1, 2)))[0][:1]:
        rows, n = result.call.rows[b], result.call.rows[b].shape[0]
        if n < 2 or not result.call.clean[b].all():
            break
        last = (n - 1) // block * block
        cuts = {
            "the first token is missing": rows[1:], "the last token is missing": rows[:-1],
            "the first page is missing": rows[block:], "the last page is missing": rows[:last],
            "only the first page is attended": rows[:block],
        }  # fmt: skip
        for text, kept in cuts.items():
            if 0 < kept.shape[0] < n:
                other = absorbed.attend_rows(result.call.query[b], kept, result.call.scale, DEEPSEEK.latent).out
                if (np.abs(other - result.got[b]) <= 4.0 * result.tolerance[b]).all():
                    return f"; it looks as if {text}"
    return ""


def unwritten(data: npt.NDArray[Any], dtype: str) -> Bool:
    """Where a stored result still holds the marked NaN that it was filled with before the call."""
    marks = {"float32": (np.uint32, 0x7FC05A5A), "bfloat16": (np.uint16, 0x7FDA), "float16": (np.uint16, 0x7E5A)}
    kind, mark = marks[dtype]
    return np.asarray(data.view(kind) == mark)
