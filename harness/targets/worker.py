"""The worker for Python targets: one JSON object a line on stdin and stdout, arrays in files. Protocol version 1.

    PYTHON worker.py OPERATIONS.py

runs in the target's own interpreter (3.9 or newer, native or emulated) and needs the standard library only; numpy or
torch are imported where an operation asks for its arrays in that form. The operations module, loaded by path, defines

    OPS = {"name": function}          function(input: dict, arrays: dict[str, Array]) -> payload, or a pair of that
                                      and {name: array}
    def hello(): ...                  optional: a dict of what the target reports of itself; its key "capabilities",
                                      a list, replaces the names of OPS

An operation refuses a case, or says that it is outside its capabilities, by an exception whose class is named Refused
or Unsupported, or that has the attribute ``afere_outcome``. Both classes are in the module ``afere_worker``, which
exists inside the worker. Whatever an operation prints goes to stderr, so it cannot disturb the protocol.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import resource
import sys
import time
import traceback
import types
from math import prod
from pathlib import Path
from typing import Any

PROTOCOL = 1
SIZES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
}
SIZES.update({"float32": 4, "int64": 8, "uint64": 8, "float64": 8})
OUTCOMES = {"Refused": "refused", "Unsupported": "unsupported", "MemoryError": "out_of_memory"}


class Refused(Exception):  # noqa: N818 - an outcome, not an error
    """Raise it to refuse a case cleanly. ``payload`` goes into the answer."""

    afere_outcome = "refused"

    def __init__(self, message: str = "", payload: Any = None) -> None:
        super().__init__(message)
        self.payload = payload


class Unsupported(Exception):  # noqa: N818 - an outcome, not an error
    """Raise it for a case outside the target's capabilities."""

    afere_outcome = "unsupported"


class Array:
    """An array as it travels: dtype name, shape, and raw little-endian elements in C order."""

    def __init__(self, dtype: str, shape: Any, data: bytes | None = None, path: str = "") -> None:
        if dtype not in SIZES:
            raise ValueError(f"unknown dtype {dtype!r}")
        self.dtype, self.shape, self._data, self._path = dtype, tuple(shape), data, path

    @property
    def data(self) -> bytes:
        """The raw bytes, read when they are first asked for."""
        if self._data is None:
            self._data = Path(self._path).read_bytes()
        if len(self._data) != prod(self.shape) * SIZES[self.dtype]:
            raise ValueError(f"{len(self._data)} bytes are not a {self.dtype} array of shape {self.shape}")
        return self._data

    def numpy(self) -> Any:
        """Make a writable NumPy array; bfloat16 comes as its bits, uint16."""
        import numpy as np

        name = "uint16" if self.dtype == "bfloat16" else self.dtype
        array = np.frombuffer(self.data, np.dtype(name).newbyteorder("<")).reshape(self.shape)
        return array.astype(name)

    def torch(self) -> Any:
        """Make a writable torch tensor of the same dtype."""
        import torch

        stored = "int16" if self.dtype == "bfloat16" else self.dtype
        if not prod(self.shape):
            return torch.empty(self.shape, dtype=getattr(torch, self.dtype))
        flat = torch.frombuffer(bytearray(self.data), dtype=getattr(torch, stored))
        return flat.view(getattr(torch, self.dtype)).reshape(self.shape)

    @classmethod
    def of(cls, value: Any) -> Array:
        """Wrap what an operation returned: an Array, a torch tensor, or anything NumPy makes an array of."""
        if isinstance(value, cls):
            return value
        if type(value).__module__.split(".")[0] == "torch":
            import torch

            tensor = value.detach().cpu().contiguous()
            name = str(tensor.dtype).replace("torch.", "", 1)
            bits = tensor.view(torch.int16) if name == "bfloat16" else tensor
            return cls(name, value.shape, bits.numpy().tobytes())
        import numpy as np

        array = np.asarray(value)
        return cls(array.dtype.name, array.shape, array.astype(array.dtype.newbyteorder("<")).tobytes())


def save(arrays: dict[str, Any], folder: str) -> dict[str, Any]:
    """Write the arrays of an answer; returns what the reply says of them."""
    said = {}
    for number, (name, value) in enumerate(sorted(arrays.items())):
        array = Array.of(value)
        path = Path(folder) / f"{number}.bin"
        path.write_bytes(array.data)
        shape = [int(n) for n in array.shape]
        header = json.dumps([array.dtype, shape], separators=(",", ":")).encode("ascii")
        digest = hashlib.sha256(header + array.data).hexdigest()
        said[name] = {"path": str(path), "dtype": array.dtype, "shape": shape, "digest": digest}
    return said


def peak_rss() -> int:
    """Read the highest resident size in bytes: since :func:`reset_peak` where the kernel tells, else of all time."""
    try:
        for line in Path("/proc/self/status").read_bytes().splitlines():
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def reset_peak() -> None:
    """Start a new measurement of the peak, where the kernel can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_bytes(b"5")


def outcome_of(error: BaseException) -> tuple[str, Any, str]:
    """Sort an exception: (outcome, payload, detail)."""
    outcome = getattr(error, "afere_outcome", None)
    if outcome not in ("refused", "unsupported"):
        names = (cls.__name__ for cls in type(error).__mro__)
        outcome = next((OUTCOMES[name] for name in names if name in OUTCOMES), "failed")
    if outcome in ("refused", "unsupported"):
        return outcome, getattr(error, "payload", None), str(error)
    try:
        frames = traceback.extract_tb(error.__traceback__)
        where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        return outcome, None, f"{type(error).__name__}: {error}{where}"
    except Exception:
        return outcome, None, type(error).__name__


class Worker:
    """Answers requests until it is told to end, or its input closes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.module: Any = None

    def hello(self, request: dict[str, Any]) -> dict[str, Any]:
        """Load the operations and say what there is."""
        if request.get("protocol") != PROTOCOL:
            return {
                "type": "error",
                "detail": f"this worker speaks protocol {PROTOCOL}, not {request.get('protocol')!r}",
            }
        try:
            if self.module is None:
                self.module = load(self.path)
            reports = dict(self.module.hello()) if hasattr(self.module, "hello") else {}
        except BaseException as error:
            outcome, _, detail = outcome_of(error)
            traceback.print_exc()
            return {"type": "unavailable", "outcome": outcome, "detail": detail}
        capabilities = list(reports.pop("capabilities", sorted(self.module.OPS)))
        python = f"{platform.python_implementation()} {platform.python_version()}"
        worker = {"python": python, "machine": platform.machine(), "system": platform.system()}
        return {
            "type": "hello",
            "protocol": PROTOCOL,
            "worker": worker,
            "capabilities": capabilities,
            "reports": reports,
        }

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Put one case to its operation."""
        reset_peak()
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            payload, arrays = self._call(request)
            outcome, detail = "answered", ""
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            arrays = {}
            outcome, payload, detail = outcome_of(error)
            if outcome == "failed":
                traceback.print_exc()
        cost = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu, "rss_bytes": peak_rss()}
        reply = {"type": "result", "outcome": outcome, "payload": payload, "detail": detail[:4000], "cost": cost}
        try:
            reply["arrays"] = save(arrays, request["out"])
            json.dumps(reply)
        except Exception as error:
            what = f"the operation's result cannot be sent: {type(error).__name__}: {error}"[:4000]
            reply.update(outcome="failed", payload=None, arrays={}, detail=what)
        return reply

    def _call(self, request: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        operation = self.module.OPS.get(request["op"]) if self.module is not None else None
        if operation is None:
            raise Unsupported(f"no operation {request['op']!r}")
        arrays = {
            name: Array(one["dtype"], one["shape"], path=one["path"]) for name, one in request.get("arrays", {}).items()
        }
        result = operation(request["input"], arrays)
        return result if isinstance(result, tuple) else (result, {})

    def answer(self, line: bytes) -> tuple[dict[str, Any], bool]:
        """Answer one line; returns (reply, whether to go on)."""
        try:
            request = json.loads(line)
            kind, number = request["type"], request["id"]
        except (ValueError, KeyError, TypeError) as error:
            return {"id": None, "type": "error", "detail": f"not a request: {error}"}, True
        if kind == "bye":
            return {"id": number, "type": "bye"}, False
        handler = {"hello": self.hello, "run": self.run}.get(kind)
        if handler is None:
            return {"id": number, "type": "error", "detail": f"unknown request {kind!r}"}, True
        reply = handler(request)
        reply["id"] = number
        return reply, True


def load(path: str) -> Any:
    """Import the operations module by its path; its folder is on the module search path."""
    me = sys.modules[__name__]
    helper = types.ModuleType("afere_worker")
    for name in ("Array", "Refused", "Unsupported"):
        setattr(helper, name, getattr(me, name))
    sys.modules["afere_worker"] = helper
    sys.path.insert(0, str(Path(path).resolve().parent))
    spec = importlib.util.spec_from_file_location("afere_operations", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules["afere_operations"] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Serve. The protocol gets descriptors of its own; 0 and 1 belong to the operations from here on."""
    # This file's folder is the first entry of the search path and holds modules named like the standard library's.
    own = Path(__file__).resolve().parent
    sys.path[:] = [p for p in sys.path if Path(p).resolve() != own]
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)  # a number of 10,000 digits is a legitimate test input
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    worker = Worker(sys.argv[1])
    for line in iter(requests.readline, b""):
        reply, go_on = worker.answer(line)
        sys.stdout.flush()
        sys.stderr.flush()
        replies.write(json.dumps(reply).encode("ascii") + b"\n")
        replies.flush()
        if not go_on:
            break


if __name__ == "__main__":
    main()
