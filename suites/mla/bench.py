"""What ``afere bench`` measures of this suite: the reference beside the machine's own float64 matrix product."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from harness.outputs import BenchRow
from reference.mla.absorbed import attend_rows
from reference.mla.geometry import DEEPSEEK

HEADS, TOKENS, REPEATS = 128, 8192, 25
SIDE = 1024  # of the square matrices that the machine's own rate is measured with


def _best(*runs: Callable[[], object]) -> list[float]:
    """The fastest time of each, seconds, taken in turn: what else the machine does only ever adds."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(REPEATS):
        for kept, run in zip(times, runs, strict=True):
            start = time.perf_counter()
            run()
            kept.append(time.perf_counter() - start)
    return [min(kept) for kept in times]


def decode(notify: Callable[[str], None]) -> Iterator[BenchRow]:
    """Reference decode at 128 heads and 8,192 tokens, and a matrix product of the shapes that it is made of.

    A decode step is two products: 2 H n 576 and 2 H n 512 floating-point operations; the exponentials are not counted.
    """
    notify("reference MLA decode")
    generator = np.random.default_rng(0)
    query = generator.standard_normal((HEADS, DEEPSEEK.row))
    rows = generator.standard_normal((TOKENS, DEEPSEEK.row))
    square = generator.standard_normal((SIDE, SIDE))
    work = 2.0 * HEADS * TOKENS * (DEEPSEEK.row + DEEPSEEK.latent)
    mine, theirs = _best(lambda: attend_rows(query, rows, 0.07, DEEPSEEK.latent), lambda: square @ square)
    ours, plain = work / mine / 1e9, 2.0 * SIDE**3 / theirs / 1e9
    note = f"{HEADS} heads, {TOKENS} tokens; exponentials included in the time, not in the count"
    yield BenchRow(
        "reference MLA decode",
        ours,
        "GFLOP/s",
        plain,
        f"float64 matmul of {SIDE}",
        ours / plain,
        wanted=0.5,
        note=note,
    )
