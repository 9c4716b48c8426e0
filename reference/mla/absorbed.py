"""The absorbed algebra: the key projection is folded into the query, so all heads share one latent key and value.

    score[h, j] = scale * query[h] . row[j]          over all 576 elements, latent and rope
    out[h]      = softmax_j(score[h]) @ row[:, :512]
    lse[h]      = ln sum_j exp(score[h, j])

Source: DeepSeek-V2 (arXiv:2405.04434), section 2.1.2 and appendix C.

The order of reduction is this module's own: sequences one at a time, keys in chunks of :data:`CHUNK` from the first to
the last, a running maximum, everything float64, and every sum in spans of :data:`SPAN`. A BLAS splits longer sums where
its number of threads suggests, and takes another path for a single row or column; spans that it need not split and
padding to :data:`TILE` rows and columns keep it from both. So a result depends neither on the batch nor on threads.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from reference.mla.cache import PagedCache

Float64 = npt.NDArray[np.float64]

CHUNK = 1024
"""Keys per step. Fixed, because the order of a sum is part of its result."""

SPAN = 128
"""Products added up in one go by the BLAS: no longer than the shortest inner block of OpenBLAS on any processor."""

TILE = 8
"""Heads and keys are padded with zeros to a multiple of it."""


class Attention(msgspec.Struct, frozen=True):
    """``out`` ``[..., H, width]`` and natural-log ``lse`` ``[..., H]``, float64. Without keys: zeros and -inf."""

    out: Float64
    lse: Float64


def attend_rows(query: npt.NDArray[Any], rows: npt.NDArray[Any], scale: float, width: int) -> Attention:
    """Attention of H queries over n rows.

    :param query: ``[H, row]``
    :param rows: ``[n, row]``; the first ``width`` elements of a row are its value
    :param scale: factor on the scores, applied as given
    """
    heads, n = query.shape[0], rows.shape[0]
    if n == 0:
        return Attention(np.zeros((heads, width)), np.full(heads, -np.inf))
    q = _padded(query) * scale
    top = np.full(q.shape[0], -np.inf)
    total = np.zeros(q.shape[0])
    out = np.zeros((q.shape[0], width))
    for start in range(0, n, CHUNK):
        part = _padded(rows[start : start + CHUNK])
        weights = _product(q, part.T)
        weights[:, min(CHUNK, n - start) :] = -np.inf
        new_top = np.maximum(top, weights.max(axis=1))
        weights -= new_top[:, None]
        np.exp(weights, out=weights)
        if start:
            keep = np.exp(top - new_top)
            total *= keep
            out *= keep[:, None]
        total += weights.sum(axis=1)
        out += _product(weights, part[:, :width])
        top = new_top
    out /= total[:, None]
    return Attention(out[:heads], (top + np.log(total))[:heads])


def _padded(x: npt.NDArray[Any]) -> Float64:
    """float64 with zero rows up to a multiple of :data:`TILE`."""
    count = -(-x.shape[0] // TILE) * TILE
    if count == x.shape[0]:
        return np.asarray(x, dtype=np.float64)
    out = np.zeros((count, x.shape[1]))
    out[: x.shape[0]] = x
    return out


def _product(a: Float64, b: Float64) -> Float64:
    """``a @ b`` with its sums in spans, first to last."""
    out = a[:, :SPAN] @ b[:SPAN]
    part = np.empty_like(out)
    for start in range(SPAN, a.shape[1], SPAN):
        np.matmul(a[:, start : start + SPAN], b[start : start + SPAN], out=part)
        out += part
    return np.asarray(out)


def decode(query: npt.NDArray[Any], cache: PagedCache, scale: float) -> Attention:
    """One decode step of a batch.

    :param query: ``[B, H, row]``, latent part first, both parts already in the cache's basis (absorbed, rotated)
    :param scale: softmax scale, applied as given
    :return: ``out`` ``[B, H, latent]``, ``lse`` ``[B, H]``
    :raises IndexError: a table names a page that is not there
    """
    width = cache.geometry.latent
    parts = [attend_rows(query[b], cache.rows(b), scale, width) for b in range(cache.batch)]
    if not parts:
        return Attention(np.zeros((0, query.shape[1], width)), np.zeros((0, query.shape[1])))
    return Attention(np.stack([p.out for p in parts]), np.stack([p.lse for p in parts]))


def merge(parts: list[Attention]) -> Attention:
    """Join attention over disjoint sets of keys. A part without keys has lse -inf and weighs nothing.

    Shapes as in :func:`decode`, equal for all parts. All parts empty gives zeros and -inf, never NaN.
    """
    lse = np.stack([p.lse for p in parts])
    top = lse.max(axis=0)
    safe = np.where(np.isneginf(top), 0.0, top)
    weights = np.exp(lse - safe)
    total = weights.sum(axis=0)
    mixed = sum(w[..., None] * p.out for w, p in zip(weights, parts, strict=True))
    none = total == 0.0
    out = np.asarray(mixed / np.where(none, 1.0, total)[..., None])
    with np.errstate(divide="ignore"):
        return Attention(out, np.where(none, -np.inf, safe + np.log(total)))


def absorb(query_nope: npt.NDArray[Any], w_uk: npt.NDArray[Any]) -> Float64:
    """Fold the key projection into the query: ``[B, H, nope] x [H, nope, latent] -> [B, H, latent]``."""
    return np.asarray(np.einsum("bhd,hdc->bhc", query_nope.astype(np.float64), w_uk.astype(np.float64)))


def project(latent: npt.NDArray[Any], w_uv: npt.NDArray[Any]) -> Float64:
    """Bring the latent result to values: ``[B, H, latent] x [H, latent, value] -> [B, H, value]``."""
    return np.asarray(np.einsum("bhc,hcv->bhv", latent.astype(np.float64), w_uv.astype(np.float64)))
