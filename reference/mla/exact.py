"""Families of inputs whose result is known to the last bit, and for which algorithms that may be demanded.

*Uniform*: all scores are zero and the number of keys is a power of two, so every weight is ``1/n`` and the result is
the mean of small integers. *One-hot*: one score is larger than all others by at least :data:`GAP`, so every other
exponential is zero in any format and the result is one row of the cache.

A bitwise comparison is a claim about an algorithm and not about arithmetic alone. A kernel that merges partial results
through exp and log computes ``log 16 + 0`` and an exponential of a difference of such, none of them exact; good builds
differ in the last bits once there are two blocks. So :func:`permitted` looks at the :class:`Arithmetic`. Elsewhere the
bound judges, and the families still show every indexing fault, which is off by far more.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from reference.mla.bound import Arithmetic
from reference.mla.floats import FORMATS, Format, round_to

Float64 = npt.NDArray[np.float64]
Family = Literal["uniform", "one-hot"]

GAP = 1024
"""Distance of scores at which exp underflows to zero in every format up to float64 (which needs 746)."""


def uniform(rows: npt.NDArray[Any], width: int, output: Format) -> Float64:
    """Mean of the values, ``[width]``, rounded once into ``output``. ``rows`` ``[n, row]`` hold integers.

    :raises ValueError: n is not a power of two, an element is not an integer, or the sums leave the exact range
    """
    n = rows.shape[0]
    if n < 1 or n & (n - 1):
        raise ValueError(f"uniform attention is exact for a power of two of keys, not for {n}")
    values = np.asarray(rows[:, :width], dtype=np.float64)
    if not (values == np.rint(values)).all():
        raise ValueError("uniform attention is exact over integers; an element is not one")
    if np.abs(values).sum(axis=0).max(initial=0.0) >= 2 ** FORMATS["float32"].precision:
        raise ValueError("the sum of the values does not fit the significand of float32")
    return round_to(output, values.sum(axis=0) / n)


def one_hot(query: npt.NDArray[Any], rows: npt.NDArray[Any], scale: float, width: int, output: Format) -> Float64:
    """The value of the one key that each head attends to, ``[H, width]``, rounded once into ``output``.

    :raises ValueError: the runner-up is closer than :data:`GAP`; a scale that is no power of two; operands that are not
        integers where the query is not zero, or too large for exact scores
    """
    q, k = np.asarray(query, dtype=np.float64), np.asarray(rows, dtype=np.float64)
    used = np.abs(q).max(axis=0) > 0.0
    q, counted = q[:, used], k[:, used]
    if scale <= 0.0 or np.frexp(scale)[0] != 0.5:
        raise ValueError(f"the scale {scale!r} is no power of two, so the scores are rounded")
    if not ((q == np.rint(q)).all() and (counted == np.rint(counted)).all()):
        raise ValueError("one-hot attention is exact over integers; an element that counts in a score is not one")
    if (np.abs(q) @ np.abs(counted).T).max(initial=0.0) >= 2 ** FORMATS["float32"].precision:
        raise ValueError("a score does not fit the significand of float32")
    scores = scale * (q @ counted.T)  # exact in any order: all partial sums are integers that fit
    best = scores.argmax(axis=1)
    if scores.shape[1] > 1:
        lead = np.diff(np.partition(scores, -2, axis=1)[:, -2:], axis=1).min()
        if lead < GAP:
            raise ValueError(f"the best score leads by {lead}, less than {GAP}")
    return round_to(output, k[best, :width])


def permitted(family: Family, arithmetic: Arithmetic, n: int) -> bool:
    """Whether the result over ``n`` keys may be compared bitwise.

    One-hot: always, since the merge of a weight 1 with a weight 0 is exact (``log 1 = 0``); a format that scores are
    stored in holds the multiples of :data:`GAP` that the family uses. Uniform: where nothing is merged, the weights
    ``1/n`` and the sum of the exponentials being exact.
    """
    if family == "one-hot":
        return True
    return n >= 1 and n & (n - 1) == 0 and (arithmetic.block is None or n <= arithmetic.block)
