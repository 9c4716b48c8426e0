"""What the machine is: the part of a run's header that says where it was recorded."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from harness.records import Json

LIBRARIES = ("afere", "hypothesis", "jinja2", "minijinja", "msgspec", "numpy", "tokenizers", "torch", "transformers")
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "OMP_WAIT_POLICY",
)


@cache
def cpu_features() -> frozenset[str]:
    """Lower-case instruction-set flags as the operating system names them; empty where it does not say.

    Linux: ``flags`` (x86) or ``Features`` (ARM) of /proc/cpuinfo. macOS: ``hw.optional`` is not read; ARM64 Macs have
    ``neon`` and ``asimd`` by definition.
    """
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset({"neon", "asimd"}) if platform.machine() == "arm64" else frozenset()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in {"flags", "Features"}:
            return frozenset(value.lower().split())
    return frozenset()


def _versions() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def environment() -> dict[str, Json]:
    """Processor, system, libraries, thread settings: strings and numbers only, no paths, no host name."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cpu_features": sorted(cpu_features()),
        "cores": os.cpu_count() or 0,
        "memory_bytes": psutil.virtual_memory().total,
        "byte_order": sys.byteorder,
        "python": platform.python_version(),
        "libraries": _versions(),
        "threads": {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
    }
