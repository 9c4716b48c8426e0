"""Arrays as content-addressed files: raw C-order little-endian elements, named by a hash of dtype, shape and bytes."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import numpy as np

from harness.records import ArrayRef, canonical
from harness.targets.base import Tensor

# dtype name -> NumPy dtype of its stored elements. NumPy has no bfloat16: its bits travel as uint16.
STORED: dict[str, np.dtype[np.generic]] = {
    **{n: np.dtype(n).newbyteorder("<") for n in ("float16", "float32", "float64", "bool", "int8", "int16", "int32")},
    **{n: np.dtype(n).newbyteorder("<") for n in ("int64", "uint8", "uint16", "uint32", "uint64")},
    "bfloat16": np.dtype("<u2"),
}


class BlobError(Exception):
    """A blob is missing or its bytes are not what its name says."""


def to_bytes(tensor: Tensor) -> bytes:
    """The stored bytes of a tensor.

    :raises ValueError: the dtype cannot be stored, or the elements are not of it (a cast would change them unnoticed)
    """
    if tensor.dtype not in STORED:
        raise ValueError(f"cannot store an array of dtype {tensor.dtype!r}; known are {', '.join(sorted(STORED))}")
    stored = STORED[tensor.dtype]
    if tensor.data.dtype.newbyteorder("<") != stored:
        raise ValueError(f"an array of {tensor.dtype} has elements of {tensor.data.dtype}, not {stored.name}")
    return tensor.data.astype(stored, copy=False).tobytes()  # in C order, whatever the layout


def _digest(dtype: str, shape: tuple[int, ...], raw: bytes) -> str:
    return hashlib.sha256(canonical([dtype, list(shape)]) + raw).hexdigest()


class BlobStore:
    """A folder of blobs. Writing the same array twice keeps one file; a file appears whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, ref: ArrayRef) -> Path:
        """Where the raw elements of ``ref`` are kept."""
        return self.folder / ref.digest[:2] / ref.digest[2:]

    def put(self, tensor: Tensor) -> ArrayRef:
        """Store an array.

        :raises ValueError: its dtype cannot be stored
        """
        raw = to_bytes(tensor)
        ref = ArrayRef(_digest(tensor.dtype, tensor.shape, raw), tensor.dtype, tensor.shape)
        path = self.path(ref)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
            with os.fdopen(handle, "wb") as file:
                file.write(raw)
            Path(temporary).replace(path)
        return ref

    def get(self, ref: ArrayRef) -> Tensor:
        """Read an array back, checked against its name.

        :raises BlobError: it is missing or damaged
        """
        try:
            raw = self.path(ref).read_bytes()
        except FileNotFoundError:
            raise BlobError(f"array {ref.digest[:12]} is missing from {self.folder}") from None
        if _digest(ref.dtype, ref.shape, raw) != ref.digest:
            raise BlobError(f"array {ref.digest[:12]} in {self.folder} is damaged: its bytes do not hash to its name")
        data = np.frombuffer(raw, dtype=STORED[ref.dtype]).reshape(ref.shape)
        return Tensor(data.astype(data.dtype.newbyteorder("="), copy=True), ref.dtype)
