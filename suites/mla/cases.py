"""The cases of this suite: an edge list first, so that every clause is asked, then as many drawn ones as wanted.

Hypothesis draws integers and words only (shapes, regimes, seeds); the numbers in the arrays come from ``build``.
Lengths stay small, because each case is stored in full and asked under emulation too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from harness.records import canonical
from suites.mla.spec import DTYPES, LAYOUTS, PLAIN, SCALES, Spec, write

EDGE_LENGTHS = (0, 1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64)
TOKENS = 300  # in one case, so that its cache stays below a megabyte


def _with(**changes: Any) -> Spec:
    return msgspec.structs.replace(PLAIN, poison="nan", spare=1, **changes)


def edges() -> Iterator[Spec]:
    """Cases that each clause needs at least once, in an order in which the first sixty reach all of them."""
    yield PLAIN
    for dtype in DTYPES:
        yield _with(dtype=dtype, heads=3, lengths=(33, 0, 16, 1), pages="shuffled", seed=1)
        yield _with(dtype=dtype, heads=4, lengths=(15, 17, 32), values="one-hot", scale=SCALES["one"], pages="shuffled")
        yield _with(dtype=dtype, heads=2, lengths=(31, 48), values="large", pages="shuffled", seed=2, threads=2)
        yield _with(dtype=dtype, heads=2, lengths=(16, 64, 1), values="uniform", pages="shuffled", seed=3)
    yield _with(heads=5, lengths=(40, 7), values="one-hot-latent", scale=SCALES["one"], pages="shuffled", seed=4)
    yield _with(heads=4, lengths=(20, 33, 16), pages="shared", seed=5)
    yield _with(heads=4, lengths=(35, 18), relation="repeat", pages="shuffled", seed=6, threads=2)
    yield _with(heads=4, lengths=(35, 50), relation="pages", pages="shuffled", seed=7)
    yield _with(heads=3, lengths=(19, 41, 0), relation="alone", pages="shuffled", seed=8)
    yield _with(heads=3, lengths=(37, 21), relation="keys", pages="shuffled", seed=9)
    yield _with(heads=3, lengths=(20, 37), nonfinite="query-nan", pages="shuffled", seed=10)
    yield _with(heads=3, lengths=(20, 37), nonfinite="query-inf", pages="shuffled", seed=11)
    yield _with(heads=3, lengths=(37, 20), nonfinite="cache-nan", pages="shuffled", seed=12)
    for name in ("row", "one", "small", "mscale"):
        yield _with(heads=2, lengths=(23, 40), scale=SCALES[name], pages="shuffled", seed=13)
    for number, (operand, layout) in enumerate((o, kind) for o, kinds in LAYOUTS.items() for kind in kinds):
        yield _with(heads=4, lengths=(19, 35), layout={operand: layout}, seed=20 + number)
    yield _with(heads=2, lengths=(255,), pages="shuffled", seed=40)
    yield _with(heads=2, lengths=(256,), pages="shuffled", seed=41, threads=2)
    yield _with(heads=2, lengths=(257,), pages="shuffled", seed=42, threads=2)
    yield _with(dtype="bfloat16", heads=16, lengths=(64, 33), values="offset", pages="shuffled", seed=43)
    yield _with(heads=4, lengths=(33, 64), values="offset", pages="shuffled", seed=44)
    yield _with(heads=1, lengths=(17, 5), pages="shuffled", seed=45, wide=2)
    yield _with(heads=8, lengths=(60, 61), pages="shuffled", seed=46, wide=1)
    for number, poison in enumerate(("zero", "large")):
        yield msgspec.structs.replace(
            _with(heads=4, lengths=(18, 47), pages="shuffled", seed=47 + number), poison=poison
        )
    yield _with(dtype="float16", heads=128, lengths=(17, 3), pages="shuffled", seed=49)
    yield _with(heads=128, lengths=(33,), pages="shuffled", seed=50, threads=2)
    yield _with(lengths=(0,), seed=51)
    yield _with(heads=2, lengths=(0, 0, 9), seed=52)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """One case that makes sense. Operand layouts are a minority: one in eight."""
    values = draw(st.sampled_from(("ordinary",) * 4 + ("large", "offset", "uniform", "one-hot", "one-hot-latent")))
    heads = draw(st.sampled_from((1, 2, 3, 4, 5, 8, 16) * 4 + (128,)))
    room = TOKENS if heads < 128 else 48
    lengths: list[int] = []
    for _ in range(draw(st.integers(1, 4))):
        length = draw(st.one_of(st.sampled_from(EDGE_LENGTHS), st.integers(1, 100), st.sampled_from((255, 256, 257))))
        if sum(lengths) + length <= room:
            lengths.append(length)
    lengths = lengths or [1]
    one_hot = values.startswith("one-hot")
    layout: dict[str, str] = {}
    if draw(st.integers(0, 7)) == 7:
        operand = draw(st.sampled_from(sorted(LAYOUTS)))
        layout = {operand: draw(st.sampled_from(LAYOUTS[operand]))}
    extra = draw(st.sampled_from(("", "", "", "", "relation", "relation", "nonfinite"))) if not layout else ""
    spec = Spec(
        dtype=draw(st.sampled_from(DTYPES)),
        heads=heads,
        lengths=tuple(lengths),
        scale=SCALES["one"] if one_hot else SCALES[draw(st.sampled_from(("deepseek", "deepseek", *SCALES)))],
        values=values,
        seed=draw(st.integers(0, 2**32 - 1)),
        pages=draw(st.sampled_from(("in-order", "shuffled", "shuffled", "shared"))),
        poison=draw(st.sampled_from(("nan", "nan", "large", "zero"))),
        spare=draw(st.integers(0, 2)),
        wide=draw(st.sampled_from((0, 0, 1, 2))),
        layout=layout,
        relation=draw(st.sampled_from(("repeat", "pages", "alone", "keys"))) if extra == "relation" else "",
        nonfinite=draw(st.sampled_from(("query-nan", "query-inf", "cache-nan"))) if extra == "nonfinite" else "",
        threads=draw(st.sampled_from((1, 1, 2))),
    )
    return msgspec.structs.replace(spec, relation="", nonfinite="") if spec.problem() else spec


def _drawn(count: int, number: int) -> list[Spec]:
    """``count`` different records; equal for equal arguments under one version of Hypothesis."""
    found: dict[bytes, Spec] = {}

    @seed(number)
    @settings(
        max_examples=count + count // 4 + 20,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(specs())
    def collect(spec: Spec) -> None:
        if len(found) < count and not spec.problem():
            found.setdefault(canonical(write(spec)), spec)

    collect()
    return list(found.values())


def planned(count: int, number: int) -> Iterator[Spec]:
    """Exactly ``count`` different records: the edge list, then drawn ones."""
    seen: set[bytes] = set()
    wanted = count
    for spec in edges():
        key = canonical(write(spec))
        if wanted and key not in seen:
            seen.add(key)
            wanted -= 1
            yield spec
    round_ = 0
    while wanted:
        for spec in _drawn(wanted, number + 1_000_003 * round_):
            key = canonical(write(spec))
            if wanted and key not in seen:
                seen.add(key)
                wanted -= 1
                yield spec
        round_ += 1
