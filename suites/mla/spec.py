"""What a case says: one record, its tables of choices, and what about it can be the cause of a difference.

A case holds integers and words only; ``build`` makes the arrays from them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from reference.mla.geometry import DEEPSEEK

DTYPES: Final = ("float32", "bfloat16", "float16")

SCALES: Final[dict[str, tuple[int, int]]] = {
    # name -> [m, k] of a case: the scale is m / 2**k, exact in float32.
    "deepseek": (1210759, 24),  # 192^-0.5: 128 nope and 64 rope elements of the expanded head
    "one": (1, 0),
    "row": (699051, 24),  # 576^-0.5, what a kernel would derive from the row
    "mscale": (1966080, 24),  # 192^-0.5 times a squared mscale of 1.62
    "small": (1, 8),
}

VALUES: Final = {
    "ordinary": "uniform on -2 .. 2 in the full precision of the format: order 1, scores of a few units",
    "large": "queries 128 times as large: scores of hundreds, most exponentials underflow",
    "offset": "all latent elements near 8: values share a sign and cancel nothing",
    "uniform": "queries zero, integers in the cache: every weight is 1/length",
    "one-hot": "each head picks one token by a code in the rotary elements; integers in the cache",
    "one-hot-latent": "the same by a code in the latent elements",
}

PAGES: Final = ("in-order", "shuffled", "shared")
POISONS: Final = ("zero", "nan", "large")  # what unused pages and tails hold
NONFINITE: Final = ("", "query-nan", "query-inf", "cache-nan")
RELATIONS: Final = ("", "repeat", "pages", "alone", "keys")

LAYOUTS: Final[dict[str, tuple[str, ...]]] = {
    "query": ("batch-gap", "head-gap", "element-gap", "unaligned"),
    "cache": ("page-gap", "row-gap", "unaligned"),
    "out": ("batch-gap", "head-gap", "element-gap", "unaligned"),
    "tables": ("row-gap", "int64"),
    "lengths": ("element-gap", "int64"),
}

MAX_TOKENS: Final = 512  # what the codes of the one-hot families can tell apart


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One case. ``lengths`` are tokens; ``spare`` unused pages; ``wide`` table columns beyond the longest sequence."""

    dtype: str = "float32"
    heads: int = 1
    lengths: tuple[int, ...] = (1,)
    scale: tuple[int, int] = SCALES["deepseek"]
    values: str = "ordinary"
    seed: int = 0
    pages: str = "in-order"
    poison: str = "zero"
    spare: int = 0
    wide: int = 0
    layout: dict[str, str] = {}
    nonfinite: str = ""
    relation: str = ""
    threads: int = 1

    @property
    def factor(self) -> float:
        """The softmax scale."""
        m, k = self.scale
        return m / float(1 << k)

    def problem(self) -> str:
        """Why this is no sensible case; empty where it is one."""
        tables = {
            "dtype": (self.dtype, DTYPES), "values": (self.values, VALUES),
            "pages": (self.pages, PAGES), "poison": (self.poison, POISONS), "nonfinite": (self.nonfinite, NONFINITE),
            "relation": (self.relation, RELATIONS),
        }  # fmt: skip
        for field, (value, known) in tables.items():
            if value not in known:
                return f"{field} {value!r} is none of {', '.join(repr(k) for k in known)}"
        ranges = {
            "heads": (self.heads, 1, 256), "spare": (self.spare, 0, 4), "wide": (self.wide, 0, 4),
            "threads": (self.threads, 1, 64), "seed": (self.seed, 0, 2**32 - 1),
            "scale mantissa": (self.scale[0], 1, 2**24), "scale shift": (self.scale[1], 0, 40),
            "number of sequences": (len(self.lengths), 1, 16),
            **{f"length {n}": (n, 0, MAX_TOKENS) for n in self.lengths},
        }  # fmt: skip
        for field, (number, low, high) in ranges.items():
            if not low <= number <= high:
                return f"{field} {number} is not in {low} .. {high}"
        for operand, layout in self.layout.items():
            if layout not in LAYOUTS.get(operand, ()):
                return f"no layout {layout!r} for operand {operand!r}"
        return self._contradiction()

    def _contradiction(self) -> str:
        if self.relation == "keys" and self.pages == "shared":
            return "keys of a shared page cannot be reordered for one sequence alone"
        if self.nonfinite and self.relation:
            return "a relation compares finite results"
        if self.nonfinite and not any(self.lengths):
            return "without tokens nothing meets the NaN"
        if self.nonfinite and self.values in ("uniform", "one-hot", "one-hot-latent"):
            return "exact families hold no NaN"
        if self.relation == "keys" and self.values in ("one-hot", "one-hot-latent"):
            return "the one-hot families name tokens by their position"
        if self.values in ("one-hot", "one-hot-latent") and self.scale != SCALES["one"]:
            return "the one-hot families are exact at scale one only"
        return ""


PLAIN: Final = Spec()


def read(data: dict[str, Any]) -> Spec | None:
    """The record for a case's input; None where the input is not one or makes no sense."""
    try:
        spec = msgspec.convert(data, Spec)
    except msgspec.ValidationError:
        return None
    return None if spec.problem() else spec


def write(spec: Spec) -> dict[str, Any]:
    """The JSON form: all fields, so that a later default changes no case."""
    data = msgspec.to_builtins(spec)
    return {**data, "lengths": list(data["lengths"]), "scale": list(data["scale"])}


def features(spec: Spec) -> frozenset[str]:
    """Tags of what differs from the plainest case; what can be the cause of a difference."""
    tags = {
        f"dtype:{spec.dtype}", f"values:{spec.values}", f"pages:{spec.pages}",
        f"poison:{spec.poison}", *(f"{operand}:{layout}" for operand, layout in spec.layout.items()),
    }  # fmt: skip
    longest = max(spec.lengths)
    optional = {
        "scale:other": spec.scale != SCALES["deepseek"],
        "heads:many": spec.heads > 1,
        "heads:odd": spec.heads > 1 and spec.heads % 2 == 1,
        "sequences:many": len(spec.lengths) > 1,
        "length:0": 0 in spec.lengths,
        "length:more-than-1": longest > 1,
        "length:more-than-a-page": longest > DEEPSEEK.block,
        "page:full": any(n and n % DEEPSEEK.block == 0 for n in spec.lengths),
        "pages:unused": spec.spare > 0,
        "table:wide": spec.wide > 0,
        f"nonfinite:{spec.nonfinite}": bool(spec.nonfinite),
        f"relation:{spec.relation}": bool(spec.relation),
        "threads:many": spec.threads > 1,
    }
    return frozenset(tags | {tag for tag, holds in optional.items() if holds})
