"""The HTTP transport: what a server does is what is observed, and whatever it does costs one case."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.blobs import BlobStore
from harness.outcome import Outcome
from harness.records import Case, canonical
from harness.sandbox import Limits, free_port
from harness.targets.base import Answer, Target, TargetUnavailable, Unsupported
from harness.targets.http import HttpTarget, Request, Server

LIMITS = Limits(wall_s=60.0, memory_bytes=300 << 20, output_bytes=4 << 20, reply_bytes=1 << 20, grace_s=0.2)
SERVER = """
import os, signal, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def log_message(self, *args): pass

    def do_GET(self): self.send(200, b"{}")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        getattr(self, "on_" + self.path[1:])(body)

    def send(self, status, body, kind="application/json", length=None):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("X-Other", "1")
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def on_echo(self, body): self.send(200, body)
    def on_invalid(self, body): self.send(422, b'{"error": "no"}')
    def on_error(self, body): self.send(500, b"oops", "text/plain")
    def on_away(self, body): self.send(302, b"")
    def on_bytes(self, body): self.send(200, b"\\xff{")
    def on_crash(self, body): os.kill(os.getpid(), signal.SIGSEGV)
    def on_leave(self, body): os._exit(3)
    def on_hang(self, body): time.sleep(3600)
    def on_trickle(self, body):
        self.send(200, b"", length=1 << 20)
        while True:
            self.wfile.write(b" "); self.wfile.flush(); time.sleep(0.02)
    def on_eat(self, body):
        kept = bytearray(400 << 20); time.sleep(3600)
    def on_long(self, body): self.send(200, b"x" * (2 << 20))
    def on_drop(self, body): self.close_connection = True; self.connection.close()
    def on_garbage(self, body): self.wfile.write(b"nonsense\\r\\n\\r\\n"); self.close_connection = True
    def on_short(self, body): self.send(200, b"12345", length=10); self.close_connection = True
    def on_last(self, body): self.send(200, body); self.close_connection = True; self.connection.shutdown(2)

ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
"""


def case(op: str, **given_input: Any) -> Case:
    return Case.make("toy", op, given_input)


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def _request(asked: Case) -> Request:
    if asked.op == "impossible":
        raise Unsupported("no such route")
    return Request("POST", "/" + asked.op, {"Content-Type": "application/json"}, canonical(asked.input))


@pytest.fixture
def http(tmp_path: Path) -> Iterator[Callable[..., HttpTarget]]:
    made: list[HttpTarget] = []
    path = tmp_path / "server.py"
    path.write_text(SERVER)

    def make(url: str = "", argv: Any = None, **limits: Any) -> HttpTarget:
        server = None if url else Server(argv or (lambda host, port: [sys.executable, str(path), host, str(port)]))
        made.append(
            HttpTarget(
                "served@1",
                _request,
                logs=tmp_path / "logs",
                limits=msgspec.structs.replace(LIMITS, **limits),
                capabilities=["echo"],
                server=server,
                url=url,
                describe=None if url else lambda get: {"root": get("/")},
            )
        )
        return made[-1]

    yield make
    for target in made:
        target.close()


@pytest.mark.parametrize(
    ("op", "limits", "outcome", "said"),
    [
        ("invalid", {}, Outcome.REFUSED, ""),
        ("error", {}, Outcome.FAILED, ""),
        ("away", {}, Outcome.FAILED, ""),
        ("bytes", {}, Outcome.ANSWERED, ""),
        ("impossible", {}, Outcome.UNSUPPORTED, "no such route"),
        ("crash", {}, Outcome.CRASHED, "was ended by SIGSEGV"),
        ("leave", {}, Outcome.CRASHED, "exited with status 3"),
        ("hang", {"wall_s": 0.3}, Outcome.TIMED_OUT, "wall limit"),
        ("trickle", {"wall_s": 0.3}, Outcome.TIMED_OUT, "wall limit"),
        ("eat", {}, Outcome.OUT_OF_MEMORY, "memory limit"),
        ("long", {}, Outcome.FAILED, "longer than 1048576 bytes"),
        ("drop", {}, Outcome.FAILED, "broke off the exchange, twice"),
        ("garbage", {}, Outcome.FAILED, "broke off the exchange, twice: BadStatusLine"),
        ("short", {}, Outcome.FAILED, "broke off the exchange: IncompleteRead"),
        ("last", {}, Outcome.ANSWERED, ""),
    ],
)
def test_what_a_server_does_is_what_is_observed_and_the_next_case_is_untouched(
    op: str, limits: dict[str, Any], outcome: Outcome, said: str, http: Callable[..., HttpTarget], blobs: BlobStore
) -> None:
    target = http(**limits)
    hello = target.open()
    assert hello.reports == {"root": {}}
    answer = target.run(case(op), blobs)
    assert answer.outcome is outcome
    assert said in answer.detail
    after = target.run(case("echo", x=1), blobs)
    assert after == Answer(Outcome.ANSWERED, _echoed({"x": 1}), cost=after.cost)


def _echoed(body: Any) -> dict[str, Any]:
    return {"status": 200, "headers": {"content-type": "application/json"}, "json": body}


def test_a_body_that_is_no_json_is_text(http: Callable[..., HttpTarget], blobs: BlobStore) -> None:
    target = http()
    target.open()
    plain = target.run(case("error"), blobs).payload
    assert plain == {"status": 500, "headers": {"content-type": "text/plain"}, "text": "oops"}
    assert target.run(case("bytes"), blobs).payload["text"] == "\\xff{"


def test_a_port_that_was_taken_meanwhile_is_not_the_end(
    http: Callable[..., HttpTarget], blobs: BlobStore, tmp_path: Path
) -> None:
    asked = []
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers there, and nobody else may bind it

        def argv(host: str, port: int) -> list[str]:
            asked.append(port)
            chosen = other.getsockname()[1] if len(asked) == 1 else port
            return [sys.executable, str(tmp_path / "server.py"), host, str(chosen)]

        target = http(argv=argv)
        target.open()
    assert len(asked) == 2
    assert target.run(case("echo"), blobs).outcome is Outcome.ANSWERED


def test_a_server_that_does_not_start_shows_the_end_of_its_log(http: Callable[..., HttpTarget]) -> None:
    target = http(argv=lambda _host, _port: [sys.executable, "-c", "raise SystemExit('no model in this folder')"])
    with pytest.raises(TargetUnavailable, match="no model in this folder"):
        target.open()


def test_a_given_address_is_asked_without_starting_anything(http: Callable[..., HttpTarget], blobs: BlobStore) -> None:
    ours = http()
    ours.open()
    assert ours._client is not None
    port = ours._client._connection.port
    theirs = http(f"http://127.0.0.1:{port}/", wall_s=0.3)
    hello = theirs.open()
    assert hello.limits["memory"].startswith("none")
    assert hello.limits["wall"] == "0.3 s a request, by this client"
    assert theirs.run(case("echo", x=1), blobs).payload == _echoed({"x": 1})
    assert theirs.run(case("trickle"), blobs).outcome is Outcome.TIMED_OUT
    assert theirs.run(case("echo", x=2), blobs).payload == _echoed({"x": 2})
    ours.close()
    lost = theirs.run(case("echo"), blobs)
    assert lost.outcome is Outcome.CRASHED
    assert "no longer answers" in lost.detail


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}", "ftp://127.0.0.1", "nonsense"])
def test_an_address_where_nobody_answers_is_named(url: str, http: Callable[..., HttpTarget]) -> None:
    filled = url.format(port=free_port())
    with pytest.raises(TargetUnavailable, match=filled):
        http(filled).open()


def test_either_a_server_or_an_address(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="either a server to start or the address of one"):
        HttpTarget("x", _request, logs=tmp_path, limits=LIMITS, capabilities=())


def test_it_is_a_target(http: Callable[..., HttpTarget]) -> None:
    assert isinstance(http(), Target)


def test_closing_ends_the_case_in_flight(http: Callable[..., HttpTarget], blobs: BlobStore) -> None:
    target = http()
    target.open()
    program = target._program
    assert program is not None
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(target.run(case("hang"), blobs)))
    thread.start()
    while not program.busy:
        assert thread.is_alive()
    target.close()
    thread.join()
    assert answers[0].outcome is Outcome.FAILED
    assert not program.running
