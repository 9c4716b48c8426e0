"""Laws of the float64 reference: two algebras, order, pages, formats, bounds, exact families."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.mla import absorbed, exact, expanded, rope
from reference.mla.bound import ANY_ORDER, BLOCKED, bound
from reference.mla.cache import PagedCache, write
from reference.mla.floats import FORMATS, decode, encode, round_to, ulp
from reference.mla.geometry import DEEPSEEK, Geometry
from suites.mla import stream
from suites.mla.model import Switches, attend

SEEDS = st.integers(0, 2**32 - 1)


def numbers(seed: int, name: str, *shape: int) -> np.ndarray:
    """Multiples of 2^-10 between -2 and 2."""
    return stream.symmetric(seed, name, shape, 2048) / 1024.0


def cache(seed: int, lengths: tuple[int, ...], geometry: Geometry = DEEPSEEK) -> PagedCache:
    blocks = [geometry.blocks(n) for n in lengths]
    total = sum(blocks) + 1
    pages = numbers(seed, "cache", total, geometry.block, geometry.row)
    order = stream.permutation(seed, "pages", total)
    tables = np.full((len(lengths), max(1, *blocks)), order[-1])
    start = 0
    for b, count in enumerate(blocks):
        tables[b, :count] = order[start : start + count]
        start += count
    return PagedCache(pages, tables, np.array(lengths), geometry)


@given(SEEDS, st.integers(1, 4), st.lists(st.integers(0, 40), min_size=1, max_size=3))
@settings(max_examples=15)
def test_the_two_algebras_agree(seed: int, heads: int, lengths: list[int]) -> None:
    pages = cache(seed, tuple(lengths))
    nope, value = 24, 20
    q_nope = numbers(seed, "q", len(lengths), heads, nope)
    q_rope = numbers(seed, "r", len(lengths), heads, 64)
    w_uk, w_uv = numbers(seed, "uk", heads, nope, 512) / 16, numbers(seed, "uv", heads, 512, value) / 16
    query = np.concatenate([absorbed.absorb(q_nope, w_uk), q_rope], axis=-1)
    short = absorbed.decode(query, pages, 0.07)
    long = expanded.attend(q_nope, q_rope, w_uk, w_uv, pages, 0.07)
    np.testing.assert_allclose(absorbed.project(short.out, w_uv), long.out, rtol=0, atol=1e-11)
    np.testing.assert_allclose(short.lse, long.lse, rtol=1e-12, atol=1e-12)


def test_a_sequence_does_not_depend_on_its_batch() -> None:
    pages = cache(1, (40, 0, 17, 300))
    query = numbers(2, "q", 4, 8, 576)
    together = absorbed.decode(query, pages, 0.07)
    for b in range(4):
        alone = PagedCache(pages.pages, pages.tables[b : b + 1], pages.lengths[b : b + 1])
        single = absorbed.decode(query[b : b + 1], alone, 0.07)
        assert (single.out[0] == together.out[b]).all()
        assert (single.lse[0] == together.lse[b]).all()


_DIGEST = """
import hashlib, numpy as np
from reference.mla.absorbed import attend_rows
x = (np.arange(2500 * 576) % 1013 - 506).reshape(2500, 576) / 256.0
q = (np.arange(16 * 576) % 509 - 254).reshape(16, 576) / 256.0
print(hashlib.sha256(attend_rows(q, x, 0.07, 512).out.tobytes()).hexdigest())
"""


def test_the_reference_does_not_depend_on_threads() -> None:
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    digests = set()
    for threads in ("1", "2"):
        environment = {**os.environ, **dict.fromkeys(names, threads)}
        done = subprocess.run(
            [sys.executable, "-c", _DIGEST], env=environment, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout)
    assert len(digests) == 1


def test_pages_may_lie_anywhere() -> None:
    pages = cache(3, (50, 33))
    order = stream.permutation(9, "again", pages.pages.shape[0])
    moved = np.empty_like(pages.pages)
    moved[order] = pages.pages
    query = numbers(4, "q", 2, 3, 576)
    one = absorbed.decode(query, pages, 0.07)
    two = absorbed.decode(query, PagedCache(moved, order[pages.tables], pages.lengths), 0.07)
    assert (one.out == two.out).all()


@given(SEEDS, st.integers(1, 60), st.integers(0, 60))
@settings(max_examples=20)
def test_parts_merge_to_the_whole(seed: int, n: int, cut: int) -> None:
    rows, query = numbers(seed, "rows", n, 576), numbers(seed, "q", 3, 576)
    cut = min(cut, n)
    whole = absorbed.attend_rows(query, rows, 0.5, 512)
    parts = [absorbed.attend_rows(query, part, 0.5, 512) for part in (rows[:cut], rows[cut:])]
    merged = absorbed.merge(parts)
    np.testing.assert_allclose(merged.out, whole.out, atol=1e-12)
    np.testing.assert_allclose(merged.lse, whole.lse, rtol=1e-12)


def test_nothing_gives_zeros_and_minus_infinity() -> None:
    query = numbers(0, "q", 2, 576)
    nothing = absorbed.attend_rows(query, np.zeros((0, 576)), 1.0, 512)
    assert (nothing.out == 0.0).all()
    assert np.isneginf(nothing.lse).all()
    merged = absorbed.merge([nothing, nothing])
    assert (merged.out == 0.0).all()
    assert np.isneginf(merged.lse).all()


def test_rotation_depends_on_distance_only() -> None:
    q, k = numbers(0, "q", 64), numbers(0, "k", 64)
    for order in ("interleaved", "half"):
        at = [rope.rotate(q, np.array(p + 7), order) @ rope.rotate(k, np.array(p), order) for p in (0, 11, 400)]
        np.testing.assert_allclose(at, at[0], rtol=1e-12)
        assert (rope.rotate(q, np.array(0), order) == q).all()
    np.testing.assert_allclose(
        rope.rotate(rope.to_half(q), np.array(5), "half"), rope.to_half(rope.rotate(q, np.array(5), "interleaved"))
    )
    assert np.abs(rope.rotate(q, np.array(5), "half") - rope.rotate(q, np.array(5), "interleaved")).max() > 0.1


def test_rotation_refuses_what_has_no_pairs() -> None:
    with pytest.raises(ValueError, match="width 63 is odd"):
        rope.angles(np.arange(3), 63)
    with pytest.raises(ValueError, match="'mixed' is unknown"):
        rope.rotate(np.zeros(4), np.array(1), "mixed")  # type: ignore[arg-type]


def test_the_cache_reads_what_was_written() -> None:
    pages = cache(5, (0, 20))
    row = numbers(6, "row", 576)
    write(pages, 1, 17, row)
    assert (pages.rows(1)[17] == row).all()
    assert pages.rows(0).shape == (0, 576)
    assert PagedCache(pages.pages, pages.tables, np.array([-3, 20])).rows(0).shape == (0, 576)


def test_a_table_that_names_no_page_is_refused() -> None:
    pages = cache(5, (20,))
    with pytest.raises(IndexError, match="takes 7 blocks"):
        PagedCache(pages.pages, pages.tables, np.array([100])).rows(0)
    with pytest.raises(IndexError, match="names page 99"):
        PagedCache(pages.pages, np.array([[0, 99]]), np.array([20])).rows(0)
    with pytest.raises(IndexError, match="position 400"):
        write(pages, 0, 400, np.zeros(576))
    with pytest.raises(ValueError, match="-1 tokens"):
        DEEPSEEK.blocks(-1)


@given(st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=50))
def test_rounding_is_that_of_the_hardware(values: list[float]) -> None:
    x = np.array(values, dtype=np.float64)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(round_to(FORMATS["float16"], x), x.astype(np.float16).astype(np.float64))
    np.testing.assert_array_equal(round_to(FORMATS["float32"], x), x.astype(np.float32).astype(np.float64))
    theirs = torch.tensor(x.astype(np.float32)).to(torch.bfloat16).double().numpy()
    np.testing.assert_array_equal(round_to(FORMATS["bfloat16"], x), theirs)
    for name in ("float16", "bfloat16", "float32"):
        rounded = round_to(FORMATS[name], x)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(decode(FORMATS[name], encode(FORMATS[name], x)), rounded)


def test_the_step_of_a_format() -> None:
    for name, kind in (("float16", np.float16), ("float32", np.float32)):
        for x in (1.0, 1.5, 3.0, 1e-3, 1e-7, 0.0):
            assert ulp(FORMATS[name], x) == float(np.spacing(kind(x)))


@given(SEEDS, st.integers(1, 70), st.sampled_from(("float32", "bfloat16", "float16")), st.sampled_from((1.0, 60.0)))
@settings(max_examples=25)
def test_an_honest_kernel_stays_within_the_bound(seed: int, n: int, name: str, size: float) -> None:
    form = FORMATS[name]
    query = round_to(form, size * numbers(seed, "q", 2, 576))
    rows = round_to(form, numbers(seed, "rows", n, 576))
    want = absorbed.attend_rows(query, rows, 0.0625, 512)
    for arithmetic, switches in ((BLOCKED, Switches()), (ANY_ORDER, Switches(block=1 << 20))):
        got, lse = attend(query.astype(np.float32), rows.astype(np.float32), 0.0625, switches)
        spread = bound(query, rows, 0.0625, 512, arithmetic, form)
        assert (np.abs(round_to(form, got) - want.out) <= spread.nearest).all()
        assert (np.abs(lse - want.lse) <= spread.lse).all()


def test_a_wrong_kernel_does_not() -> None:
    query, rows = numbers(0, "q", 2, 576), numbers(0, "rows", 40, 576)
    want = absorbed.attend_rows(query, rows, 0.0625, 512).out
    spread = bound(query, rows, 0.0625, 512, ANY_ORDER, FORMATS["float32"])
    for switches, scale in (
        (Switches(), 0.0625 * 1.01),
        (Switches(score=(0, 512)), 0.0625),
        (Switches(weight_bits=8), 0.0625),
    ):
        got, _ = attend(query.astype(np.float32), rows.astype(np.float32), scale, switches)
        assert (np.abs(got - want) > spread.faithful).any()


def test_the_statistical_form_is_the_smaller_one() -> None:
    query, rows = numbers(0, "q", 2, 576), numbers(0, "rows", 100, 576)
    worst = bound(query, rows, 0.07, 512, BLOCKED, FORMATS["float32"])
    spread = bound(query, rows, 0.07, 512, BLOCKED, FORMATS["float32"], "statistical")
    assert (spread.inner < worst.inner).all()
    assert (worst.nearest < worst.faithful).all()


def test_more_stores_widen_the_bound_by_one_store() -> None:
    query, rows = numbers(0, "q", 2, 576), numbers(0, "rows", 9, 576)
    plain = bound(query, rows, 0.07, 512, ANY_ORDER, FORMATS["bfloat16"])
    stored = msgspec.structs.replace(ANY_ORDER, weight_store="bfloat16")
    twice = bound(query, rows, 0.07, 512, stored, FORMATS["bfloat16"])
    mass = np.abs(rows[:, :512]).max(axis=0)
    assert (twice.inner > plain.inner).all()
    assert (twice.inner - plain.inner <= 1.01 * 2.0**-8 * mass).all()
    assert (ANY_ORDER.stores, stored.stores) == (1, 2)


def test_no_bound_exists_for_nan() -> None:
    with pytest.raises(ValueError, match="finite operands"):
        bound(np.full((1, 576), np.nan), np.zeros((1, 576)), 1.0, 512, BLOCKED, FORMATS["float32"])


def test_huge_scores_leave_the_range_of_the_values() -> None:
    query, rows = 1e6 * numbers(0, "q", 1, 576), numbers(0, "rows", 5, 576)
    spread = bound(query, rows, 1.0, 512, ANY_ORDER, FORMATS["float32"])
    reach = rows[:, :512].max(axis=0) - rows[:, :512].min(axis=0)
    assert (spread.inner <= 1.01 * reach).all()


def test_uniform_attention_is_a_mean() -> None:
    rows = stream.symmetric(0, "rows", (16, 576), 8).astype(np.float64)
    want = exact.uniform(rows, 512, FORMATS["float32"])
    assert (want == absorbed.attend_rows(np.zeros((1, 576)), rows, 1.0, 512).out[0]).all()
    with pytest.raises(ValueError, match="power of two"):
        exact.uniform(rows[:15], 512, FORMATS["float32"])
    with pytest.raises(ValueError, match="over integers"):
        exact.uniform(rows / 3.0, 512, FORMATS["float32"])


def test_one_hot_attention_is_a_row() -> None:
    rows = stream.symmetric(0, "rows", (5, 576), 8).astype(np.float64)
    rows[:, 512:] = 0.0
    rows[3, 520] = 1.0
    query = np.zeros((1, 576))
    query[0, 520] = 1024.0
    assert (exact.one_hot(query, rows, 1.0, 512, FORMATS["bfloat16"])[0] == rows[3, :512]).all()
    with pytest.raises(ValueError, match="less than 1024"):
        exact.one_hot(query / 2.0, rows, 1.0, 512, FORMATS["float32"])


def test_bitwise_comparison_depends_on_the_algorithm() -> None:
    permitted = exact.permitted
    assert permitted("uniform", ANY_ORDER, 64)
    assert not permitted("uniform", BLOCKED, 64)
    assert permitted("uniform", BLOCKED, 16)
    assert not permitted("uniform", ANY_ORDER, 48)
    assert permitted("one-hot", BLOCKED, 257)


def test_streams_are_the_same_everywhere() -> None:
    words = stream.words(7, "query", 1000)
    assert hashlib.sha256(words.astype("<u8").tobytes()).hexdigest()[:16] == "7272055b43575165"
    assert sorted(stream.permutation(3, "p", 50)) == list(range(50))
    assert set(stream.below(1, "b", 400, 5)) == set(range(5))
    assert np.abs(stream.symmetric(1, "s", (100,), 3)).max() == 3
