"""Operations of this suite for a worker: it runs in the target's own Python, with torch and nothing else of ours.

``AFERE_MLA_LIBRARY`` names the shared object that registers ``torch.ops._C.mla_decode_kvcache``. One library a process:
the builds for different instruction sets register the same names.

The result buffer holds a marked NaN before the call, so that what was never written can be told from a computed NaN.
Operands are laid out in memory as the case says, with NaN (or an unused page, or a full length) in the gaps between
their elements, so that a kernel that ignores strides reads those.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Callable, Mapping
from typing import Any

import torch

Attend = Callable[[Any, Any, Any, float, Any, Any], Any]
"""``(out, query, cache, scale, tables, lengths)``, tensors; writes ``out``, returns the log-sum-exp or None."""

MARK = {
    torch.float32: (torch.int32, 0x7FC05A5A),
    torch.bfloat16: (torch.int16, 0x7FDA),
    torch.float16: (torch.int16, 0x7E5A),
}
"""dtype -> (integer type of the same width, the marked NaN)."""

VALUE_WIDTH = 512
OPERANDS = ("query", "cache", "tables", "lengths")


class Refused(Exception):  # noqa: N818 - an outcome, not an error
    """The target declined the case on purpose."""

    afere_outcome = "refused"


REFUSALS = (RuntimeError, TypeError, ValueError, NotImplementedError)
"""What PyTorch's own argument checks raise: in a call whose result is thrown away these are refusals."""


def spread(shape: Any, axis: int, dtype: Any, filler: float) -> tuple[Any, Any]:
    """Storage in which every second index of ``axis`` is a gap, and the view of the other half."""
    wide = list(shape)
    wide[axis] = max(1, wide[axis] * 2)
    storage = torch.full(wide, filler, dtype=dtype)
    index = [slice(None)] * len(shape)
    index[axis] = slice(0, 2 * shape[axis], 2)
    return storage, storage[tuple(index)]


def padded(shape: Any, axis: int, extra: int, dtype: Any, filler: float) -> tuple[Any, Any]:
    """Storage with ``extra`` elements after each run along ``axis``, and the view without them."""
    wide = list(shape)
    wide[axis] += extra
    storage = torch.full(wide, filler, dtype=dtype)
    return storage, storage.narrow(axis, 0, shape[axis])


def shifted(shape: Any, dtype: Any, filler: float) -> tuple[Any, Any]:
    """Storage that starts one element early, and the view that begins at an odd address."""
    count = 1
    for n in shape:
        count *= n
    storage = torch.full((count + 1,), filler, dtype=dtype)
    return storage, storage[1:].view(shape)


def place(shape: Any, dtype: Any, layout: str, filler: float) -> tuple[Any, Any]:
    """``(storage, view)`` for one operand."""
    if not layout:
        storage = torch.full(tuple(shape), filler, dtype=dtype)
        return storage, storage
    if layout == "unaligned":
        return shifted(shape, dtype, filler)
    if layout == "int64":
        storage = torch.full(tuple(shape), filler, dtype=torch.int64)
        return storage, storage
    if layout == "row-gap":
        return padded(shape, len(shape) - 1, 3 if dtype == torch.int32 else 64, dtype, filler)
    axis = {"batch-gap": 0, "page-gap": 0, "head-gap": 1, "element-gap": len(shape) - 1}[layout]
    return spread(shape, axis, dtype, filler)


def filler_of(name: str, tables: Any, cache: Any) -> float:
    """What the gaps of an operand hold: NaN, the last page, or as many tokens as the table has room for."""
    if name == "tables":
        return float(cache.shape[0] - 1)
    if name == "lengths":
        return float(tables.shape[1] * cache.shape[1])
    return float("nan")


def fingerprint(storage: Any) -> str:
    """Hash of all bytes of a tensor's storage, gaps included."""
    raw = storage.untyped_storage()
    return hashlib.sha256(ctypes.string_at(raw.data_ptr(), raw.nbytes())).hexdigest()


def marked(storage: Any) -> Any:
    """The positions that hold the marked NaN."""
    kind, mark = MARK[storage.dtype]
    return storage.view(kind) == mark


def poisoned(shape: Any, dtype: Any, layout: str) -> tuple[Any, Any]:
    """An output buffer full of marked NaN, laid out as asked."""
    storage, view = place(shape, dtype, layout, 0.0)
    kind, mark = MARK[dtype]
    storage.view(kind).fill_(mark)
    return storage, view


def one_call(
    case: dict[str, Any], arrays: Mapping[str, Any], prefix: str, function: Attend
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run one call of the case. Returns its report and its tensors."""
    layout = case.get("layout") or {}
    given = {name: arrays.get(prefix + name, arrays[name]) for name in OPERANDS}
    storages, views = {}, {}
    for name, tensor in given.items():
        filler = filler_of(name, given["tables"], given["cache"])
        storages[name], views[name] = place(tensor.shape, tensor.dtype, layout.get(name, ""), filler)
        views[name].copy_(tensor)
    query = given["query"]
    shape = (query.shape[0], query.shape[1], VALUE_WIDTH)
    out_storage, out = poisoned(shape, query.dtype, layout.get("out", ""))
    gaps = marked(out_storage).sum().item() - out.numel()
    before = {name: fingerprint(s) for name, s in storages.items()}
    lse = function(out, views["query"], views["cache"], case["factor"], views["tables"], views["lengths"])
    after = {name: fingerprint(s) for name, s in storages.items()}
    result = out.contiguous()
    unwritten = int(marked(result).sum().item())
    left = int(marked(out_storage).sum().item()) - unwritten
    report = {
        "modified": sorted(name for name in OPERANDS if before[name] != after[name]),
        "unwritten": unwritten,
        "outside": int(gaps - left),
    }
    tensors = {prefix + "out": result}
    if lse is not None:
        tensors[prefix + "lse"] = lse
    return report, tensors


def decode(
    case: dict[str, Any], arrays: Mapping[str, Any], function: Attend, arithmetic: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """All calls of a case with ``function(out, query, cache, scale, tables, lengths) -> lse or None``.

    Returns ``(payload, tensors)``. The threads that the case asks for are set, and reported as torch has them.
    """
    torch.set_num_threads(int(case["threads"]))
    m, k = case["scale"]
    case = dict(case, factor=m / float(1 << k))
    first, tensors = one_call(case, arrays, "", function)
    calls = [first]
    if case.get("relation"):
        report, more = one_call(case, arrays, "2.", function)
        calls.append(report)
        tensors.update(more)
    return {"calls": calls, "threads": torch.get_num_threads(), "arithmetic": arithmetic}, tensors


def kernel(out: Any, query: Any, cache: Any, scale: float, tables: Any, lengths: Any) -> None:
    """The operator of the library under test. It returns no log-sum-exp."""
    try:
        torch.ops._C.mla_decode_kvcache(out, query, cache, scale, tables, lengths)
    except REFUSALS as error:
        raise Refused(f"{type(error).__name__}: {str(error).splitlines()[0]}") from error


def load() -> str:
    """Load the library once.

    :raises KeyError: the environment does not name it
    """
    path = os.environ["AFERE_MLA_LIBRARY"]
    torch.ops.load_library(path)
    return path


def hello() -> dict[str, Any]:
    """What the worker says of its target."""
    path = load()
    return {
        "capabilities": ["decode", "decode:float32", "decode:bfloat16", "decode:float16"],
        "reports": {
            "torch": torch.__version__,
            "library": path.rsplit("/", 1)[-1],
            "threads": torch.get_num_threads(),
            "cpu": torch.backends.cpu.get_cpu_capability(),
        },
    }


def op_decode(case: dict[str, Any], arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The operation ``decode`` on the loaded library."""
    return decode(case, {name: array.torch() for name, array in arrays.items()}, kernel, "blocked-float32")


OPS: dict[str, Callable[[dict[str, Any], Mapping[str, Any]], Any]] = {"decode": op_decode}
