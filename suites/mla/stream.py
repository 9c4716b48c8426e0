"""Counter-based integer streams: the same numbers on every machine, in any order, without libm or a generator's state.

Element i of a stream is a mix of (seed, name, i): two multiplications and three shifts on 64-bit integers, which wrap
the same everywhere (the finaliser of SplitMix64, Steele, Lea and Flood, 2014). A float is an integer divided by a power
of two that its format holds, so it is exact.
"""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def _mix(x: Words) -> Words:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def words(seed: int, name: str, count: int) -> Words:
    """``count`` 64-bit words of the stream ``name``."""
    start = (seed * 0xD1342543DE82EF95 + zlib.crc32(name.encode()) * _GOLDEN) & _MASK
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    return _mix(_mix(steps + np.uint64(start)) ^ np.uint64(start))


def below(seed: int, name: str, count: int, limit: int) -> Ints:
    """``count`` integers from 0 to ``limit - 1``. ``limit`` is at most 2**32, so the bias is below 2**-32."""
    return ((words(seed, name, count) >> np.uint64(32)) * np.uint64(limit) >> np.uint64(32)).astype(np.int64)


def symmetric(seed: int, name: str, shape: tuple[int, ...], largest: int) -> Ints:
    """Integers from ``-largest`` to ``largest`` in the given shape."""
    count = int(np.prod(shape))
    return (below(seed, name, count, 2 * largest + 1) - largest).reshape(shape)


def permutation(seed: int, name: str, count: int) -> Ints:
    """A permutation of 0 .. count - 1: the order of ``count`` words, ties (never seen) broken by position."""
    return np.argsort(words(seed, name, count), kind="stable").astype(np.int64)
