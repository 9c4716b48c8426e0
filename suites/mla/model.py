"""A decode kernel in NumPy that rounds as the real one does, with switches for what can go wrong in one.

Per sequence and block of 16 keys: scores in float32 (36 steps of 16 lanes, then four levels of adding the lanes), a
softmax of the block, its product with the values, and a merge through log-sum-exp. It serves as the honest twin of a
kernel and, with one switch thrown, as a planted fault. Exponentials are taken in float64 and rounded, so that the error
of NumPy's float32 ones does not count against the bound.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]

LANES = 16
ROW = 576


class Switches(msgspec.Struct, frozen=True):
    """All as they should be by default.

    ``score`` and ``value`` are the columns that count in a score and that make a value; ``narrow`` a NumPy float type
    for the accumulators; ``backward`` takes the blocks from last to first, which is honest; ``two_pass`` takes one
    softmax over all keys, which is too.
    """

    score: tuple[int, int] = (0, ROW)
    value: tuple[int, int] = (0, 512)
    block: int = 16
    narrow: str = "float32"
    backward: bool = False
    fma_dropped: bool = False  # the result of the fused multiply-add is thrown away
    not_reset: bool = False  # a block's accumulator starts with what the block before left
    no_maximum: bool = False  # exp of the score itself
    plain_mean: bool = False  # blocks merged without regard to their log-sum-exp
    base_2: bool = False  # blocks merged with powers of two of natural logarithms
    position_bias: float = 0.0  # added to a score for each position
    weight_bits: int = 24  # significand of the weights


def scores(query: Floats, rows: Floats, scale: float, switches: Switches) -> Floats:
    """``[H, n]``, rounded as the kernel rounds."""
    kind = np.dtype(switches.narrow)
    lanes = np.zeros((query.shape[0], rows.shape[0], LANES), dtype=kind)
    first, last = switches.score
    q, k = query.astype(kind), rows.astype(kind)
    if not switches.fma_dropped:
        for start in range(first, last, LANES):
            lanes += q[:, None, start : start + LANES] * k[None, :, start : start + LANES]
    width = LANES
    while width > 1:
        width //= 2
        lanes = lanes[..., :width] + lanes[..., width : 2 * width]
    return np.asarray(lanes[..., 0] * kind.type(scale))


def _exp(x: Floats) -> Floats:
    return np.asarray(np.exp(x.astype(np.float64)).astype(x.dtype))


def _log(x: Floats) -> Floats:
    return np.asarray(np.log(x.astype(np.float64)).astype(x.dtype))


def _cut(weights: Floats, bits: int) -> Floats:
    """Round weights to ``bits`` significant bits."""
    if bits >= 24:
        return weights
    mantissa, exponent = np.frexp(weights.astype(np.float64))
    return np.ldexp(np.rint(mantissa * 2.0**bits) / 2.0**bits, exponent).astype(weights.dtype)


def attend(query: Floats, rows: Floats, scale: float, switches: Switches) -> tuple[Floats, Floats]:
    """Attention of H queries over n >= 1 rows, float32: ``[H, 512]`` and the log-sum-exp ``[H]``."""
    kind = np.dtype(switches.narrow)
    heads, n = query.shape[0], rows.shape[0]
    all_scores = scores(query, rows, scale, switches)
    if switches.position_bias:
        all_scores = (all_scores + kind.type(switches.position_bias) * np.arange(n, dtype=kind)).astype(kind)
    width = switches.value[1] - switches.value[0]
    out, lse = np.zeros((heads, width), dtype=kind), np.full(heads, np.finfo(kind).min, dtype=kind)
    part = np.zeros((heads, width), dtype=kind)
    starts = list(range(0, n, switches.block))
    for count, start in enumerate(reversed(starts) if switches.backward else starts):
        block = all_scores[:, start : start + switches.block]
        values = rows[start : start + switches.block, switches.value[0] : switches.value[1]].astype(kind)
        top = np.zeros(heads, dtype=kind) if switches.no_maximum else block.max(axis=1)
        weights = _exp(block - top[:, None])
        total = np.zeros(heads, dtype=kind)
        for j in range(block.shape[1]):
            total = total + weights[:, j]
        if not switches.not_reset:
            part = np.zeros((heads, width), dtype=kind)
        for j in range(block.shape[1] if not switches.fma_dropped else 0):
            part = part + _cut(weights[:, j] / total, switches.weight_bits)[:, None] * values[j]
        mine = _log(total) + top
        out, lse = _merge(out, lse, part, mine, count, switches)
    return out.astype(np.float32), lse.astype(np.float32)


def _merge(
    out: Floats, lse: Floats, part: Floats, mine: Floats, count: int, switches: Switches
) -> tuple[Floats, Floats]:
    top = np.maximum(lse, mine)
    top = np.where(np.isnan(mine), mine, top)
    power = (lambda x: np.exp2(x).astype(x.dtype)) if switches.base_2 else _exp
    before, now = power(lse - top), power(mine - top)
    if switches.plain_mean:
        before, now = np.full_like(before, count), np.ones_like(now)
    total = before + now
    merged = out * (before / total)[:, None] + part * (now / total)[:, None]
    return np.asarray(merged), np.asarray(_log(total) + top)
