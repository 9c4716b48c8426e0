"""Storage formats of the operands: what they can hold, how a number is rounded into them, how far apart they lie.

All functions work on float64 arrays, in which every number of the narrower formats is exact.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]


class Format(msgspec.Struct, frozen=True):
    """A binary floating-point format.

    ``precision`` counts significand bits with the hidden one; ``emin`` and ``emax`` are the exponents of the smallest
    and largest normal numbers. Source: IEEE 754-2019, table 3.5; for bfloat16 the upper half of binary32.
    """

    name: str
    precision: int
    emin: int
    emax: int

    @property
    def unit(self) -> float:
        """Unit roundoff: half the distance from 1 to the next number."""
        return 2.0**-self.precision

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return (2.0 - 2.0 ** (1 - self.precision)) * 2.0**self.emax

    @property
    def tiny(self) -> float:
        """The smallest normal number. Hardware that flushes subnormals is off by up to this much."""
        return 2.0**self.emin


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("float16", 11, -14, 15),
        Format("bfloat16", 8, -126, 127),
        Format("float32", 24, -126, 127),
        Format("float64", 53, -1022, 1023),
    )
}


def ulp(form: Format, x: npt.NDArray[Any] | float) -> Float64:
    """Distance between the numbers of ``form`` around ``x``; that of the subnormals below the smallest normal one."""
    values = np.asarray(x, dtype=np.float64)
    _, exponent = np.frexp(values)
    exponent = np.where(values == 0.0, form.emin, np.maximum(exponent - 1, form.emin))
    return np.asarray(np.ldexp(1.0, exponent - (form.precision - 1)))


def round_to(form: Format, x: npt.NDArray[Any] | float) -> Float64:
    """Round to nearest, ties to even, into ``form``; beyond its range gives an infinity. NaN and inf pass through."""
    values = np.asarray(x, dtype=np.float64)
    finite = np.where(np.isfinite(values), values, 0.0)
    step = ulp(form, finite)
    rounded = np.rint(finite / step) * step
    rounded = np.where(np.abs(rounded) > form.largest, np.copysign(np.inf, rounded), rounded)
    return np.where(np.isfinite(values), rounded, values)


def decode(form: Format, data: npt.NDArray[Any]) -> Float64:
    """Stored elements as float64. bfloat16 comes as its bits in uint16, the others as NumPy floats."""
    if form.name != "bfloat16":
        return data.astype(np.float64)
    wide = data.astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32).astype(np.float64)


def encode(form: Format, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Round float64 into stored elements: bits in uint16 for bfloat16, NumPy floats otherwise."""
    rounded = round_to(form, x)
    if form.name != "bfloat16":
        return rounded.astype(form.name)
    bits = rounded.astype(np.float32).view(np.uint32)
    return (bits >> np.uint32(16)).astype(np.uint16)
