"""The absorbed algebra: the key projection is folded into the query, so all heads share one latent key and value.

    score[h, j] = scale * query[h] . row[j]          over all 576 elements, latent and rope
    out[h]      = softmax_j(score[h]) @ row[:, :512]
    lse[h]      = ln sum_j exp(score[h, j])

Source: DeepSeek-V2 (arXiv:2405.04434), section 2.1.2 and appendix C.

The order of reduction is this module's own: sequences one at a time, keys in chunks of :data:`CHUNK` from the first to
the last, a running maximum, everything float64. So the result of a sequence does not depend on what else is in the
batch, and on the number of threads only if the BLAS under NumPy does (a test watches that it does not).
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
    out = np.zeros((heads, width))
    if n == 0:
        return Attention(out, np.full(heads, -np.inf))
    q = np.asarray(query, dtype=np.float64) * scale
    top = np.full(heads, -np.inf)
    total = np.zeros(heads)
    for start in range(0, n, CHUNK):
        part = np.asarray(rows[start : start + CHUNK], dtype=np.float64)
        weights = q @ part.T
        new_top = np.maximum(top, weights.max(axis=1))
        weights -= new_top[:, None]
        np.exp(weights, out=weights)
        if start:
            keep = np.exp(top - new_top)
            total *= keep
            out *= keep[:, None]
        total += weights.sum(axis=1)
        out += weights @ part[:, :width]
        top = new_top
    out /= total[:, None]
    return Attention(out, top + np.log(total))


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
