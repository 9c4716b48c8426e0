"""How far an honest implementation of one decode step may be off, per output element. Derived, not measured.

``docs/explanation/mla-bounds.md`` has the derivation, step by step, with the names used here. In short: errors of a
score, of an exponential and of a merge change the *weights* of a softmax average by factors ``1 + eps_j``, and the
average moves by a covariance, ``sum_j p_j eps_j (v_j - o)``, which is small where the values agree. Errors of the
products and sums with the values do not cancel like that and count against ``sum_j p_j |v_j|``. One rounding per store
comes last.

The worst-case form is a proof for every implementation that its :class:`Arithmetic` describes, and is what a verdict
rests on. The statistical form takes roundings as independent, 3 sigma, and is reported beside it.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from reference.mla.floats import FORMATS, Format, ulp

Float64 = npt.NDArray[np.float64]
Form = Literal["worst", "statistical"]


class Arithmetic(msgspec.Struct, frozen=True):
    """What a bound has to know of an implementation. Counts are of roundings, each of relative size ``unit``.

    ``score``: on the way of one score (products, additions, the scale); ``None`` means a sum in any order, one rounding
    per element and four for the scale. ``exponential``: error of one exponential or logarithm in units. ``block``: keys
    per partial softmax that is merged through logarithms, ``None`` for a softmax in two passes. ``threads``: partial
    results that are merged at the end. ``score_store``, ``weight_store``: formats that scores or weights are rounded to
    on the way, each a store of its own. The output is one more store, in the format of the operands.
    """

    name: str
    unit: float = 2.0**-24
    score: int | None = None
    exponential: int = 8
    block: int | None = None
    threads: int = 1
    score_store: str = ""
    weight_store: str = ""

    @property
    def stores(self) -> int:
        """Roundings into a storage format, the output included."""
        return 1 + bool(self.score_store) + bool(self.weight_store)


# 36 fused steps of 16 lanes, one for a product that is not fused, 4 levels of adding the lanes, scale rounded and
# applied. vLLM's AVX2, AVX512 and NEON builds have these; the bfloat16 dot instruction has 18 steps of two products,
# which is no more, and flushes subnormals.
BLOCKED = Arithmetic("blocked-float32", score=43, exponential=4, block=16)
ANY_ORDER = Arithmetic("any-order-float32")


class Spread(msgspec.Struct, frozen=True):
    """A bound for one sequence, absolute, float64: ``inner`` and ``step`` ``[H, width]``, ``lse`` ``[H]``.

    ``inner`` bounds the error before the result is stored, ``step`` is the distance between the numbers of the storage
    format there.
    """

    inner: Float64
    step: Float64
    flush: float
    lse: Float64

    @property
    def nearest(self) -> Float64:
        """Bound where the result is rounded to nearest: half a step on top."""
        return self.inner + 0.5 * self.step + self.flush

    @property
    def faithful(self) -> Float64:
        """Bound where it may be rounded to either neighbour, truncation included: a whole step on top."""
        return self.inner + self.step + self.flush


def bound(
    query: npt.NDArray[Any],
    rows: npt.NDArray[Any],
    scale: float,
    width: int,
    arithmetic: Arithmetic,
    output: Format,
    form: Form = "worst",
) -> Spread:
    """Bound the error of one sequence. All inputs finite.

    :param query: ``[H, row]`` float64, the stored numbers exactly
    :param rows: ``[n, row]`` float64, the same
    :param scale: softmax scale
    :param width: leading elements of a row that are its value
    :param output: the format that the result is stored in
    :raises ValueError: an operand that is not finite, for which no bound exists
    """
    heads, n = query.shape[0], rows.shape[0]
    if n == 0:
        nothing = np.zeros((heads, width))
        return Spread(nothing, nothing, 0.0, np.zeros(heads))
    if not (np.isfinite(query).all() and np.isfinite(rows).all()):
        raise ValueError("a bound needs finite operands; leave out the heads and sequences that hold NaN or inf")
    scores = scale * (query @ rows.T)
    top = scores.max(axis=1)
    weights = np.exp(scores - top[:, None])
    total = weights.sum(axis=1)
    weights /= total[:, None]
    level = np.abs(scores).max(axis=1) + np.log(n)
    log = _log_errors(query, rows, scale, scores, level, arithmetic, form)
    with np.errstate(over="ignore"):
        eps = np.expm1(np.minimum(log, 700.0))
    alpha, beta = (arithmetic.unit * _count(c, form) for c in _value_counts(n, arithmetic))
    floor = _flushed(n, arithmetic)
    if arithmetic.weight_store:
        store = FORMATS[arithmetic.weight_store]
        alpha += store.unit
        floor += n * store.tiny * store.unit
    values = rows[:, :width]
    size = np.abs(values)
    largest, highest, lowest = size.max(axis=0), values.max(axis=0), values.min(axis=0)
    inner, gap = np.empty((heads, width)), np.empty((n, width))
    centre = weights @ values
    for h in range(heads):
        np.abs(np.subtract(values, centre[h], out=gap), out=gap)
        slack = float(weights[h] @ eps[h])
        # These two hold for any weights that are positive and add up to 1.
        moved, mass = np.maximum(highest - centre[h], centre[h] - lowest), largest
        if slack < 0.5:
            moved = np.minimum(moved, (weights[h] * eps[h]) @ gap / (1.0 - slack))
            mass = np.minimum(mass, (weights[h] * (1.0 + eps[h])) @ size / (1.0 - slack))
        carried = (alpha * mass + beta * (np.abs(centre[h]) + moved)) / (1.0 - beta)
        inner[h] = (moved + carried + floor * largest) * SECOND_ORDER
    # A result below the smallest normal number may be stored as zero; float16 units do not do that.
    flush = 0.0 if output.name == "float16" else output.tiny
    lse = (log.max(axis=1) + arithmetic.unit * (level + 2 * arithmetic.exponential) + beta) * SECOND_ORDER
    lse = lse + ulp(FORMATS["float32"], np.abs(top + np.log(total)) + lse)
    return Spread(inner, ulp(output, np.abs(centre) + inner), flush, lse)


SECOND_ORDER = 1.0 + 2.0**-10
"""Covers products of two errors, ``k u / (1 - k u)`` against ``k u`` up to 16,000 roundings, and the oracle's own."""


def _count(roundings: int, form: Form) -> float:
    """Roundings add up in the worst case; taken as independent they spread with the root, here 3 sigma."""
    return float(roundings) if form == "worst" else 3.0 * float(np.sqrt(roundings))


def _log_errors(
    query: Float64, rows: Float64, scale: float, scores: Float64, level: Float64, arithmetic: Arithmetic, form: Form
) -> Float64:
    """``[H, n]``: bound on the error of the logarithm of each weight, before normalising."""
    unit, factor = arithmetic.unit, abs(scale)
    roundings = arithmetic.score if arithmetic.score is not None else query.shape[1] + 4
    if form == "worst":
        dot = roundings * (factor * (np.abs(query) @ np.abs(rows).T))
    else:
        dot = _count(roundings, form) * (factor * np.sqrt(query**2 @ (rows**2).T) + np.abs(scores))
    merged = _count(_merges(rows.shape[0], arithmetic), form) * (3.0 * level + 2.0 * arithmetic.exponential)
    log = unit * (dot + (scores.max(axis=1)[:, None] - scores) + arithmetic.exponential + merged[:, None])
    if arithmetic.score_store:
        store = FORMATS[arithmetic.score_store]
        log = log + store.unit * np.abs(scores) + store.tiny
    # Products of subnormals may be flushed.
    tiny = FORMATS["float32"].tiny if unit >= FORMATS["float32"].unit else 0.0
    log = log + factor * tiny * (np.abs(query).sum(axis=1)[:, None] + np.abs(rows).sum(axis=1)[None, :])
    return np.asarray(log * SECOND_ORDER)


def _merges(n: int, arithmetic: Arithmetic) -> int:
    """Merges through logarithms that a key can go through. A single block is merged with nothing, which is exact."""
    if arithmetic.block is None:
        return 0
    blocks = -(-n // arithmetic.block)
    return 0 if blocks == 1 else blocks + arithmetic.threads


def _value_counts(n: int, arithmetic: Arithmetic) -> tuple[int, int]:
    """Roundings against ``sum p |v|`` (products, additions, merges), and of the sum of the weights."""
    if arithmetic.block is None:
        return n + 2, n + 1
    keys = min(n, arithmetic.block)
    return keys + 2 + 6 * _merges(n, arithmetic), keys + 1


def _flushed(n: int, arithmetic: Arithmetic) -> float:
    """Weights below the smallest normal float32 may come out as zero; relative to the largest weight, which is 1."""
    return (n + 1) * FORMATS["float32"].tiny if arithmetic.unit >= FORMATS["float32"].unit else 0.0
