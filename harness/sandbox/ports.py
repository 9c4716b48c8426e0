"""Free TCP ports."""

from __future__ import annotations

import socket


def free_port(host: str = "127.0.0.1") -> int:
    """Find a TCP port that was free a moment ago.

    Another process may take it before the program binds it; who starts a server retries with another port then.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
