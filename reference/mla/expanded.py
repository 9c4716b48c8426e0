"""The expanded algebra: keys and values of every head are computed from the latent rows, then attended as usual.

    key[h, j]   = [w_uk[h] @ latent[j], rope[j]]        value[h, j] = latent[j] @ w_uv[h]
    out[h]      = softmax_j(scale * [q_nope[h], q_rope[h]] . key[h, j]) @ value[h]

Mathematically equal to the absorbed algebra, by another order of the products; so the two are each other's first
oracle. Source: DeepSeek-V2 (arXiv:2405.04434), section 2.1.2. Two passes over the scores, no running maximum: it shares
no code with ``absorbed`` beyond the pages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from reference.mla.absorbed import Attention
from reference.mla.cache import PagedCache


def attend(
    query_nope: npt.NDArray[Any],
    query_rope: npt.NDArray[Any],
    w_uk: npt.NDArray[Any],
    w_uv: npt.NDArray[Any],
    cache: PagedCache,
    scale: float,
) -> Attention:
    """One decode step of a batch, per head and per key.

    :param query_nope: ``[B, H, nope]``
    :param query_rope: ``[B, H, rope]``, already rotated
    :param w_uk: ``[H, nope, latent]``
    :param w_uv: ``[H, latent, value]``
    :return: ``out`` ``[B, H, value]``, ``lse`` ``[B, H]``, float64
    """
    batch, heads = query_nope.shape[:2]
    latent = cache.geometry.latent
    out = np.zeros((batch, heads, w_uv.shape[2]))
    lse = np.full((batch, heads), -np.inf)
    for b in range(batch):
        rows = cache.rows(b)
        if rows.shape[0] == 0:
            continue
        for h in range(heads):
            keys = rows[:, :latent] @ w_uk[h].astype(np.float64).T
            values = rows[:, :latent] @ w_uv[h].astype(np.float64)
            scores = scale * (keys @ query_nope[b, h].astype(np.float64))
            scores += scale * (rows[:, latent:] @ query_rope[b, h].astype(np.float64))
            top = scores.max()
            weights = np.exp(scores - top)
            total = weights.sum()
            out[b, h] = (weights / total) @ values
            lse[b, h] = top + np.log(total)
    return Attention(out, lse)


def decode(query: npt.NDArray[Any], cache: PagedCache, scale: float) -> Attention:
    """The decode step of ``absorbed.decode`` through this algebra, with selectors as projections.

    :param query: ``[B, H, row]``; the latent part is its own expanded query under ``w_uk = w_uv = identity``
    """
    heads, latent = query.shape[1], cache.geometry.latent
    identity = np.broadcast_to(np.eye(latent), (heads, latent, latent))
    return attend(query[..., :latent], query[..., latent:], identity, identity, cache, scale)
