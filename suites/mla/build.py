"""Make the arrays of a case from its record: integers from counter-based streams, divided by powers of two.

A case has the operands of one call: ``query`` ``[B, H, 576]``, ``cache`` ``[pages, 16, 576]``, ``tables`` int32
``[B, width]`` and ``lengths`` int32 ``[B]``. A relation has a second call; its operands are the same but for those
that are there under the prefix ``2.``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness.targets.base import Tensor
from reference.mla.floats import FORMATS, Format, encode
from reference.mla.geometry import DEEPSEEK
from suites.mla import stream
from suites.mla.spec import Spec

Float64 = npt.NDArray[np.float64]

ROW, LATENT, BLOCK = DEEPSEEK.row, DEEPSEEK.latent, DEEPSEEK.block
CODE_BITS: Final = 9  # tells 512 tokens apart
CODE_WEIGHT: Final = 512  # two of it are the gap between the best score and the next: reference.mla.exact.GAP
POISON: Final = {"zero": 0.0, "nan": float("nan"), "large": 4096.0}


class Placement:
    """Which page holds which block of which sequence.

    ``slots`` are the blocks in order of first use; ``tables`` ``[B, width]`` name pages; ``used`` rows of each slot.
    """

    def __init__(self, spec: Spec, salt: str = "") -> None:
        self.blocks = [DEEPSEEK.blocks(n) for n in spec.lengths]
        slot_tables: list[list[int]] = []
        self.owners: list[tuple[int, int]] = []  # slot -> (sequence, block) that it was made for
        self.used: list[int] = []
        shared = -1
        for sequence, (count, length) in enumerate(zip(self.blocks, spec.lengths, strict=True)):
            row = []
            for block in range(count):
                rows = min(BLOCK, length - block * BLOCK)
                if spec.pages == "shared" and block == 0 and shared >= 0:
                    self.used[shared] = max(self.used[shared], rows)
                    row.append(shared)
                    continue
                row.append(len(self.owners))
                if block == 0 and shared < 0:
                    shared = len(self.owners)
                self.owners.append((sequence, block))
                self.used.append(rows)
            slot_tables.append(row)
        # One page that no token uses lies last, where a case needs entries that name such a page.
        garbage = spec.wide > 0 or spec.layout.get("tables") == "row-gap" or spec.spare > 0
        movable = max(1, len(self.owners) + max(0, spec.spare - 1)) if garbage else max(1, len(self.owners))
        self.total = movable + garbage
        if spec.pages == "in-order" and not salt:
            self.page_of = np.arange(self.total)
        else:
            order = stream.permutation(spec.seed, f"pages{salt}", movable)
            self.page_of = np.concatenate([order, np.arange(movable, self.total)])
        width = max(1, max(self.blocks)) + spec.wide
        self.tables = np.full((len(spec.lengths), width), self.total - 1, dtype=np.int32)
        for sequence, row in enumerate(slot_tables):
            self.tables[sequence, : len(row)] = self.page_of[row]


def _latent_and_rope(spec: Spec, slots: int) -> Float64:
    """Contents of ``slots`` blocks before placing, ``[slots, 16, 576]``."""
    shape = (slots, BLOCK, ROW)
    if spec.values in ("uniform", "one-hot", "one-hot-latent"):
        return stream.symmetric(spec.seed, "cache", shape, 8).astype(np.float64)
    form = FORMATS[spec.dtype]
    plain = _ordinary(spec.seed, "cache", shape, form)
    if spec.values == "offset":
        steps = stream.symmetric(spec.seed, "cache", (slots, BLOCK, LATENT), 2 ** (form.precision - 4))
        plain[..., :LATENT] = 9.0 + steps / float(2 ** (form.precision - 4))
    return plain


def _ordinary(seed: int, name: str, shape: tuple[int, ...], form: Format) -> Float64:
    largest = 2**form.precision - 1
    return stream.symmetric(seed, name, shape, largest) / float(2 ** (form.precision - 1))


def _code(positions: npt.NDArray[Any]) -> Float64:
    """Plus and minus ones that spell a position, ``[*positions.shape, 9]``."""
    bits = (np.asarray(positions)[..., None] >> np.arange(CODE_BITS)) & 1
    return (2 * bits - 1).astype(np.float64)


def targets_of(spec: Spec) -> npt.NDArray[np.int64]:
    """The token that each head of each sequence picks in the one-hot families, ``[B, H]``: ends first, then any."""
    heads = np.arange(spec.heads)
    rows = []
    for b, n in enumerate(spec.lengths):
        any_token = stream.below(spec.seed, f"target{b}", spec.heads, max(1, n))
        rows.append(np.where(heads == 0, max(0, n - 1), np.where(heads == 1, 0, any_token)))
    return np.stack(rows).astype(np.int64)


def _query(spec: Spec) -> Float64:
    shape = (len(spec.lengths), spec.heads, ROW)
    if spec.values == "uniform":
        return np.zeros(shape)
    if spec.values in ("one-hot", "one-hot-latent"):
        query = np.zeros(shape)
        query[..., _code_columns(spec)] = CODE_WEIGHT * _code(targets_of(spec))
        return query
    query = _ordinary(spec.seed, "query", shape, FORMATS[spec.dtype])
    return query * 128.0 if spec.values == "large" else query


def _code_columns(spec: Spec) -> slice:
    start = LATENT if spec.values == "one-hot" else 0
    return slice(start, start + CODE_BITS)


def _pages(spec: Spec, contents: Float64, place: Placement) -> Float64:
    # Who reads the gap between two lengths attends the tail: there it has to show.
    poison = "nan" if spec.layout.get("lengths") == "element-gap" else spec.poison
    pages = np.full((place.total, BLOCK, ROW), POISON[poison])
    if spec.layout.get("tables") == "row-gap":
        pages[-1] = np.nan  # what the gaps of the table name
    for slot, rows in enumerate(place.used):
        pages[place.page_of[slot], :rows] = contents[slot, :rows]
    return pages


def _reordered(spec: Spec, contents: Float64, place: Placement) -> Float64:
    """The same rows in another order within each sequence."""
    out = contents.copy()
    for sequence, length in enumerate(spec.lengths):
        if length < 2:
            continue
        slots = [s for s, (owner, _) in enumerate(place.owners) if owner == sequence]
        flat = contents[slots].reshape(-1, ROW)
        order = stream.permutation(spec.seed, f"keys{sequence}", length)
        flat[:length] = flat[order]
        out[slots] = flat.reshape(len(slots), BLOCK, ROW)
    return out


def arrays(spec: Spec) -> dict[str, Tensor]:
    """The operands of a case. Floats are exact in the dtype, so nothing is rounded here."""
    form = FORMATS[spec.dtype]
    place = Placement(spec)
    contents = _latent_and_rope(spec, len(place.owners))
    if spec.values in ("one-hot", "one-hot-latent"):
        blocks = np.array([block for _, block in place.owners], dtype=np.int64)
        contents[..., _code_columns(spec)] = _code(blocks[:, None] * BLOCK + np.arange(BLOCK))
    query, pages = _query(spec), _pages(spec, contents, place)
    _spoil(spec, query, pages, place)

    def floats(x: Float64) -> Tensor:
        return Tensor(np.ascontiguousarray(encode(form, x)), spec.dtype)

    lengths = np.array(spec.lengths, dtype=np.int32)
    made = {
        "query": floats(query),
        "cache": floats(pages),
        "tables": Tensor.of(place.tables),
        "lengths": Tensor.of(lengths),
    }
    if spec.relation == "pages":
        moved = Placement(spec, salt="-moved")
        made["2.cache"] = floats(_pages(spec, contents, moved))
        made["2.tables"] = Tensor.of(moved.tables)
    elif spec.relation == "keys":
        made["2.cache"] = floats(_pages(spec, _reordered(spec, contents, place), place))
    elif spec.relation == "alone":
        one = slice(chosen(spec), chosen(spec) + 1)
        made["2.query"] = floats(query[one])
        made["2.tables"] = Tensor.of(place.tables[one])
        made["2.lengths"] = Tensor.of(lengths[one])
    return made


def chosen(spec: Spec) -> int:
    """The sequence that the relation ``alone`` asks for again, and that a NaN is put into: the longest."""
    return int(np.argmax(spec.lengths))


def spoilt_head(spec: Spec) -> int:
    """The head whose query holds the NaN or infinity."""
    return int(stream.below(spec.seed, "head", 1, spec.heads)[0])


def _spoil(spec: Spec, query: Float64, pages: Float64, place: Placement) -> None:
    """Put one NaN or infinity into a head's query or into an attended row, in place."""
    if not spec.nonfinite:
        return
    sequence = chosen(spec)
    column = int(stream.below(spec.seed, "column", 1, ROW)[0])
    if spec.nonfinite == "cache-nan":
        token = int(stream.below(spec.seed, "token", 1, spec.lengths[sequence])[0])
        pages[place.tables[sequence, token // BLOCK], token % BLOCK, column] = np.nan
    else:
        query[sequence, spoilt_head(spec), column] = np.nan if spec.nonfinite == "query-nan" else np.inf
