"""Rotary position embedding in float64, in both element orders that are in use.

A rotation by ``position * base**(-2 i / width)`` acts on the i-th pair of elements. ``interleaved`` pairs neighbours
(0,1), (2,3) ...; ``half`` pairs element i with i + width/2. DeepSeek checkpoints are interleaved; an implementation
that permutes the weights first may use ``half``. The two give different scores for one and the same vector unless both
query and key are permuted, and the difference is zero at position 0, so a test must look beyond it.
Source: RoFormer (arXiv:2104.09864), section 3.2.2.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]
Order = Literal["interleaved", "half"]


def angles(positions: npt.NDArray[Any], width: int, base: float = 10000.0) -> Float64:
    """Angles in radians, ``[*positions.shape, width // 2]`` float64.

    :param positions: token positions, integers, any shape
    :raises ValueError: ``width`` is odd, so that an element would have no partner
    """
    if width % 2:
        raise ValueError(f"rotary width {width} is odd; elements are rotated in pairs")
    frequencies = base ** (-np.arange(0, width, 2, dtype=np.float64) / width)
    return np.asarray(positions, dtype=np.float64)[..., None] * frequencies


def rotate(vectors: npt.NDArray[Any], positions: npt.NDArray[Any], order: Order, base: float = 10000.0) -> Float64:
    """Rotate ``vectors[..., width]`` by their ``positions[...]`` (broadcast over the leading axes); float64.

    :raises ValueError: odd width, or an order that is neither ``interleaved`` nor ``half``
    """
    x = np.asarray(vectors, dtype=np.float64)
    theta = angles(positions, x.shape[-1], base)
    cos, sin = np.cos(theta), np.sin(theta)
    out = np.empty(np.broadcast_shapes(x.shape, (*theta.shape[:-1], x.shape[-1])), dtype=np.float64)
    if order == "interleaved":
        first, second = slice(0, None, 2), slice(1, None, 2)
    elif order == "half":
        middle = x.shape[-1] // 2
        first, second = slice(0, middle), slice(middle, None)
    else:
        raise ValueError(f"rotary order {order!r} is unknown; use 'interleaved' or 'half'")
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., second] * cos + x[..., first] * sin
    return out


def to_half(vectors: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Reorder interleaved pairs into halves, same shape and dtype.

    ``rotate(to_half(x), p, "half")`` equals ``to_half(rotate(x, p, "interleaved"))``.
    """
    return np.concatenate([vectors[..., 0::2], vectors[..., 1::2]], axis=-1)
