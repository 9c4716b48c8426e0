"""What the numbers of one MLA cache row mean, and how many blocks a sequence takes."""

from __future__ import annotations

import msgspec


class Geometry(msgspec.Struct, frozen=True):
    """Sizes of a latent cache, in elements and tokens.

    A cache row holds ``latent`` elements (the compressed key-value state) and then ``rope`` elements (the rotated part
    of the key, shared by all heads). The value of a token is the first ``latent`` elements of the same row. ``block``
    rows make a page. Source: DeepSeek-V2 (arXiv:2405.04434), section 2.1; the defaults are that model's sizes and the
    only ones that vLLM's CPU decode kernel takes.
    """

    latent: int = 512
    rope: int = 64
    block: int = 16

    @property
    def row(self) -> int:
        """Elements of one cache row, and of one query of one head: ``latent + rope``."""
        return self.latent + self.rope

    def blocks(self, length: int) -> int:
        """Pages that ``length`` tokens take. 0 tokens take none.

        :raises ValueError: ``length`` is negative
        """
        if length < 0:
            raise ValueError(f"a sequence cannot have {length} tokens; give 0 or more")
        return -(-length // self.block)

    def tail(self, length: int) -> int:
        """Rows of the last page that no token uses: 0 when the pages are full or there are none."""
        return self.blocks(length) * self.block - length


DEEPSEEK = Geometry()
"""Latent 512, rope 64, block 16."""
