"""Python's ``re`` as a careful program would use it: gives up on a text in time, refuses what it cannot parse."""

from __future__ import annotations

import re
import signal
from types import FrameType
from typing import Any

from for_re import accepts as unguarded  # type: ignore[import-not-found]
from for_re import compile_, hello
from matching import operation  # type: ignore[import-not-found]

BUDGET_S = 0.2  # of CPU time, for one text


class _Enough(Exception):  # noqa: N818 - a signal to ourselves
    pass


def _give_up(_number: int, _frame: FrameType | None) -> None:
    raise _Enough


def accepts(compiled: Any, text: str) -> bool | None:
    """The whole text; None where backtracking would take too long. The engine looks for signals as it goes."""
    signal.signal(signal.SIGVTALRM, _give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, BUDGET_S)
    try:
        return bool(unguarded(compiled, text))
    except _Enough:
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def refused(error: BaseException) -> bool:
    """``re.error``, a count beyond its limit, and nesting beyond what its parser can follow."""
    return isinstance(error, re.error | OverflowError | RecursionError)


OPS = {"regex": operation(compile_, accepts, refused)}
__all__ = ["OPS", "hello"]
