"""One kept-alive HTTP/1.1 connection, on the standard library.

A conformance run is one client that asks in a loop, and there the comfortable clients cost several times what a fast
renderer does. This one sends a request, reads the reply up to a cap and a deadline, and does no more: no
redirects, cookies, proxies or decompression, none of which may stand between a target and its observation.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from typing import Final
from urllib.parse import urlsplit

import msgspec

PIECE: Final = 1 << 16


class Request(msgspec.Struct, frozen=True):
    """One HTTP request; ``path`` begins with a slash."""

    method: str
    path: str
    headers: dict[str, str] = {}
    body: bytes | None = None


class Response(msgspec.Struct, frozen=True):
    """One HTTP response; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class BrokenOffError(Exception):
    """The connection could not be made, or broke before the reply was complete. ``received`` are bytes of the body."""

    def __init__(self, reason: Exception, received: int, *, connected: bool) -> None:
        super().__init__(f"{type(reason).__name__}: {reason}")
        self.received, self.connected = received, connected


class TooLateError(Exception):
    """The reply was not complete within its time."""


class TooLongError(Exception):
    """The reply is longer than allowed."""


class Connection:
    """A connection to the server at ``url`` (``http://host:port`` or https), made when it is first needed.

    :raises ValueError: the address is not of that form
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an address like http://127.0.0.1:8000")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._prefix = parts.path.rstrip("/")
        self._connection = kind(parts.hostname, parts.port)

    def ask(self, request: Request, wall_s: float | None, cap: int) -> Response:
        """Send one request and read the whole reply, of at most ``cap`` bytes, within ``wall_s`` seconds.

        :raises BrokenOffError: no connection, or it broke
        :raises TooLateError: the time is over
        :raises TooLongError: the reply is too long
        """
        deadline = None if wall_s is None else time.monotonic() + wall_s
        body = bytearray()
        try:
            self._allow(deadline)
            try:
                self._connection.request(request.method, self._prefix + request.path, request.body, request.headers)
            except (BrokenPipeError, ConnectionResetError):
                if self._connection.sock is None:
                    raise
                # The server may have refused a large body before it had read all of it; its reply is still there.
            response = self._connection.getresponse()
            while piece := response.read1(PIECE):
                body += piece
                if len(body) > cap:
                    break
                self._allow(deadline)
            if len(body) > cap:
                self.close()
                raise TooLongError(f"a reply longer than {cap} bytes")
            if response.length:  # read1 says nothing about a body that ends early
                raise http.client.IncompleteRead(bytes(body), response.length)
            response.close()  # read1 leaves it open at its end, and the connection would not take another request
        except TimeoutError as error:
            self.close()
            raise TooLateError(f"no complete reply within {wall_s:g} s") from error
        except (OSError, http.client.HTTPException, AttributeError, ValueError) as error:
            connected = self._connection.sock is not None
            self.close()
            if isinstance(error, ValueError | http.client.InvalidURL) and not connected:
                raise  # the request itself is not one: not the server's doing
            # AttributeError: another thread closed the connection while this one was reading.
            raise BrokenOffError(error, len(body), connected=not isinstance(error, ConnectionRefusedError)) from error
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Response(response.status, headers, bytes(body))

    def close(self) -> None:
        """Hang up; also while another thread waits for a reply."""
        sock = self._connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _allow(self, deadline: float | None) -> None:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        self._connection.timeout = left
        if self._connection.sock is not None:
            self._connection.sock.settimeout(left)
