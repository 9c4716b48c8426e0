"""MLA decoding written with torch, in several honest ways: the embedded targets of this suite.

*Absorbed*: all heads attend the latent rows of the cache as they are. *Expanded*: every head has keys and values of its
own, made from the rows (here with the identity as projection, since a case holds absorbed queries). *Explicit* writes
out the softmax; *sdpa* calls PyTorch's own attention. The format is that of the weights between softmax and values.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
import torch
import torch.nn.functional as functional

from harness.records import Json
from harness.targets.base import Tensor, Unsupported
from suites.mla import kernel_ops

ALGEBRAS: Final = ("absorbed", "expanded")
FORMATS: Final = ("float32", "bfloat16", "float16")
METHODS: Final = ("explicit", "sdpa")

# The number of threads belongs to the process: calls that set it must not run side by side.
_THREADS = threading.Lock()


class Way(msgspec.Struct, frozen=True):
    """One way of computing."""

    algebra: str
    format: str
    method: str

    @classmethod
    def parse(cls, variant: str) -> Way:
        """Read ``algebra-format-method``.

        :raises ValueError: it is none of :func:`variants`
        """
        if variant not in variants():
            raise ValueError(f"no way of computing {variant!r}; known are {', '.join(variants())}")
        return cls(*variant.split("-"))

    @property
    def arithmetic(self) -> str:
        """Its name in the oracle's table."""
        weights = "" if self.format == "float32" else f"-weights-{self.format}"
        return f"any-order-float32{weights}"

    def supports(self, dtype: str) -> bool:
        """float32 holds every format; a narrow one takes operands of its own."""
        return self.format in ("float32", dtype)


def variants() -> tuple[str, ...]:
    """All variants by name, the default first."""
    return tuple(f"{a}-{f}-{m}" for a in ALGEBRAS for f in FORMATS for m in METHODS)


def to_torch(tensor: Tensor) -> torch.Tensor:
    """A torch tensor of the same dtype and content, with memory of its own."""
    data = np.array(tensor.data)
    if tensor.dtype == "bfloat16":
        return torch.from_numpy(data.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(data)


def from_torch(tensor: torch.Tensor) -> Tensor:
    """The other way round."""
    if tensor.dtype == torch.bfloat16:
        return Tensor(tensor.contiguous().view(torch.int16).numpy().view(np.uint16), "bfloat16")
    return Tensor.of(tensor.contiguous().numpy())


def run(
    case: dict[str, Json], arrays: Mapping[str, Tensor], function: kernel_ops.Attend, arithmetic: str
) -> tuple[Json, dict[str, Tensor]]:
    """Put a case to a function in this process, in the frame that the worker uses, one call at a time."""
    with _THREADS:
        before = torch.get_num_threads()
        try:
            payload, out = kernel_ops.decode(
                case, {name: to_torch(t) for name, t in arrays.items()}, function, arithmetic
            )
        finally:
            torch.set_num_threads(before)
    return payload, {name: from_torch(t) for name, t in out.items()}


def attend(way: Way) -> kernel_ops.Attend:
    """The function ``(out, query, cache, scale, tables, lengths) -> lse`` for one way of computing."""

    def call(out: Any, query: Any, cache: Any, scale: float, tables: Any, lengths: Any) -> Any:
        heads, block = query.shape[1], cache.shape[1]
        lse = torch.full(query.shape[:2], -math.inf)
        for b in range(query.shape[0]):
            n = max(0, int(lengths[b]))
            if n == 0:
                out[b] = 0.0
                continue
            pages = tables[b, : -(-n // block)].long()
            rows = cache[pages].reshape(-1, cache.shape[2])[:n]
            keys = rows.expand(heads, *rows.shape).clone() if way.algebra == "expanded" else rows
            compute = _explicit if way.method == "explicit" else _sdpa
            result, lse_b = compute(query[b], keys, scale, way)
            out[b] = result.to(out.dtype)
            if lse_b is not None:
                lse[b] = lse_b
        return lse if way.method == "explicit" else None

    return call


def _explicit(query: Any, keys: Any, scale: float, way: Way) -> tuple[Any, Any]:
    values = keys[..., : kernel_ops.VALUE_WIDTH].float()
    q, k = query.float(), keys.float()
    raw = torch.bmm(k, q[:, :, None])[..., 0] if way.algebra == "expanded" else q @ k.T
    scores = raw * scale
    weights = torch.softmax(scores, dim=-1).to(getattr(torch, way.format)).float()
    out = torch.bmm(weights[:, None], values)[:, 0] if way.algebra == "expanded" else weights @ values
    return out, torch.logsumexp(scores, dim=-1)


def _sdpa(query: Any, keys: Any, scale: float, way: Way) -> tuple[Any, Any]:
    kind = getattr(torch, way.format)
    q, k = query.to(kind), keys.to(kind)
    if way.algebra == "expanded":
        q, k = q[None, :, None], k[None]  # heads as heads, one query each
    else:
        q, k = q[None, None], k[None, None]  # heads as queries of one head
    v = k[..., : kernel_ops.VALUE_WIDTH]
    out = functional.scaled_dot_product_attention(q, k, v, scale=scale)
    return out.reshape(query.shape[0], kernel_ops.VALUE_WIDTH), None


def operation(way: Way) -> Any:
    """The operation ``decode`` of an in-process target."""
    function = attend(way)

    def decode(case: dict[str, Json], arrays: Mapping[str, Tensor]) -> tuple[Json, dict[str, Tensor]]:
        if not way.supports(str(case["dtype"])):
            raise Unsupported(f"a {way.format} computation takes no {case['dtype']} operands")
        return run(case, arrays, function, way.arithmetic)

    return decode
