"""What a case should give: the float64 result, the bounds, and where NaN belongs. Kept per case, as many judge it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from harness.records import Case
from harness.targets.base import Blobs, Tensor
from reference.mla import absorbed, exact
from reference.mla.bound import ANY_ORDER, BLOCKED, Arithmetic, bound
from reference.mla.cache import PagedCache
from reference.mla.floats import FORMATS, Format, decode
from reference.mla.geometry import DEEPSEEK
from suites.mla.spec import Spec, read

Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

ARITHMETIC: Final[dict[str, Arithmetic]] = {
    a.name: a
    for a in (
        BLOCKED,
        ANY_ORDER,
        msgspec.structs.replace(ANY_ORDER, name="any-order-float32-weights-bfloat16", weight_store="bfloat16"),
        msgspec.structs.replace(ANY_ORDER, name="any-order-float32-weights-float16", weight_store="float16"),
        msgspec.structs.replace(ANY_ORDER, name="any-order-float64", unit=2.0**-53),
    )
}
"""How implementations compute, by the name that an operations module of this suite reports for its target."""


class Call(msgspec.Struct, frozen=True):
    """One call of a case: what goes in, exactly, and what should come out.

    ``query`` ``[B, H, 576]``; ``rows`` per sequence ``[n, 576]``; ``out`` ``[B, H, 512]`` and ``lse`` ``[B, H]``
    float64, NaN where a NaN or infinity takes part; ``clean`` ``[B, H]`` marks the others.
    """

    query: Float64
    rows: tuple[Float64, ...]
    scale: float
    out: Float64
    lse: Float64
    clean: Bool

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return len(self.rows)


class Bounds(msgspec.Struct, frozen=True):
    """Per element ``[B, H, 512]``: for ``nearest`` and ``faithful`` rounding of the result; and ``lse`` ``[B, H]``."""

    nearest: Float64
    faithful: Float64
    lse: Float64


class Expected:
    """Everything that is known about one case, computed as it is asked for."""

    def __init__(self, spec: Spec, arrays: Mapping[str, Tensor]) -> None:
        self.spec = spec
        self.form: Format = FORMATS[spec.dtype]
        self._arrays = arrays
        self._calls: dict[str, Call] = {}
        self._bounds: dict[tuple[str, Arithmetic], Bounds] = {}

    def call(self, prefix: str = "") -> Call:
        """The first call, or the second one of a relation (``2.``)."""
        if prefix not in self._calls:
            given = {n: self._arrays.get(prefix + n, self._arrays[n]) for n in ("query", "cache", "tables", "lengths")}
            pages = decode(self.form, given["cache"].data)
            cache = PagedCache(pages, given["tables"].data, given["lengths"].data)
            query = decode(self.form, given["query"].data)
            rows = tuple(cache.rows(b) for b in range(cache.batch))
            self._calls[prefix] = _call(query, rows, self.spec.factor)
        return self._calls[prefix]

    def bounds(self, arithmetic: Arithmetic, prefix: str = "") -> Bounds:
        """The bounds of a call for one way of computing. Zero where nothing is finite to be bounded."""
        key = (prefix, arithmetic)
        if key not in self._bounds:
            self._bounds[key] = _bounds(self.call(prefix), arithmetic, self.form)
        return self._bounds[key]

    def exact(self, arithmetic: Arithmetic) -> dict[int, Float64]:
        """Sequences that may be compared bitwise, with their results ``[H, 512]``."""
        family = {"uniform": "uniform", "one-hot": "one-hot", "one-hot-latent": "one-hot"}.get(self.spec.values)
        call, found = self.call(), {}
        for b, rows in enumerate(call.rows if family else ()):
            n = rows.shape[0]
            if n == 0 or not exact.permitted(family, arithmetic, n):  # type: ignore[arg-type]
                continue
            if family == "uniform":
                mean = exact.uniform(rows, DEEPSEEK.latent, self.form)
                found[b] = np.broadcast_to(mean, (call.query.shape[1], DEEPSEEK.latent))
            else:
                found[b] = exact.one_hot(call.query[b], rows, call.scale, DEEPSEEK.latent, self.form)
        return found


def _call(query: Float64, rows: tuple[Float64, ...], scale: float) -> Call:
    batch, heads = query.shape[:2]
    clean = np.ones((batch, heads), dtype=bool)
    out, lse = np.full((batch, heads, DEEPSEEK.latent), np.nan), np.full((batch, heads), np.nan)
    for b in range(batch):
        clean[b] = np.isfinite(query[b]).all(axis=1) & np.isfinite(rows[b]).all() if rows[b].size else True
        if clean[b].any():
            part = absorbed.attend_rows(query[b][clean[b]], rows[b], scale, DEEPSEEK.latent)
            out[b, clean[b]], lse[b, clean[b]] = part.out, part.lse
    return Call(query, rows, scale, out, lse, clean)


def _bounds(call: Call, arithmetic: Arithmetic, form: Format) -> Bounds:
    nearest, faithful = np.zeros_like(call.out), np.zeros_like(call.out)
    lse = np.zeros_like(call.lse)
    for b in range(call.batch):
        clean = call.clean[b]
        if not clean.any():
            continue
        query, rows = call.query[b][clean], call.rows[b]
        worst = bound(query, rows, call.scale, DEEPSEEK.latent, arithmetic, form)
        nearest[b, clean], faithful[b, clean], lse[b, clean] = worst.nearest, worst.faithful, worst.lse
    return Bounds(nearest, faithful, lse)


_KEPT: OrderedDict[str, Expected] = OrderedDict()
_LOCK = Lock()


def expected(case: Case, blobs: Blobs) -> Expected:
    """What is right for a case. The last 64 are kept, since several targets answer one case.

    :raises ValueError: the input is none of this suite's
    """
    with _LOCK:
        if case.id in _KEPT:
            _KEPT.move_to_end(case.id)
            return _KEPT[case.id]
    spec = read(case.input)
    if spec is None:
        raise ValueError(f"case {case.id} is not one of this suite: {case.input!r}")
    made = Expected(spec, {name: blobs.get(ref) for name, ref in case.arrays.items()})
    with _LOCK:
        _KEPT[case.id] = made
        while len(_KEPT) > 64:
            _KEPT.popitem(last=False)
    return made
