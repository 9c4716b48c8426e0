"""The paged latent cache: which rows make up a sequence, in which order."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from reference.mla.geometry import DEEPSEEK, Geometry

Float64 = npt.NDArray[np.float64]


class PagedCache(msgspec.Struct, frozen=True):
    """Pages, block tables and lengths of a batch of B sequences.

    ``pages`` ``[blocks, block, row]`` floating; ``tables`` ``[B, width]`` integers, entry ``[b, i]`` is the page that
    holds tokens ``16 i .. 16 i + 15`` of sequence b; ``lengths`` ``[B]`` integers, tokens. Entries of a table beyond
    the blocks that a length takes, unused pages and the tail of the last page mean nothing and are never read.
    Several entries may name one page (a shared prefix).
    """

    pages: npt.NDArray[Any]
    tables: npt.NDArray[Any]
    lengths: npt.NDArray[Any]
    geometry: Geometry = DEEPSEEK

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return int(self.lengths.shape[0])

    def length(self, sequence: int) -> int:
        """Tokens of one sequence. A negative length means none, as an empty slot of a batch may carry one."""
        return max(0, int(self.lengths[sequence]))

    def rows(self, sequence: int) -> Float64:
        """The rows of one sequence in token order, ``[length, row]`` float64.

        :raises IndexError: the table is too short for the length, or names a page that is not there
        """
        length = self.length(sequence)
        count = self.geometry.blocks(length)
        if count > self.tables.shape[1]:
            raise IndexError(
                f"sequence {sequence} has {length} tokens and takes {count} blocks; "
                f"its table has {self.tables.shape[1]}"
            )
        chosen = np.asarray(self.tables[sequence, :count], dtype=np.int64)
        if count and (chosen.min() < 0 or chosen.max() >= self.pages.shape[0]):
            raise IndexError(f"the table of sequence {sequence} names page {chosen.max()} of {self.pages.shape[0]}")
        flat = self.pages[chosen].reshape(count * self.geometry.block, self.geometry.row)
        return flat[:length].astype(np.float64)


def write(cache: PagedCache, sequence: int, position: int, row: npt.NDArray[Any]) -> None:
    """Put one token's row where the table says, in place. ``row`` is ``[row]`` in the dtype of the pages.

    :raises IndexError: ``position`` lies outside the blocks of the table
    """
    block, offset = divmod(position, cache.geometry.block)
    if not 0 <= block < cache.tables.shape[1]:
        raise IndexError(f"position {position} is outside the {cache.tables.shape[1]} blocks of sequence {sequence}")
    cache.pages[int(cache.tables[sequence, block]), offset] = row
