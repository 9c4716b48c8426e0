"""The target protocol: what every implementation under test looks like to the recorder.

A target is opened once, answers cases one at a time, and is closed. It never sees an expected result. Concrete targets
live in the suite that asks them; the transports that they are built from live beside this module.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from harness.outcome import Outcome
from harness.records import Case, Cost, Json, canonical

PROTOCOL = 1
"""Version of the target protocol."""

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]


class Tensor(msgspec.Struct, frozen=True):
    """An array in memory with the dtype it stands for. ``data`` of a bfloat16 tensor is uint16 with the same bits."""

    data: Array
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, outermost dimension first."""
        return tuple(int(n) for n in self.data.shape)

    @classmethod
    def of(cls, array: Array) -> Tensor:
        """Wrap a NumPy array under its own dtype name."""
        import numpy as np  # here: commands that only list targets must answer at once

        return cls(np.asarray(array, order="C"), array.dtype.name)  # ascontiguousarray would make () into (1,)


class Blobs(Protocol):
    """Where arrays are kept (see :mod:`harness.blobs`)."""

    def put(self, tensor: Tensor) -> Any:
        """Store an array and return its ``ArrayRef``."""

    def get(self, ref: Any) -> Tensor:
        """Read an array back."""

    def path(self, ref: Any) -> Path:
        """The file that holds the raw little-endian elements."""


class Hello(msgspec.Struct, frozen=True):
    """What a target says of itself when it is opened."""

    capabilities: tuple[str, ...]  # operations, or "operation:feature"
    reports: dict[str, Json] = {}  # version, backend, thread count ... as the target itself reports them
    limits: dict[str, str] = {}  # limit -> the mechanism in force, e.g. {"memory": "resident set sampled every 50 ms"}


class Answer(msgspec.Struct, frozen=True):
    """What a target did with a case, before it is filed as an observation."""

    outcome: Outcome
    payload: Json = None
    arrays: dict[str, Tensor] = {}
    detail: str = ""
    cost: Cost = Cost()


class Refused(Exception):  # noqa: N818 - an outcome, not an error
    """Raised by an in-process target that refuses a case cleanly. ``payload`` goes into the observation."""

    afere_outcome = "refused"

    def __init__(self, message: str, payload: Json = None) -> None:
        super().__init__(message)
        self.payload = payload


class Unsupported(Exception):  # noqa: N818 - an outcome, not an error
    """Raised by an in-process target for a case outside its capabilities."""

    afere_outcome = "unsupported"


class TargetUnavailable(Exception):  # noqa: N818 - says what is the case
    """The target cannot be asked at all; the message says why and what to do.

    Not provisioned, a processor that lacks the instructions, a server that did not become ready.
    """


@runtime_checkable
class Target(Protocol):
    """One implementation under test, named ``name@version[:variant]``."""

    name: str
    transport: str

    def open(self) -> Hello:
        """Make it ready.

        :raises TargetUnavailable: with the reason
        """

    def run(self, case: Case, blobs: Blobs) -> Answer:
        """Put one case to it. Never raises for anything the target does; a harness fault may raise."""

    def close(self) -> None:
        """End it and leave nothing behind. May be called twice."""


def _copy(value: Json) -> Json:
    """What is left of a value on its way through JSON; raises where it is none."""
    return json.loads(canonical(value))


Operation = Callable[[dict[str, Json], Mapping[str, Tensor]], "tuple[Json, dict[str, Tensor]] | Json"]


class InProcess:
    """A target that is a table of Python functions in this process. No limit is in force here, and it says so."""

    transport = "in-process"

    def __init__(
        self,
        name: str,
        operations: Mapping[str, Operation],
        reports: dict[str, Json] | None = None,
        capabilities: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self._operations = operations
        self._hello = Hello(
            capabilities=capabilities or tuple(operations),
            reports=reports or {},
            limits={"wall": "none (in process)", "memory": "none (in process)"},
        )

    def open(self) -> Hello:
        """Nothing to start."""
        return self._hello

    def run(self, case: Case, blobs: Blobs) -> Answer:
        """Call the operation; sort exceptions by the outcome that they carry."""
        operation = self._operations.get(case.op)
        if operation is None:
            return Answer(Outcome.UNSUPPORTED, detail=f"{self.name} has no operation {case.op!r}")
        arrays = {name: blobs.get(ref) for name, ref in case.arrays.items()}
        # Copies in and out, as a worker has them: an operation that changes its input, or its answer later on, must
        # not change what the next target is asked or what was recorded.
        try:
            result = operation(_copy(case.input), arrays)
            payload, out = result if isinstance(result, tuple) else (result, {})
            return Answer(Outcome.ANSWERED, _copy(payload), out)
        except (Refused, Unsupported) as error:
            return Answer(Outcome(error.afere_outcome), _copy(getattr(error, "payload", None)), detail=str(error))
        except (Exception, SystemExit) as error:  # whatever a target raises is an observation of it
            return Answer(Outcome.FAILED, detail=f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """Nothing to end."""
