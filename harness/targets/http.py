"""A target behind HTTP: a server that Afere starts in its sandbox, or any server given by its address."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import httpx
import msgspec

from harness.outcome import Outcome
from harness.records import Case, Cost, Json
from harness.sandbox import Limits, NotReady, Program, StartFailed, free_port, limits_in_force, wait_ready
from harness.targets.base import Answer, Blobs, Hello, TargetUnavailable, Unsupported
from harness.targets.stdio import OUTCOMES

HOST: Final = "127.0.0.1"
PORTS: Final = 4  # how many ports are tried where another program takes the one that was free
GONE_S: Final = 0.3  # how long a server whose connection broke is given to turn out to be gone
KEPT: Final = ("content-type",)
BUSY_PORT: Final = ("address already in use", "address in use", "errno 98", "errno 48")


class Request(msgspec.Struct, frozen=True):
    """One HTTP request; ``path`` begins with a slash."""

    method: str
    path: str
    headers: dict[str, str] = {}
    body: bytes | None = None


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
        self._client: httpx.Client | None = None
        self._closed = False

    def open(self) -> Hello:
        """Start the server, or reach the one given.

        :raises TargetUnavailable: it did not become ready, or cannot be reached
        """
        self._closed = False
        limits = limits_in_force(self._limits)
        if self._server is None:
            self._client = self._connect(self._url)
            try:
                self._client.get("/")  # any status will do: it is there
            except (httpx.HTTPError, httpx.InvalidURL) as error:
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
        if program is not None:
            program.begin()
        begun = time.monotonic()
        body = bytearray()
        try:
            sent = client.build_request(request.method, request.path, headers=request.headers, content=request.body)
            response = client.send(sent, stream=True)
            try:
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > self._limits.reply_bytes:
                        return Answer(Outcome.FAILED, detail=f"a reply longer than {self._limits.reply_bytes} bytes")
                    if self._late(begun):
                        raise httpx.ReadTimeout("the reply trickles")
            finally:
                response.close()
        except (httpx.HTTPError, httpx.InvalidURL, RuntimeError) as error:  # RuntimeError: closed by another thread
            return self._broken(request, error, begun, again=again and not body)
        finally:
            if program is not None:
                program.finish()
        cost = Cost(wall_s=time.monotonic() - begun, rss_bytes=(program and program.peak_bytes) or None)
        return Answer(outcome_of(response.status_code), self._payload(response, bytes(body)), cost=cost)

    def _payload(self, response: httpx.Response, body: bytes) -> Json:
        payload: dict[str, Json] = {
            "status": response.status_code,
            "headers": {name: response.headers[name] for name in self._headers if name in response.headers},
        }
        try:
            payload["json"] = json.loads(body)
        except (ValueError, RecursionError):
            payload["text"] = body.decode("utf-8", "backslashreplace")
        return payload

    def _broken(self, request: Request, error: Exception, begun: float, *, again: bool) -> Answer:
        """Say what a failed exchange was: an end of the server, a timeout, or a connection that broke."""
        cost = Cost(wall_s=time.monotonic() - begun)
        if self._closed:
            return Answer(Outcome.FAILED, detail=f"{self.name} was closed", cost=cost)
        program = self._program
        if program is not None and self._gone(program):
            cost = msgspec.structs.replace(cost, rss_bytes=program.peak_bytes or None)
            tail, ending = program.tail(3), program.ending()
            self._lose()
            detail = f"the server {ending}" + (f"; its last lines: {tail}" if tail else "")
            return Answer(OUTCOMES[ending.cause], detail=detail, cost=cost)
        if isinstance(error, httpx.TimeoutException):
            self._lose(keep_url=True)  # a server that is still busy with this case must not get the next one
            return Answer(Outcome.TIMED_OUT, detail=f"no complete answer within {self._limits.wall_s:g} s", cost=cost)
        if again and isinstance(
            error, httpx.ConnectError | httpx.ReadError | httpx.WriteError | httpx.RemoteProtocolError
        ):
            # A server may close an idle connection at any time. A new one tells that apart from a refusal to answer.
            return self._send(request, again=False)
        what = type(error).__name__
        if program is None and isinstance(error, httpx.ConnectError):
            return Answer(Outcome.CRASHED, detail=f"{self._url} no longer answers: {error}", cost=cost)
        return Answer(Outcome.FAILED, detail=f"broke off the exchange, twice: {what}: {error}", cost=cost)

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
            client = self._connect(f"http://{HOST}:{port}")
            self._program, self._client = program, client

            def probe(client: httpx.Client = client, path: str = server.ready_path) -> bool:
                try:
                    return client.get(path, timeout=5.0).status_code == httpx.codes.OK
                except (httpx.HTTPError, RuntimeError):
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

    def _connect(self, url: str) -> httpx.Client:
        # The wall-clock limit of a server of ours is the sandbox's: it ends the server, and that ends the exchange.
        wall = self._limits.wall_s
        timeout = None if wall is None else wall if self._server is None else wall + 5.0
        ours = self._server is not None
        return httpx.Client(base_url=url, timeout=timeout, trust_env=not ours, follow_redirects=False)

    def _get(self, path: str) -> Json:
        assert self._client is not None
        try:
            return self._client.get(path).json()
        except (httpx.HTTPError, ValueError) as error:
            raise TargetUnavailable(f"{self.name}: GET {path} gave no JSON ({error})") from None

    def _late(self, begun: float) -> bool:
        wall = self._limits.wall_s
        return wall is not None and time.monotonic() - begun > wall

    @staticmethod
    def _gone(program: Program) -> bool:
        """Whether the server has ended; its connections close a moment before it can be waited for."""
        deadline = time.monotonic() + GONE_S
        while program.running and time.monotonic() < deadline:
            time.sleep(0.005)
        return not program.running

    def _lose(self, *, keep_url: bool = False) -> str:
        """Drop the connection and stop the server; says how it ended."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
        program, self._program = self._program, None
        if program is None and keep_url:
            self._client = self._connect(self._url)
        return "" if program is None else str(program.ending())


def outcome_of(status: int) -> Outcome:
    """Sort an HTTP status.

    >>> [outcome_of(s).value for s in (200, 422, 500, 302)]
    ['answered', 'refused', 'failed', 'failed']
    """
    if 200 <= status < 300:
        return Outcome.ANSWERED
    return Outcome.REFUSED if 400 <= status < 500 else Outcome.FAILED
