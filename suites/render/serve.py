"""``afere serve``: the reference renderer over HTTP, so that others can diff against it live."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated

import typer

LARGEST = 32 << 20
"""Bytes of a request body; more is refused with 413."""


def server(setup_name: str, host: str, port: int) -> ThreadingHTTPServer:
    """Make a server for one set-up; port 0 takes a free one. The caller runs and closes it.

    Routes: /health, /ping (GET, POST), /v1/models, /v1/chat/completions/render, /v1/completions/render.

    Raises OSError if the address cannot be had.
    """
    from reference.render.wire import Policy, Reply, bad_request, error, reply
    from suites.render.setups import setups

    setup = setups()[setup_name]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "afere"

        def do_GET(self) -> None:
            self._answer("GET", b"")

        def do_POST(self) -> None:
            try:
                length = int(self.headers.get("content-length") or 0)
            except ValueError:
                self._send(bad_request("the content-length is no number"))
                return
            if length > LARGEST:
                self.close_connection = True
                self._send(error(413, "RequestEntityTooLarge", f"at most {LARGEST} bytes"))
                return
            self._answer("POST", self.rfile.read(length))

        def _answer(self, method: str, body: bytes) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            path = self.path.partition("?")[0]
            self._send(reply(setup, method, path, body, headers, Policy()))

        def _send(self, made: Reply) -> None:
            data = b"" if made.body is None else json.dumps(made.body).encode()
            self.send_response(made.status)
            if data:
                self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Say nothing: the client knows what it asked."""

    return ThreadingHTTPServer((host, port), Handler)


def command(
    setup: Annotated[str, typer.Option(help="The set-up to serve: ledger or open (see suites/render).")] = "ledger",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8000,
) -> None:
    """Serve the reference renderer: /v1/chat/completions/render, /v1/completions/render, /v1/models, /health, /ping.

    Point a client, or `afere run --suite render --target url:http://127.0.0.1:8000`, at it.
    """
    from suites.render.setups import setups

    if setup not in setups():
        raise typer.BadParameter(f"there is no set-up {setup!r}; choose one of {', '.join(setups())}")
    try:
        httpd = server(setup, host, port)
    except OSError as problem:
        raise typer.BadParameter(f"cannot listen on {host}:{port} ({problem}); choose another port") from None
    with httpd:
        typer.echo(f"serving {setup} on http://{host}:{httpd.server_address[1]} (Ctrl-C ends it)", err=True)
        try:
            httpd.serve_forever()
        except KeyboardInterrupt:
            typer.echo("ended", err=True)
