"""Planted faults and honest variants: one row each, a change to a kernel that is otherwise right.

A fault changes what goes in (``Before``), how the kernel computes (``Switches``) or what comes out (``After``). The
faults of section 6 of the project's survey of attention bugs are here: dropped multiply-add, accumulators that are not
reset, a table that is ignored, a scale derived from the row, base-2 logarithms, NaN for an empty sequence, and so on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import torch

from harness.suite import Fault, TargetName
from harness.targets.base import InProcess, Refused, Target
from suites.mla import kernel_ops, torch_mla
from suites.mla.model import Switches, attend
from suites.mla.targets import DTYPES, OP, TorchTarget

Attend = kernel_ops.Attend
CAPABILITIES: Final = (OP, *(f"{OP}:{dtype}" for dtype in DTYPES))


class View(msgspec.Struct, frozen=True):
    """The operands of a call as a fault sees them: torch tensors."""

    out: Any
    query: Any
    cache: Any
    scale: float
    tables: Any
    lengths: Any


def kernel(switches: Switches = Switches(), *, truncate: bool = False, lse: bool = True) -> Attend:  # noqa: B008
    """The model as a function that fills ``out``."""

    def call(out: Any, query: Any, cache: Any, scale: float, tables: Any, lengths: Any) -> Any:
        found = torch.full(query.shape[:2], -np.inf)
        for b in range(query.shape[0]):
            n = max(0, int(lengths[b]))
            if n == 0:
                out[b] = 0.0
                continue
            rows = _rows(cache, tables, b, n)
            with np.errstate(all="ignore"):
                result, lse_b = attend(query[b].float().numpy(), rows, scale, switches)
            wide = torch.from_numpy(np.ascontiguousarray(result))
            out[b] = _cut(wide, out.dtype) if truncate else wide.to(out.dtype)
            found[b] = torch.from_numpy(lse_b)
        return found if lse else None

    return call


def _rows(cache: Any, tables: Any, sequence: int, n: int) -> Any:
    pages = tables[sequence, : -(-n // cache.shape[1])].long()
    return cache[pages].reshape(-1, cache.shape[2])[:n].float().numpy()


def _cut(wide: Any, dtype: Any) -> Any:
    """Drop the lower half of a float32, as a store that does not round does."""
    if dtype != torch.bfloat16:
        return wide.to(dtype)
    return (wide.view(torch.int32) & -65536).view(torch.float32).to(dtype)


def changed(before: Callable[[View], View], base: Attend | None = None) -> Attend:
    """The kernel with other operands than it was given."""
    inner = base or kernel()

    def call(*given: Any) -> Any:
        v = before(View(*given))
        return inner(v.out, v.query, v.cache, v.scale, v.tables, v.lengths)

    return call


def followed(after: Callable[[View, Any], Any], base: Attend | None = None) -> Attend:
    """The kernel, and something done to its result; ``after`` returns the log-sum-exp."""
    inner = base or kernel()

    def call(*given: Any) -> Any:
        return after(View(*given), inner(*given))

    return call


def _replace(**changes: Callable[[View], Any]) -> Callable[[View], View]:
    return lambda v: msgspec.structs.replace(v, **{name: change(v) for name, change in changes.items()})


def _query_rope(change: Callable[[Any], Any]) -> Callable[[View], Any]:
    def changed_query(v: View) -> Any:
        query = v.query.clone()
        query[..., 512:] = change(query[..., 512:])
        return query

    return changed_query


def _zero_page(v: View) -> View:
    """One page of zeros more is attended."""
    cache = torch.cat([v.cache, torch.zeros_like(v.cache[:1])])
    tables = torch.cat([v.tables, torch.zeros_like(v.tables[:, :1])], dim=1)
    lengths = v.lengths.clone()
    for b in range(lengths.shape[0]):
        if n := int(lengths[b]):
            blocks = -(-n // 16)
            tables[b, blocks] = v.cache.shape[0]
            lengths[b] = 16 * (blocks + 1) if n % 16 == 0 else n
    return msgspec.structs.replace(v, cache=cache, tables=tables, lengths=lengths)


def _own_pages(v: View) -> View:
    """A page belongs to the first sequence that names it; the others find zeros there."""
    cache = torch.cat([v.cache, torch.zeros_like(v.cache[:1])])
    tables, taken = v.tables.clone(), set()
    for b in range(tables.shape[0]):
        for i in range(-(-max(0, int(v.lengths[b])) // 16)):
            page = int(tables[b, i])
            if page in taken:
                tables[b, i] = v.cache.shape[0]
            taken.add(page)
    return msgspec.structs.replace(v, cache=cache, tables=tables)


def _physical_order(v: View) -> View:
    """Full pages are read in the order in which they lie in memory: honest numbers, other bits when pages move."""
    tables = v.tables.clone()
    for b in range(tables.shape[0]):
        full = max(0, int(v.lengths[b])) // 16
        tables[b, :full] = torch.sort(tables[b, :full]).values
    return msgspec.structs.replace(v, tables=tables)


def _longer(v: View) -> Any:
    room = v.tables.shape[1] * v.cache.shape[1]
    return torch.where(v.lengths > 0, torch.clamp(v.lengths + 1, max=room), v.lengths)


def _shorter(least: int, by: int) -> Callable[[View], Any]:
    return lambda v: torch.where(v.lengths > least, v.lengths - by, v.lengths)


def _last_page_dropped(v: View) -> Any:
    return torch.where(v.lengths > 16, (v.lengths - 1) // 16 * 16, v.lengths)


def _first_token_dropped(v: View) -> View:
    """Token 0 is overwritten by token 1, as a loop that starts at one does in effect."""
    cache = v.cache.clone()
    for b in range(v.lengths.shape[0]):
        if int(v.lengths[b]) > 1:
            page = int(v.tables[b, 0])
            cache[page, 0] = cache[page, 1]
    return msgspec.structs.replace(v, cache=cache)


def _narrow_strides(tensor: Any) -> Any:
    """The operand read as if its elements lay side by side."""
    return torch.as_strided(tensor, tensor.shape, torch.empty(tensor.shape).stride(), tensor.storage_offset())


def _each(change: Callable[[View], Any]) -> Callable[[View, Any], Any]:
    """Change ``out`` after the call and pass the log-sum-exp on."""

    def after(v: View, lse: Any) -> Any:
        change(v)
        return lse

    return after


def _tail(v: View) -> None:
    """The tail of the last page takes part with weight zero: nothing to a number, everything to a NaN."""
    for b in range(v.lengths.shape[0]):
        n = max(0, int(v.lengths[b]))
        if n % 16:
            tail = v.cache[int(v.tables[b, n // 16]), n % 16 :, :512].float()
            v.out[b].add_((0.0 * tail.sum(dim=0)).to(v.out.dtype))


def _nan_to_all_heads(v: View) -> None:
    v.out.add_((0.0 * v.query.float().sum(dim=(1, 2)))[:, None, None].to(v.out.dtype))


def _threads_lose(v: View) -> None:
    if torch.get_num_threads() > 1:
        v.out.mul_(0.5)


def _empty(v: View, fill: float | None) -> None:
    mark, kind = kernel_ops.MARK[v.out.dtype][1], kernel_ops.MARK[v.out.dtype][0]
    for b in range(v.lengths.shape[0]):
        if int(v.lengths[b]) <= 0:
            if fill is None:
                v.out[b] = torch.full(v.out[b].shape, mark, dtype=kind).view(v.out.dtype)
            else:
                v.out[b] = fill


def _unwritten_head(v: View) -> None:
    kind, mark = kernel_ops.MARK[v.out.dtype]
    if v.out.shape[1] % 2:
        v.out[:, -1] = torch.full(v.out[:, -1].shape, mark, dtype=kind).view(v.out.dtype)


def _over_everything(v: View) -> None:
    """Write the gaps between the elements of out too."""
    kept = v.out.clone()
    storage = v.out.untyped_storage()
    torch.tensor([], dtype=v.out.dtype).set_(storage).fill_(0.0)
    v.out.copy_(kept)


def _flicker() -> Attend:
    """Every second call is off by a bit or two, as with a race or memory that was not initialised."""
    turn = itertools.count()

    def after(v: View) -> None:
        if next(turn) % 2:
            v.out.mul_(1.0 + 2.0 * torch.finfo(v.out.dtype).eps)

    return followed(_each(after))


def _lse(change: Callable[[Any], Any]) -> Attend:
    return followed(lambda _v, lse: change(lse))


def _int32_view(v: View) -> Any:
    """64-bit entries read as pairs of 32-bit ones."""
    if v.tables.dtype != torch.int64:
        return v.tables
    return v.tables.contiguous().view(torch.int32)[:, : v.tables.shape[1]]


def _refuses_layouts() -> Attend:
    """An honest kernel that takes contiguous, aligned 32-bit operands only, and says so."""
    inner = kernel()

    def call(out: Any, query: Any, cache: Any, scale: float, tables: Any, lengths: Any) -> Any:
        for name, t in (("out", out), ("query", query), ("cache", cache), ("tables", tables), ("lengths", lengths)):
            if not t.is_contiguous() or t.data_ptr() % 32 or t.dtype == torch.int64:
                raise Refused(f"{name} has to be contiguous, aligned to 32 bytes, and 32-bit where it is an index")
        return inner(out, query, cache, scale, tables, lengths)

    return call


class Row(msgspec.Struct, frozen=True):
    """A planted target: what it is, the function, the clauses that must catch it (none: honest), its arithmetic."""

    name: str
    summary: str
    function: Callable[[], Attend]
    breaks: tuple[str, ...] = ()
    arithmetic: str = "blocked-float32"


def _model(**switches: Any) -> Callable[[], Attend]:
    return lambda: kernel(Switches(**switches))


def _before(**changes: Callable[[View], Any]) -> Callable[[], Attend]:
    return lambda: changed(_replace(**changes))


def _after(change: Callable[[View], Any]) -> Callable[[], Attend]:
    return lambda: followed(_each(change))


HONEST: Final = (
    Row("honest-blocked", "blocks of 16 merged through log-sum-exp", _model()),
    Row("honest-backward", "the same, last block first", _model(backward=True)),
    Row("honest-two-pass", "one softmax over all keys", _model(block=1 << 20), arithmetic="any-order-float32"),
    Row("honest-float64", "accumulators in float64, through float32 into the result",
        _model(narrow="float64", block=1 << 20), arithmetic="any-order-float32"),
    Row("honest-no-lse", "returns no log-sum-exp", lambda: kernel(lse=False)),
    Row("honest-strict", "refuses operands that are not contiguous", _refuses_layouts),
)  # fmt: skip

WRONG: Final = (
    Row("scale-of-row", "uses 576^-0.5 whatever scale it is given", _before(scale=lambda _v: 576**-0.5),
        ("M-SCALE-1", "M-VALUE-1")),
    Row("scale-1-percent", "the scale is 1 % too large", _before(scale=lambda v: 1.01 * v.scale),
        ("M-SCALE-1", "M-FLOAT32-1", "M-FLOAT16-1", "M-LSE-1")),
    Row("scale-log2", "multiplies the scores by log2(e) and exponentiates naturally",
        _before(scale=lambda v: v.scale / np.log(2.0)), ("M-SCALE-1", "M-BFLOAT16-1")),
    Row("no-rope", "the rotary elements do not count", _model(score=(0, 512)), ("M-ROPE-1", "M-ENDS-1")),
    Row("rope-halves", "the halves of the rotary elements are swapped in the query only",
        _before(query=_query_rope(lambda x: x.roll(32, -1))), ("M-ROPE-1",)),
    Row("rope-interleaved", "rotary pairs are taken apart in the query only",
        _before(query=_query_rope(lambda x: torch.cat([x[..., 0::2], x[..., 1::2]], -1))), ("M-ROPE-1",)),
    Row("value-from-the-end", "the value is the last 512 elements of a row", _model(value=(64, 576)),
        ("M-LATENT-1", "M-EXACT-1")),
    Row("one-short", "the last token is left out", _before(lengths=_shorter(1, 1)), ("M-EDGE-1", "M-ENDS-1")),
    Row("one-over", "one token too many is attended", _before(lengths=_longer), ("M-EDGE-1", "M-UNUSED-1")),
    Row("first-dropped", "the first token is left out", lambda: changed(_first_token_dropped), ("M-ENDS-1",)),
    Row("page-dropped", "the last page is left out", _before(lengths=_last_page_dropped), ("M-VALUE-1", "M-EDGE-1")),
    Row("zero-page", "a page of zeros is attended after a full last page", lambda: changed(_zero_page),
        ("M-VALUE-1", "M-EDGE-1")),
    Row("table-ignored", "pages are read in the order of memory",
        _before(tables=lambda v: torch.arange(v.tables.numel()).reshape(v.tables.shape) % v.cache.shape[0]),
        ("M-TABLE-1", "M-VALUE-1")),
    Row("first-table", "every sequence reads the table of the first", _before(tables=lambda v: v.tables[:1].expand_as(
        v.tables)), ("M-BATCH-1", "M-TABLE-1")),
    Row("page-owned", "a shared page is found empty by the second", lambda: changed(_own_pages), ("M-SHARED-1",)),
    Row("physical-order", "pages are reduced in the order of memory", lambda: changed(_physical_order),
        ("M-PAGES-1",)),
    Row("tail-times-zero", "the tail of the last page counts with weight zero", _after(_tail), ("M-UNUSED-1",)),
    Row("fma-dropped", "the result of the multiply-add is thrown away", _model(fma_dropped=True),
        ("M-VALUE-1", "M-FLOAT32-1", "M-BFLOAT16-1", "M-FLOAT16-1", "M-NAN-2", "M-LARGE-1")),
    Row("not-reset", "a block's accumulator is not reset", _model(not_reset=True), ("M-VALUE-1", "M-TABLE-1")),
    Row("plain-mean", "blocks are merged without their log-sum-exp", _model(plain_mean=True), ("M-VALUE-1",)),
    Row("base-2-merge", "natural logarithms are merged as base 2", _model(base_2=True), ("M-VALUE-1",)),
    Row("no-maximum", "the maximum is not subtracted", _model(no_maximum=True), ("M-LARGE-1",)),
    Row("float16-accumulators", "accumulates in float16", _model(narrow="float16"), ("M-FLOAT32-1", "M-FLOAT16-1")),
    Row("narrow-weights", "weights are rounded to 8 bits", _model(weight_bits=8), ("M-FLOAT32-1", "M-FLOAT16-1")),
    Row("stored-twice", "the result goes through 7 bits before it is stored",
        lambda: followed(_each(lambda v: v.out.copy_(_seven_bits(v.out)))), ("M-BFLOAT16-1", "M-FLOAT16-1")),
    Row("truncated", "bfloat16 results are cut, not rounded", lambda: kernel(truncate=True), ("M-ROUND-1",)),
    Row("last-bit", "results are off by a bit", _after(lambda v: v.out.mul_(1.0 + 2.0**-7)), ("M-EXACT-1",)),
    Row("heads-rolled", "heads are stored one place further", _after(lambda v: v.out.copy_(v.out.roll(1, 1))),
        ("M-HEADS-1",)),
    Row("sequences-rolled", "sequences are stored one place further", _after(lambda v: v.out.copy_(v.out.roll(1, 0))),
        ("M-BATCH-1", "M-EMPTY-1")),
    Row("empty-nan", "an empty sequence divides zero by zero", _after(lambda v: _empty(v, float("nan"))),
        ("M-EMPTY-1",)),
    Row("empty-skipped", "an empty sequence is not written", _after(lambda v: _empty(v, None)),
        ("M-WRITE-1", "M-EMPTY-1")),
    Row("odd-head-skipped", "the last of an odd number of heads is not written", _after(_unwritten_head),
        ("M-WRITE-1", "M-HEADS-1")),
    Row("nan-leaks", "a NaN in one head's query reaches all heads", _after(_nan_to_all_heads), ("M-NAN-1",)),
    Row("nan-hidden", "NaN results are replaced by zero", _after(lambda v: v.out.nan_to_num_(0.0)), ("M-NAN-2",)),
    Row("flickers", "every second call is off by a bit", _flicker, ("M-REPEAT-1",)),
    Row("threads-race", "half the result is lost with two threads", _after(_threads_lose), ("M-THREADS-1",)),
    Row("position-bias", "later tokens weigh more", _model(position_bias=0.01), ("M-KEYS-1",)),
    Row("writes-cache", "the cache is left scaled", _after(lambda v: v.cache.mul_(2.0)), ("M-INPUT-1",)),
    Row("writes-gaps", "the gaps between the elements of out are cleared", _after(_over_everything), ("M-OUTSIDE-1",)),
    Row("strides-ignored", "the query is read as if it were contiguous",
        _before(query=lambda v: _narrow_strides(v.query)), ("M-LAYOUT-1",)),
    Row("int64-halved", "64-bit tables are read as pairs of 32-bit numbers", _before(tables=_int32_view),
        ("M-INDEX-1",)),
    Row("lse-base-2", "the log-sum-exp is in base 2", lambda: _lse(lambda lse: lse / np.log(2.0)), ("M-LSE-1",)),
    Row("lse-empty", "an empty sequence has a log-sum-exp of plus infinity",
        lambda: _lse(lambda lse: torch.where(torch.isinf(lse), -lse, lse)), ("M-LSE-1",)),
)  # fmt: skip


HONEST_TORCH: Final = (
    "absorbed-float32-sdpa", "expanded-float32-explicit", "absorbed-bfloat16-explicit", "expanded-bfloat16-sdpa",
    "absorbed-float16-sdpa", "expanded-float16-explicit",
)  # fmt: skip
"""Ways of torch that between them use both algebras, all formats and both methods."""


def _seven_bits(x: Any) -> Any:
    """Round to 7 significant bits."""
    mantissa, exponent = torch.frexp(x.float())
    return torch.ldexp(torch.round(mantissa * 128.0) / 128.0, exponent).to(x.dtype)


def _target(row: Row) -> Target:
    function = row.function()
    operation = {OP: lambda case, arrays: torch_mla.run(case, arrays, function, row.arithmetic)}
    return InProcess(row.name, operation, capabilities=CAPABILITIES)


def _planted(row: Row) -> Fault:
    return Fault(row.name, row.summary, lambda: _target(row), row.breaks)


def _torch(variant: str) -> Fault:
    name = TargetName("torch-mla", "", variant)
    return Fault(f"honest-{variant}", f"torch: {variant}", lambda: TorchTarget(name))


def faults() -> tuple[Fault, ...]:
    """All of them, the honest ones first."""
    return (*map(_planted, HONEST), *map(_torch, HONEST_TORCH), *map(_planted, WRONG))
