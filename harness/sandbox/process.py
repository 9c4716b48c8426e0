"""A foreign program under limits: started in a session of its own, watched, and ended with all of its processes."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from harness.sandbox import tree
from harness.sandbox.errors import StartFailed
from harness.sandbox.guard import GUARD
from harness.sandbox.guardian import MARK
from harness.sandbox.launch import NOT_STARTED
from harness.sandbox.limits import MIB, Ending, Limits, ending_of
from harness.sandbox.meter import METER
from harness.sandbox.output import Pump
from harness.sandbox.spawn import spawn

# A target's interpreter must see its own packages, not those of the environment that Afere runs in.
UNSET: Final = (
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "PYTHONSTARTUP",
    "PYTEST_CURRENT_TEST",
    "COVERAGE_PROCESS_START",
)


class Program:
    """One started program.

    With ``pipes`` the caller talks to it over ``stdin`` and ``stdout`` and only stderr is logged; without, both outputs
    are logged. A limit counts from :meth:`begin` to :meth:`finish`; memory and output always do.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        name: str,
        logs: Path,
        limits: Limits,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        pipes: bool = False,
        on_output: Callable[[bytes], None] | None = None,
    ) -> None:
        self.name = name
        self.limits = limits
        self.peak_bytes = 0  # highest sample of the tree since the last begin(), and the last one before it
        self._resident = 0
        self.mark = secrets.token_hex(8)
        self._ended: Ending | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Lock()
        self._stopped = False
        self._wall: float | None = None
        self._deadline: float | None = None
        self._busy = False
        self._cpu = 0.0  # of the tree, at the last look
        self._cpu_base = 0.0
        self._cpu_limit: float | None = None
        self._printed = 0
        self._oom_kills = tree.oom_kills()
        self.folder = Path(tempfile.mkdtemp(prefix="afere-"))
        GUARD.add_folder(self.folder)
        GUARD.add_program(self.mark)
        variables = {k: v for k, v in os.environ.items() if k not in UNSET}
        variables |= {"TMPDIR": str(self.folder), **(env or {}), MARK: self.mark}
        try:
            self._process = spawn(
                argv, variables, cwd or self.folder, stdin=pipes, address_space=limits.address_space_bytes
            )
        except OSError as error:
            self._forget()
            raise StartFailed(f"{name}: cannot start {argv[0]}: {error.strerror or error}") from error
        GUARD.add_program(self.mark, self.pid)
        logs.mkdir(parents=True, exist_ok=True)
        stem = logs / re.sub(r"[^\w.@+-]", "_", name)
        self._pumps = {"stderr": self._pump(self._process.stderr, stem.with_name(stem.name + ".stderr.log"), on_output)}
        if not pipes:
            out = stem.with_name(stem.name + ".stdout.log")
            self._pumps["stdout"] = self._pump(self._process.stdout, out, on_output)
        METER.add(self)

    @property
    def pid(self) -> int:
        """Pid of the program, and id of its process group."""
        return self._process.pid

    @property
    def stdin(self) -> IO[bytes]:
        """The program's input, where it was started with ``pipes``."""
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        """The program's output, where it was started with ``pipes``."""
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def running(self) -> bool:
        """Whether the program itself has not ended."""
        return self._process.poll() is None

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self._busy

    def begin(self, start_s: float | None = None) -> None:
        """Arm the wall-clock and CPU limits: a request starts.

        With ``start_s`` the program is starting up: it has that many seconds, and its CPU time is its own business.
        """
        wall = self.limits.wall_s if start_s is None else start_s
        self._cpu_limit = self.limits.cpu_s if start_s is None else None
        if self._cpu_limit is not None:
            self.look(time.monotonic())  # the meter's last one may be half a second, and a start, ago
        self._cpu_base = self._cpu
        self.peak_bytes = self._resident
        for pump in self._pumps.values():
            pump.mark()
        self._wall = wall
        self._deadline = None if wall is None else time.monotonic() + wall
        self._busy = True

    def finish(self) -> None:
        """Disarm them: the request has been answered."""
        self._busy = False
        self._deadline = None

    def tail(self, lines: int = 12) -> str:
        """Return the last lines that it printed since the last :meth:`begin`, stderr first."""
        return "\n".join(filter(None, (pump.tail(lines) for pump in self._pumps.values())))

    def wait(self) -> Ending:
        """Block until the program has ended by itself or at a limit."""
        self._process.wait()
        return self.ending()

    def ending(self) -> Ending:
        """How it ended. A program that is still running is stopped first."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)  # its pipes close a moment before it can be waited for
        self.stop()
        if self._ended is not None:
            return self._ended
        ending = ending_of(self._process.returncode)
        if ending.signal == "SIGKILL" and tree.oom_kills() > self._oom_kills:
            return Ending("system_memory", detail="the kernel's oom_kill counter rose")
        if ending.code == NOT_STARTED and "cannot start " in self.tail(1):
            return Ending("exited", code=NOT_STARTED, detail=self.tail(1))
        return ending

    def stop(self) -> None:
        """End the program and all of its processes: SIGTERM, a grace period, SIGKILL. May be called twice."""
        with self._stopping:
            if self._stopped:
                return
            if self.running:
                self._decide(Ending("stopped"))
                tree.signal_group(self.pid, signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(self.limits.grace_s)
            tree.kill_all(self.pid, self.mark)
            self._process.wait()
            METER.drop(self)
            for pump in self._pumps.values():
                pump.join()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # what was buffered for a program that is gone
                        pipe.close()
            self._forget()
            self._stopped = True

    def end(self, ending: Ending) -> None:
        """End it at once because of a limit; the first reason given is the one that is reported."""
        self._decide(ending)
        tree.kill_all(self.pid, self.mark)

    def look(self, now: float) -> None:
        """Take a sample and end the program where a limit was passed; called by the meter."""
        if not self.running:
            # A descendant may hold the pipes open, and whoever reads them would wait for it.
            tree.kill_all(self.pid, self.mark)
            return
        resident, cpu = 0, 0.0
        for pid in (self.pid, *tree.descendants(self.pid)):
            one = tree.usage(pid)
            resident, cpu = resident + one[0], cpu + one[1]
        self._cpu, self._resident = max(self._cpu, cpu), resident  # a child that ended unwaited takes its time along
        self.peak_bytes = max(self.peak_bytes, resident)
        limits = self.limits
        if limits.memory_bytes is not None and resident > limits.memory_bytes:
            said = f"{resident // MIB} MiB resident, {limits.memory_bytes // MIB} allowed"
            self.end(Ending("memory", detail=said))
        elif self._busy and self._deadline is not None and now > self._deadline:
            self.end(Ending("wall", detail=f"no answer within {self._wall:g} s"))
        elif self._busy and self._cpu_limit is not None and self._cpu - self._cpu_base > self._cpu_limit:
            used = self._cpu - self._cpu_base
            self.end(Ending("cpu", detail=f"{used:.2f} s of CPU time used, {self._cpu_limit:g} allowed"))

    def _count(self, size: int) -> None:
        self._printed += size
        limit = self.limits.output_bytes
        if limit is not None and self._printed > limit and self._ended is None:
            self.end(Ending("output", detail=f"more than {limit / MIB:g} MiB printed"))

    def _decide(self, ending: Ending) -> None:
        with self._lock:
            self._ended = self._ended or ending

    def _pump(self, pipe: IO[bytes] | None, path: Path, sink: Callable[[bytes], None] | None) -> Pump:
        assert pipe is not None
        used = path.stat().st_size if path.exists() else 0  # a restarted program shares the cap of its predecessors

        def seen(chunk: bytes) -> None:
            self._count(len(chunk))
            if sink is not None:
                sink(chunk)

        return Pump(pipe, path, max(0, self.limits.log_bytes - used), seen)

    def _forget(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        GUARD.drop_folder(self.folder)
        GUARD.drop_program(self.mark)
