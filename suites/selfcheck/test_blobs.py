"""Arrays on disk: every bit survives, the name follows from the content, damage is noticed."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from harness.blobs import STORED, BlobError, BlobStore, to_bytes
from harness.records import ArrayRef
from harness.targets.base import Tensor

SHAPES = [(), (1,), (3,), (2, 3), (0,), (2, 0, 3), (1, 1, 1, 2)]


def filled(dtype: str, shape: tuple[int, ...]) -> Tensor:
    """Every bit pattern is as good as any other: count through the bytes."""
    stored = STORED[dtype]
    size = int(np.prod(shape, dtype=int))
    raw = bytes((7 * i + 1) % 256 for i in range(size * stored.itemsize))
    if dtype == "bool":
        raw = bytes(b % 2 for b in raw)
    data = np.frombuffer(raw, stored).astype(stored.newbyteorder("=")).reshape(shape)
    return Tensor(data, dtype)


def bits(tensor: Tensor) -> bytes:
    return np.asarray(tensor.data).astype(tensor.data.dtype.newbyteorder("<")).tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", sorted(STORED))
def test_every_dtype_and_shape_comes_back(blobs: BlobStore, dtype: str, shape: tuple[int, ...]) -> None:
    tensor = filled(dtype, shape)
    back = blobs.get(blobs.put(tensor))
    assert (back.dtype, back.shape) == (dtype, shape)
    assert bits(back) == bits(tensor)
    assert back.data.dtype.isnative
    assert back.data.flags.writeable


@given(data=st.data())
def test_any_array_comes_back(tmp_path: Path, data: st.DataObject) -> None:
    blobs = BlobStore(tmp_path)
    dtype = data.draw(st.sampled_from([d for d in sorted(STORED) if d != "bfloat16"]))
    array = data.draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=4)))
    back = blobs.get(blobs.put(Tensor.of(array)))
    assert back.shape == array.shape
    assert bits(back) == bits(Tensor(array, dtype))


@pytest.mark.parametrize(
    ("dtype", "pattern"),
    [
        ("float32", 0x7FC12345), ("float32", 0x7F800001), ("float32", 0xFFC00001), ("float32", 0x80000000),
        ("float32", 0x00000001), ("float64", 0x7FF8DEADBEEF0001), ("float64", 0x8000000000000000),
        ("float16", 0x7E01), ("float16", 0x8000), ("bfloat16", 0x7FC1), ("bfloat16", 0x8000), ("bfloat16", 0x0001),
    ],
)  # fmt: skip
def test_nan_payloads_signed_zeros_and_subnormals_survive(blobs: BlobStore, dtype: str, pattern: int) -> None:
    width = STORED[dtype].itemsize
    raw = np.array([pattern], dtype=f"u{width}")
    data = raw if dtype == "bfloat16" else raw.view(dtype)
    back = blobs.get(blobs.put(Tensor(data, dtype)))
    assert back.data.view(f"u{width}")[0] == pattern


def test_layout_and_byte_order_do_not_change_the_name(blobs: BlobStore) -> None:
    plain = np.arange(12, dtype=np.float32).reshape(3, 4)
    same: list[Any] = [
        plain,
        np.asfortranarray(plain),
        plain.astype(">f4"),
        np.ascontiguousarray(plain.T).T,
        np.repeat(plain, 2, axis=1)[:, ::2],
        plain[::-1][::-1],
    ]
    refs = {blobs.put(Tensor.of(array)) for array in same} | {blobs.put(Tensor(array, "float32")) for array in same}
    assert len(refs) == 1
    assert len([p for p in blobs.folder.rglob("*") if p.is_file()]) == 1


def test_the_name_is_pinned(blobs: BlobStore) -> None:
    tensor = Tensor.of(np.array([[1.5, -0.0]], dtype=np.float32))
    raw = bytes.fromhex("0000c03f00000080")
    assert to_bytes(tensor) == raw
    digest = blobs.put(tensor).digest
    assert digest == hashlib.sha256(b'["float32",[1,2]]' + raw).hexdigest()
    assert digest == "892b0484a3bceefeb73b7081eae9eb66595a4da411674930bebdd116e7b13e95"


def test_shape_and_dtype_are_part_of_the_name(blobs: BlobStore) -> None:
    zeros = np.zeros(4, dtype=np.int32)
    tensors = [Tensor.of(zeros), Tensor.of(zeros.reshape(2, 2)), Tensor(zeros.view(np.float32), "float32")]
    assert len({blobs.put(t).digest for t in tensors}) == 3


def test_a_scalar_keeps_its_shape() -> None:
    assert Tensor.of(np.array(3.0)).shape == ()


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (np.array([1.5], dtype=np.float64), "float32"),  # would be rounded
        (np.array([1.5], dtype=np.float32), "bfloat16"),  # would be truncated to the integer 1
        (np.array([300], dtype=np.int64), "uint8"),  # would wrap
    ],
)
def test_elements_that_are_not_of_the_dtype_are_refused(blobs: BlobStore, data: Any, dtype: str) -> None:
    with pytest.raises(ValueError, match=dtype):
        blobs.put(Tensor(data, dtype))


def test_an_unknown_dtype_is_refused_by_name(blobs: BlobStore) -> None:
    with pytest.raises(ValueError, match="complex64"):
        blobs.put(Tensor.of(np.zeros(2, dtype=np.complex64)))


def test_a_missing_blob_is_named(blobs: BlobStore) -> None:
    with pytest.raises(BlobError, match="abcdef012345 is missing"):
        blobs.get(ArrayRef("abcdef0123456789", "float32", (1,)))


@pytest.mark.parametrize("at", [0, 3, 7])
def test_one_flipped_bit_is_noticed(blobs: BlobStore, at: int) -> None:
    ref = blobs.put(Tensor.of(np.array([1.0, 2.0], dtype=np.float32)))
    raw = bytearray(blobs.path(ref).read_bytes())
    raw[at] ^= 1
    blobs.path(ref).write_bytes(raw)
    with pytest.raises(BlobError, match="damaged"):
        blobs.get(ref)


@pytest.mark.parametrize("length", [0, 3, 4, 7, 9])
def test_a_blob_of_the_wrong_length_is_noticed(blobs: BlobStore, length: int) -> None:
    ref = blobs.put(Tensor.of(np.array([1.0, 2.0], dtype=np.float32)))
    blobs.path(ref).write_bytes((blobs.path(ref).read_bytes() + b"\0\0")[:length])
    with pytest.raises(BlobError, match="damaged"):
        blobs.get(ref)
