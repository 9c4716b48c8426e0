"""Where generators take their decisions from: a counter-based stream, or Hypothesis.

The generators of this suite are functions of a :class:`Draw`. Planning a run uses :class:`Stream`, so that the same
arguments give the same cases on every machine and with every version of Hypothesis. The property tests use
:class:`Drawn`, so that Hypothesis can shrink what they find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


class Draw(Protocol):
    """A source of decisions."""

    def below(self, limit: int) -> int:
        """Return an integer from 0 to ``limit - 1``."""

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options."""

    def odds(self, one_in: int) -> bool:
        """Return True in one case out of ``one_in``."""


class Stream:
    """Decision number i is a mix of (seed, index of the case, i): integers only, the same everywhere.

    The mix is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
    """

    def __init__(self, seed: int, index: int) -> None:
        self._state = _mix((seed * 0xD1342543DE82EF95 + index * _GOLDEN) & _MASK)

    def below(self, limit: int) -> int:
        """Return an integer from 0 to ``limit - 1``; the bias is below ``limit / 2**64``."""
        self._state = (self._state + _GOLDEN) & _MASK
        return _mix(self._state) * limit >> 64

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[self.below(len(options))]

    def odds(self, one_in: int) -> bool:
        """Return True in one case out of ``one_in``."""
        return self.below(one_in) == 0


class Drawn:
    """Decisions by Hypothesis: ``draw`` is the function that a composite strategy is given.

    An option later in its list, and True, are the less plain ones, so shrinking moves towards the plain case.
    """

    def __init__(self, integer: Callable[[int], int]) -> None:
        self._integer = integer

    def below(self, limit: int) -> int:
        """Return an integer from 0 to ``limit - 1``."""
        return self._integer(limit)

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[self._integer(len(options))]

    def odds(self, one_in: int) -> bool:
        """Return True in one case out of ``one_in``."""
        return self._integer(one_in) == one_in - 1


def _mix(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _MASK
    return x ^ (x >> 31)
