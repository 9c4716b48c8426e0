"""A target behind HTTP: a server that Afere starts in its sandbox, or any server given by its address."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from harness.outcome import Outcome
from harness.records import Case, Cost, Json
from harness.sandbox import Limits, NotReady, Program, StartFailed, free_port, limits_in_force, wait_ready
from harness.targets.base import Answer, Blobs, Hello, TargetUnavailable, Unsupported
from harness.targets.stdio import OUTCOMES
from harness.targets.wire import BrokenOffError, Connection, Request, Response, TooLateError, TooLongError

__all__ = ["HttpTarget", "Request", "Server", "outcome_of"]

HOST: Final = "127.0.0.1"
PORTS: Final = 4  # how many ports are tried where another program takes the one that was free
GONE_S: Final = 0.3  # how long a server whose connection broke is given to turn out to be gone
PROBE_S: Final = 10.0
SLACK_S: Final = 5.0  # how much later than the sandbox this client gives up on a server of ours
OK: Final = 200
KEPT: Final = ("content-type",)
BUSY_PORT: Final = ("address already in use", "address in use", "errno 98", "errno 48")


class Server(msgspec.Struct, frozen=True):
    """How a server is started: the command for a host and a port, and the path that answers 200 once it is ready."""

    argv: Callable[[str, int], Sequence[str]]
    env: dict[str, str] = {}
    ready_path: str = "/health"
    ready_s: float = 120.0
    cwd: Path | None = None


class HttpTarget:
    """A target behind HTTP.

    2xx is answered, 4xx refused, anything else failed; a lost connection is a crash where the server is gone. The
    payload is ``{"status", "headers", "json"}``, with ``"text"`` in place of ``"json"`` where the body is none.

    :param request: makes the request of a case; may raise ``Unsupported``
    :param server: the program to start, or
    :param url: the address of a server that runs already; then only the wall-clock and reply limits are in force
    :param describe: asks the ready server what it is; gets a function from path to decoded JSON
    """

    transport = "http"

    def __init__(
        self,
        name: str,
        request: Callable[[Case], Request],
        *,
        logs: Path,
        limits: Limits,
        capabilities: Sequence[str],
        server: Server | None = None,
        url: str = "",
        headers: Sequence[str] = KEPT,
        reports: Mapping[str, Json] | None = None,
        describe: Callable[[Callable[[str], Json]], Mapping[str, Json]] | None = None,
    ) -> None:
        if (server is None) == (not url):
            raise ValueError(f"{name}: give either a server to start or the address of one")
        self.name = name
        self._request, self._server, self._url = request, server, url.rstrip("/")
        self._logs, self._limits, self._headers = logs, limits, tuple(headers)
        self._capabilities, self._reports, self._describe = tuple(capabilities), dict(reports or {}), describe
        self._program: Program | None = None
        self._client: Connection | None = None
        self._closed = False

    def open(self) -> Hello:
        """Start the server, or reach the one given.

        :raises TargetUnavailable: it did not become ready, or cannot be reached
        """
        self._closed = False
        limits = limits_in_force(self._limits)
        if self._server is None:
            try:
                self._client = Connection(self._url)
                self._client.ask(Request("GET", "/"), self._limits.wall_s, self._limits.reply_bytes)
            except (ValueError, BrokenOffError, TooLateError, TooLongError) as error:  # any status will do
                self.close()
                raise TargetUnavailable(
                    f"{self.name}: no server answers at {self._url} ({error}); start it, or correct the address"
                ) from None
            none = "none (Afere did not start this server)"
            limits = {k: v if k == "reply" else none for k, v in limits.items()}
            limits["wall"] = f"{self._limits.wall_s:g} s a request, by this client" if self._limits.wall_s else "none"
        else:
            self._start(self._server)
        reports = {**self._reports, **(self._describe(self._get) if self._describe else {})}
        return Hello(self._capabilities, reports, limits)

    @property
    def url(self) -> str:
        """The address of the server, once it is open."""
        return self._url

    def run(self, case: Case, blobs: Blobs) -> Answer:  # noqa: ARG002 - requests carry no arrays
        """Send the request of one case; a server that ended before is started again first."""
        if self._closed:
            return Answer(Outcome.FAILED, detail=f"{self.name} was closed")
        try:
            request = self._request(case)
        except Unsupported as error:
            return Answer(Outcome.UNSUPPORTED, detail=str(error))
        note = ""
        if self._program is not None and not self._program.running:
            note = f"[the server {self._lose()} after it had answered the case before] "
        if self._client is None:
            try:
                assert self._server is not None
                self._start(self._server)
            except TargetUnavailable as error:
                return Answer(Outcome.CRASHED, detail=f"the server did not come back after it was lost: {error}")
        answer = self._send(request, again=True)
        return msgspec.structs.replace(answer, detail=note + answer.detail) if note else answer

    def close(self) -> None:
        """Close the connection and end the server, where it is ours."""
        self._closed = True
        self._lose()

    def _send(self, request: Request, *, again: bool) -> Answer:
        client, program = self._client, self._program
        if client is None:
            return Answer(Outcome.FAILED, detail=f"{self.name} was closed")
        # The wall-clock limit of a server of ours is the sandbox's: it ends the server, and that ends the exchange.
        wall = self._limits.wall_s
        patience = wall if wall is None or program is None else wall + SLACK_S
        if program is not None:
            program.begin()
        begun = time.monotonic()
        try:
            response = client.ask(request, patience, self._limits.reply_bytes)
        except TooLongError as error:
            return Answer(Outcome.FAILED, detail=str(error), cost=self._cost(begun))
        except (BrokenOffError, TooLateError) as error:
            return self._broken(request, error, begun, again=again)
        finally:
            if program is not None:
                program.finish()
        return Answer(outcome_of(response.status), self._payload(response), cost=self._cost(begun))

    def _payload(self, response: Response) -> Json:
        payload: dict[str, Json] = {
            "status": response.status,
            "headers": {name: response.headers[name] for name in self._headers if name in response.headers},
        }
        try:
            payload["json"] = json.loads(response.body)
        except (ValueError, RecursionError):
            payload["text"] = response.body.decode("utf-8", "backslashreplace")
        return payload

    def _broken(self, request: Request, error: BrokenOffError | TooLateError, begun: float, *, again: bool) -> Answer:
        """Say what a failed exchange was: an end of the server, a timeout, or a connection that broke."""
        if self._closed:
            return Answer(Outcome.FAILED, detail=f"{self.name} was closed", cost=self._cost(begun))
        program = self._program
        if program is not None and self._gone(program):
            cost, tail, ending = self._cost(begun), program.tail(3), program.ending()
            self._lose()
            detail = f"the server {ending}" + (f"; its last lines: {tail}" if tail else "")
            return Answer(OUTCOMES[ending.cause], detail=detail, cost=cost)
        cost = self._cost(begun)
        if isinstance(error, TooLateError):
            self._lose()  # a server of ours that is still busy with this case must not get the next one
            return Answer(Outcome.TIMED_OUT, detail=str(error), cost=cost)
        if again and not error.received:
            # A server may close an idle connection at any time. A new one tells that apart from a refusal to answer.
            return self._send(request, again=False)
        if program is None and not error.connected:
            return Answer(Outcome.CRASHED, detail=f"{self._url} no longer answers: {error}", cost=cost)
        often = "broke off the exchange" if error.received else "broke off the exchange, twice"
        return Answer(Outcome.FAILED, detail=f"{often}: {error}", cost=cost)

    def _cost(self, begun: float) -> Cost:
        peak = self._program.peak_bytes if self._program is not None else 0
        return Cost(wall_s=time.monotonic() - begun, rss_bytes=peak or None)

    def _start(self, server: Server) -> None:
        for attempt in range(PORTS):
            port = free_port(HOST)
            try:
                program = Program(
                    server.argv(HOST, port),
                    name=self.name,
                    logs=self._logs,
                    limits=self._limits,
                    env=server.env,
                    cwd=server.cwd,
                )
            except StartFailed as error:
                raise TargetUnavailable(str(error)) from error
            client = Connection(f"http://{HOST}:{port}")
            self._program, self._client = program, client

            def probe(client: Connection = client, path: str = server.ready_path) -> bool:
                try:
                    return client.ask(Request("GET", path), PROBE_S, self._limits.reply_bytes).status == OK
                except (BrokenOffError, TooLateError, TooLongError):
                    return False

            try:
                wait_ready(program, probe, server.ready_s)
            except NotReady as error:
                self._lose()
                taken = any(words in program.tail(40).lower() for words in BUSY_PORT)
                if not taken or attempt == PORTS - 1:
                    raise TargetUnavailable(str(error)) from None
            else:
                return

    def _get(self, path: str) -> Json:
        assert self._client is not None
        try:
            return json.loads(self._client.ask(Request("GET", path), PROBE_S, self._limits.reply_bytes).body)
        except (BrokenOffError, TooLateError, TooLongError, ValueError) as error:
            raise TargetUnavailable(f"{self.name}: GET {path} gave no JSON ({error})") from None

    @staticmethod
    def _gone(program: Program) -> bool:
        """Whether the server has ended; its connections close a moment before it can be waited for."""
        deadline = time.monotonic() + GONE_S
        while program.running and time.monotonic() < deadline:
            time.sleep(0.005)
        return not program.running

    def _lose(self) -> str:
        """Hang up, and stop the server where it is ours; says how it ended."""
        program, self._program = self._program, None
        if self._client is not None:
            self._client.close()
        if self._server is not None:
            self._client = None
        return "" if program is None else str(program.ending())


def outcome_of(status: int) -> Outcome:
    """Sort an HTTP status.

    >>> [outcome_of(s).value for s in (200, 422, 500, 302)]
    ['answered', 'refused', 'failed', 'failed']
    """
    if 200 <= status < 300:
        return Outcome.ANSWERED
    return Outcome.REFUSED if 400 <= status < 500 else Outcome.FAILED
