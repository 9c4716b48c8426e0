"""A target behind a worker: another interpreter, architecture or language, over JSON lines on its stdin and stdout.

The worker runs in the sandbox. Whatever it does (ends, hangs, eats memory, floods, answers something else than what it
was asked) costs one case, which is filed as what happened; the next case gets a new worker.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from harness.outcome import Outcome
from harness.records import Case, Cost, canonical
from harness.sandbox import Ending, Limits, Program, StartFailed, limits_in_force
from harness.targets.base import Answer, Blobs, Hello, TargetUnavailable, Tensor, Unsupported
from harness.targets.protocol import (
    ArrayFile,
    ByeRequest,
    ErrorReply,
    HelloReply,
    HelloRequest,
    Reply,
    Request,
    ResultReply,
    RunRequest,
    UnavailableReply,
)

WORKER: Final = Path(__file__).with_name("worker.py")
STARTS: Final = 2  # how often a worker that does not come up is tried before the case at hand is given up

T = TypeVar("T", bound=msgspec.Struct)

# How a program's end reads as an outcome of the case that it was at.
OUTCOMES: Final[dict[str, Outcome]] = {
    "exited": Outcome.CRASHED,
    "signalled": Outcome.CRASHED,
    "stopped": Outcome.FAILED,
    "wall": Outcome.TIMED_OUT,
    "cpu": Outcome.TIMED_OUT,
    "memory": Outcome.OUT_OF_MEMORY,
    "system_memory": Outcome.OUT_OF_MEMORY,
    "output": Outcome.FAILED,
}


class BrokenProtocolError(Exception):
    """The worker sent something else than the reply that was due. An observation of the target, not a fault of ours."""


class StaleReplyError(BrokenProtocolError):
    """It sent a second reply to an earlier request; nothing is known yet about the one at hand."""


class EndedError(Exception):
    """The worker ended, or a limit ended it, before it replied."""

    def __init__(self, ending: Ending, tail: str) -> None:
        super().__init__(str(ending))
        self.ending, self.tail = ending, tail


class WorkerTarget:
    """A target that a worker answers for.

    :param argv: the command that starts the worker; :func:`python_worker` gives that of the one for Python
    :param ready_s: seconds that it may take to say hello: imports, and an emulator's slowness, included
    """

    transport = "worker"

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        logs: Path,
        limits: Limits,
        env: Mapping[str, str] | None = None,
        ready_s: float = 120.0,
    ) -> None:
        self.name = name
        self._argv, self._env, self._logs = tuple(argv), dict(env or {}), logs
        self._limits, self._ready_s = limits, ready_s
        self._program: Program | None = None
        self._sent = 0
        self._closed = False

    def open(self) -> Hello:
        """Start the worker and shake hands.

        :raises TargetUnavailable: it could not be started, or its operations could not be loaded
        :raises Unsupported: it says that this machine cannot run the target
        """
        self._closed = False
        said = self._start()
        reports = {**{f"worker {key}": value for key, value in said.worker.items()}, **said.reports}
        return Hello(tuple(said.capabilities), reports, limits_in_force(self._limits))

    def run(self, case: Case, blobs: Blobs) -> Answer:
        """Put one case to the worker; a worker that ended before is replaced first."""
        if self._closed:
            return Answer(Outcome.FAILED, detail=f"{self.name} was closed")
        note = ""
        if self._program is not None and not self._program.running:
            note = f"[the worker {self._lose()} after it had answered the case before] "
        answer = self._try(case, blobs)
        if answer is None:  # the reply that came was a second one to an earlier case
            note += "[asked again: the worker had sent a second reply to an earlier case] "
            answer = self._try(case, blobs) or Answer(Outcome.FAILED, detail="broke the protocol: stale replies, twice")
        return msgspec.structs.replace(answer, detail=note + answer.detail) if note else answer

    def close(self) -> None:
        """Ask the worker to end, and end it."""
        self._closed = True
        program, self._program = self._program, None
        if program is None:
            return
        if program.running and not program.busy:
            try:
                self._send(program, ByeRequest(self._next()))
                program.stdin.close()
            except OSError:
                pass  # it went first
        program.stop()

    def _try(self, case: Case, blobs: Blobs) -> Answer | None:
        """Ask once; None where a stale reply came instead of one to this case."""
        begun = time.monotonic()
        try:
            for attempt in range(STARTS):
                if self._program is not None:
                    break
                try:
                    self._start()
                except TargetUnavailable:
                    if attempt == STARTS - 1:
                        raise
        except (TargetUnavailable, Unsupported) as error:
            return Answer(Outcome.CRASHED, detail=f"the worker did not come back after it was lost: {error}")
        program = self._program
        if program is None:  # closed meanwhile, by another thread
            return Answer(Outcome.FAILED, detail=f"{self.name} was closed")
        out = program.folder / "out"
        arrays = {
            name: ArrayFile(str(blobs.path(ref).absolute()), ref.dtype, ref.shape, ref.digest)
            for name, ref in case.arrays.items()
        }
        try:
            out.mkdir(exist_ok=True)
            request = RunRequest(self._next(), case.op, case.input, str(out), arrays)
            result = self._ask(program, request, ResultReply)
            tensors = {name: load_array(one, out) for name, one in result.arrays.items()}
        except EndedError as error:
            self._program = None
            cost = Cost(wall_s=time.monotonic() - begun, rss_bytes=program.peak_bytes or None)
            outcome = OUTCOMES[error.ending.cause]
            detail = f"the worker {error.ending}"
            return Answer(
                outcome, detail=f"{detail}; its last lines: {error.tail}" if error.tail else detail, cost=cost
            )
        except StaleReplyError:
            self._lose()
            return None
        except BrokenProtocolError as error:
            self._lose()
            return Answer(Outcome.FAILED, detail=f"broke the protocol: {error}")
        finally:
            program.finish()
            _empty(out)
        cost = Cost(result.cost.wall_s, result.cost.cpu_s, result.cost.rss_bytes)
        return Answer(Outcome(result.outcome), result.payload, tensors, result.detail, cost)

    def _start(self) -> HelloReply:
        try:
            program = Program(
                self._argv, name=self.name, logs=self._logs, limits=self._limits, env=self._env, pipes=True
            )
        except StartFailed as error:
            raise TargetUnavailable(str(error)) from error
        self._program = program
        try:
            return self._ask(program, HelloRequest(self._next()), HelloReply, start_s=self._ready_s)
        except EndedError as error:
            self._program = None
            said = f"; its last lines:\n{error.tail}" if error.tail else "; it printed nothing"
            raise TargetUnavailable(f"the worker of {self.name} {error.ending} before it was ready{said}") from None
        except BrokenProtocolError as error:
            self._lose()
            raise TargetUnavailable(f"the worker of {self.name} does not speak the protocol: {error}") from None
        except (TargetUnavailable, Unsupported):
            self._lose()
            raise
        finally:
            program.finish()

    def _ask(self, program: Program, request: Request, expected: type[T], start_s: float | None = None) -> T:
        """Send one request and read its reply.

        :raises EndedError: the worker is gone
        :raises BrokenProtocolError: the reply is not the one that was due
        """
        program.begin(start_s)
        try:
            self._send(program, request)
            line = program.stdout.readline(self._limits.reply_bytes + 1)
        except (OSError, ValueError):  # a closed pipe: by the worker's end, or by close() in another thread
            line = b""
        if not line:
            gone = EndedError(program.ending(), "")
            gone.tail = program.tail(3)
            raise gone
        if not line.endswith(b"\n"):
            if len(line) > self._limits.reply_bytes:
                raise BrokenProtocolError(f"a reply longer than {self._limits.reply_bytes} bytes")
            raise EndedError(program.ending(), program.tail(3))
        reply = read_reply(line)
        if isinstance(reply, UnavailableReply) and reply.id == request.id:
            if reply.outcome == "unsupported":
                raise Unsupported(reply.detail)
            raise TargetUnavailable(f"{self.name} could not be loaded: {reply.detail}")
        if isinstance(reply, ErrorReply):
            raise BrokenProtocolError(f"the worker did not understand the request: {reply.detail}")
        if reply.id is not None and reply.id < request.id:
            raise StaleReplyError(f"a second reply to request {reply.id}")
        if reply.id != request.id or not isinstance(reply, expected):
            raise BrokenProtocolError(f"a {type(reply).__name__} to request {reply.id} instead of one to {request.id}")
        return reply

    @staticmethod
    def _send(program: Program, request: Request) -> None:
        # The standard library's encoder: lone surrogates and large integers are legitimate test inputs.
        program.stdin.write(canonical(msgspec.to_builtins(request)) + b"\n")
        program.stdin.flush()

    def _next(self) -> int:
        self._sent += 1
        return self._sent

    def _lose(self) -> str:
        """Stop the present worker; says how it ended."""
        program, self._program = self._program, None
        return "" if program is None else str(program.ending())


def python_worker(python: str, operations: Path) -> list[str]:
    """Return the command that starts the worker for Python on an operations module."""
    return [python, str(WORKER), str(operations)]


def read_reply(line: bytes) -> Reply:
    """Decode one reply.

    :raises BrokenProtocolError: it is none
    """
    try:
        decoded = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BrokenProtocolError(f"not JSON ({error}): {line[:80]!r}") from None
    try:
        reply: Reply = msgspec.convert(decoded, Reply)
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        raise BrokenProtocolError(f"not a reply ({error}): {line[:80]!r}") from None
    return reply


def _empty(folder: Path) -> None:
    """Remove what the worker left of its answer; its folder goes with the worker."""
    try:
        for path in folder.iterdir():
            path.unlink()
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)


def load_array(file: ArrayFile, folder: Path) -> Tensor:
    """Read an array that the worker wrote into ``folder``.

    :raises BrokenProtocolError: it is not there, elsewhere, or not what the reply says
    """
    path = Path(file.path)
    if path.parent != folder or path.is_symlink():
        raise BrokenProtocolError(f"an array outside the folder it was given: {file.path!r}")
    import numpy as np

    from harness.blobs import STORED

    stored = STORED.get(file.dtype)
    if stored is None or any(n < 0 for n in file.shape):
        raise BrokenProtocolError(f"an array of dtype {file.dtype!r} and shape {list(file.shape)}")
    wanted = math.prod(file.shape) * stored.itemsize
    try:
        size = path.stat().st_size
        if size != wanted:
            raise BrokenProtocolError(
                f"{size} bytes for an array of {file.dtype} {list(file.shape)}, which has {wanted}"
            )
        data = np.fromfile(path, dtype=stored).reshape(file.shape)
    except OSError as error:
        raise BrokenProtocolError(f"the array {path.name} cannot be read: {error.strerror}") from None
    return Tensor(data.astype(stored.newbyteorder("=")), file.dtype)
