"""What ``afere bench`` measures of this suite: the reference beside the machine's own float64 matrix product."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from harness.outputs import BenchRow
from reference.mla.absorbed import CHUNK, attend_rows
from reference.mla.geometry import DEEPSEEK

HEADS, TOKENS, REPEATS = 128, 8192, 7


def _best(run: Callable[[], object]) -> float:
    """The fastest of some runs, seconds: what else the machine does only ever adds."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def decode(notify: Callable[[str], None]) -> Iterator[BenchRow]:
    """Reference decode at 128 heads and 8,192 tokens, and a matrix product of the shapes that it is made of.

    A decode step is two products: 2 H n 576 and 2 H n 512 floating-point operations; the exponentials are not counted.
    """
    notify("reference MLA decode")
    generator = np.random.default_rng(0)
    query = generator.standard_normal((HEADS, DEEPSEEK.row))
    rows = generator.standard_normal((TOKENS, DEEPSEEK.row))
    square = generator.standard_normal((CHUNK, CHUNK))
    work = 2.0 * HEADS * TOKENS * (DEEPSEEK.row + DEEPSEEK.latent)
    ours = work / _best(lambda: attend_rows(query, rows, 0.07, DEEPSEEK.latent)) / 1e9
    plain = 2.0 * CHUNK**3 / _best(lambda: square @ square) / 1e9
    note = f"{HEADS} heads, {TOKENS} tokens; exponentials included in the time, not in the count"
    yield BenchRow(
        "reference MLA decode",
        ours,
        "GFLOP/s",
        plain,
        f"float64 matmul of {CHUNK}",
        ours / plain,
        wanted=0.5,
        note=note,
    )
