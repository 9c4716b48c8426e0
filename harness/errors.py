"""One sentence for every error that a user can cause or mend, with the exit status that goes with it."""

from __future__ import annotations

import errno
import shlex

from harness.bench import BenchError
from harness.config import ConfigError
from harness.expectations import ExpectationError
from harness.journal import RunError, RunIncompleteError
from harness.outcome import Exit
from harness.plan import PlanError
from harness.provision import ProvisionError
from harness.replay import ReplayError
from harness.run import Interrupted
from harness.selfcheck import SelfCheckError

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""How a system says that no more can be written."""
USAGE = (ConfigError, ExpectationError, RunError, PlanError, ProvisionError, ReplayError, BenchError)


def explain(error: Exception) -> tuple[str, Exit] | None:
    """The sentence and the exit status; None for an error that is a defect of ours and deserves its traceback."""
    if isinstance(error, Interrupted):
        folder = shlex.quote(str(error.args[0]))
        if (error.args[0] / "summary.json").exists():
            return f"interrupted, but judged before. See it with: afere judge {folder}", Exit.INVALID
        return f"interrupted; nothing is lost. Go on with: afere run --resume {folder}", Exit.INVALID
    if isinstance(error, OSError) and error.errno in FULL:
        return f"{error.strerror}: make room; what was recorded is kept, see: afere run --resume", Exit.INVALID
    if isinstance(error, SelfCheckError | RunIncompleteError):
        return str(error), Exit.INVALID
    if isinstance(error, USAGE):
        return str(error), Exit.USAGE
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}", Exit.USAGE
    # Typer's own errors for wrong options. Their class moved between modules, so they are known by what they can do.
    format_message = getattr(error, "format_message", None)
    if callable(format_message):
        return f"{format_message()} (see: afere --help)", Exit.USAGE
    return None
