"""The worker protocol, version 1, as typed messages. ``docs/reference/protocol.md`` tells it in words.

One JSON object a line: requests on the worker's stdin, one reply to each on its stdout, in order. Requests are built
and replies checked against the types here; their JSON Schemas are in ``reports/schema``.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.records import Json
from harness.targets.base import PROTOCOL


class ArrayFile(msgspec.Struct, frozen=True):
    """An array in a file: raw C-order little-endian elements; ``digest`` as in an ``ArrayRef`` to the same array."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    digest: str


class HelloRequest(msgspec.Struct, frozen=True, tag="hello"):
    """Load the operations and say what there is. The first request."""

    id: int
    protocol: int = PROTOCOL


class RunRequest(msgspec.Struct, frozen=True, tag="run"):
    """Put one case to an operation. ``out`` is an empty folder for the arrays of the answer."""

    id: int
    op: str
    input: dict[str, Json]
    out: str
    arrays: dict[str, ArrayFile] = {}


class ByeRequest(msgspec.Struct, frozen=True, tag="bye"):
    """End after the reply."""

    id: int


class HelloReply(msgspec.Struct, frozen=True, tag="hello"):
    """The target is there. ``worker`` describes the interpreter, ``reports`` is what the target says of itself."""

    id: int
    protocol: int
    capabilities: tuple[str, ...]
    worker: dict[str, str] = {}
    reports: dict[str, Json] = {}


class UnavailableReply(msgspec.Struct, frozen=True, tag="unavailable"):
    """The target cannot be asked on this machine (``unsupported``), or could not be loaded (``failed``)."""

    id: int
    outcome: str
    detail: str


class ReplyCost(msgspec.Struct, frozen=True):
    """What the operation cost by the worker's own measure: seconds, seconds of all its threads, peak bytes."""

    wall_s: float | None = None
    cpu_s: float | None = None
    rss_bytes: int | None = None


class ResultReply(msgspec.Struct, frozen=True, tag="result"):
    """What the operation did with the case."""

    id: int
    outcome: Literal["answered", "refused", "unsupported", "failed", "out_of_memory"]
    payload: Json = None
    arrays: dict[str, ArrayFile] = {}
    detail: str = ""
    cost: ReplyCost = ReplyCost()


class ByeReply(msgspec.Struct, frozen=True, tag="bye"):
    """The worker ends."""

    id: int


class ErrorReply(msgspec.Struct, frozen=True, tag="error"):
    """The request was not understood; ``id`` is null where not even that could be read."""

    id: int | None
    detail: str


Request = HelloRequest | RunRequest | ByeRequest
Reply = HelloReply | UnavailableReply | ResultReply | ByeReply | ErrorReply

MESSAGES = {"protocol-request": Request, "protocol-reply": Reply}
"""What is exported as JSON Schema, by the schema's name."""
