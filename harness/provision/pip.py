"""pip, run under the user's own configuration, and its complaints in one sentence."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from harness.provision.errors import ProvisionError

FLAGS: Final = ("--disable-pip-version-check", "--no-input")
NEAREST: Final = 6

NOT_FOUND: Final = re.compile(
    r"Could not find a version that satisfies the requirement (?P<wanted>.+?)"
    r"(?: \(from [^v][^)]*\))? \(from versions: (?P<versions>[^)]*)\)"
)
OFFLINE: Final = re.compile(
    r"NewConnectionError|Temporary failure in name resolution|nodename nor servname|Network is unreachable"
    r"|Connection refused|ProxyError|Max retries exceeded|ReadTimeout|ConnectTimeout|Tunnel connection failed"
)
FULL: Final = re.compile(r"No space left on device|Disk quota exceeded")

# Which wheels a machine of that architecture can use. pip knows this of its own machine only.
PLATFORMS: Final = {
    "aarch64": (
        *(f"manylinux_2_{minor}_aarch64" for minor in (36, 35, 34, 31, 28, 27, 26, 25, 24, 17)),
        "manylinux2014_aarch64",
    ),
}


def command(python: str | None = None) -> list[str]:
    """Return the argument list that starts pip, for this interpreter or for another one.

    :raises ProvisionError: this Python has no pip
    """
    if importlib.util.find_spec("pip") is None:
        raise ProvisionError(
            f"the Python that runs Afere ({sys.executable}) has no pip, which fetches targets; add it with"
            f" `{sys.executable} -m ensurepip` or install `pip` there"
        )
    target = [] if python is None else ["--python", python]
    return [sys.executable, "-m", "pip", *target, *FLAGS]


def foreign(architecture: str, python: str) -> list[str]:
    """Return the download options for wheels of another architecture and a CPython such as ``3.11``."""
    platforms = [f"--platform={tag}" for tag in PLATFORMS[architecture]]
    abis = [f"--abi={abi}" for abi in (f"cp{python.replace('.', '')}", "abi3", "none")]
    return ["--only-binary=:all:", "--no-deps", *platforms, f"--python-version={python}", "--implementation=cp", *abis]


def explain(doing: str, lines: Sequence[str]) -> ProvisionError:
    """Turn what pip printed before it failed into one error that names what was not found."""
    text = "\n".join(lines)
    if FULL.search(text):
        return ProvisionError(f"{doing}: the disk is full; free some space, or set AFERE_CACHE to a larger disk")
    if found := NOT_FOUND.search(text):
        wanted, versions = found["wanted"].strip(), [v.strip() for v in found["versions"].split(",")]
        versions = [v for v in versions if v and v != "none"]
        if versions:
            hint = _hint(wanted)
            return ProvisionError(
                f"{doing}: there is no {wanted}; the nearest are {', '.join(nearest(wanted, versions))}{hint}"
            )
        if not OFFLINE.search(text):
            return ProvisionError(
                f"{doing}: the package index has nothing that fits {wanted} on this platform and Python"
                f" {sys.version_info.major}.{sys.version_info.minor}; check the spelling and pip's configuration"
            )
    if OFFLINE.search(text):
        return ProvisionError(
            f"{doing}: the package index cannot be reached; check the network, or point pip at a mirror"
            " (PIP_INDEX_URL, or `pip config`)"
        )
    errors = [line for line in lines if line.startswith("ERROR:")] or list(lines)[-5:]
    return ProvisionError(
        f"{doing}: pip failed: " + " ".join(line.removeprefix("ERROR:").strip() for line in errors[-4:])
    )


def nearest(wanted: str, versions: Iterable[str]) -> list[str]:
    """Pick the versions nearest to the one asked for, in order; the newest where no version was asked for.

    >>> nearest("x==1.5", ["0.1", "1.4", "1.6", "2.0", "3.0", "4.0", "5.0", "6.0"])
    ['0.1', '1.4', '1.6', '2.0', '3.0', '4.0']
    """
    known = sorted({parsed for v in versions if (parsed := _version(v)) is not None})
    asked = _asked(wanted)
    if asked is None:
        return [str(v) for v in known[-NEAREST:]]
    below = sum(v < asked for v in known)
    first = max(0, min(below - NEAREST // 2, len(known) - NEAREST))
    return [str(v) for v in known[first : first + NEAREST]]


def _asked(wanted: str) -> Version | None:
    try:
        specifiers = list(Requirement(wanted).specifier)
    except InvalidRequirement:
        return None
    return next((parsed for s in specifiers if (parsed := _version(s.version)) is not None), None)


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _hint(wanted: str) -> str:
    """A local version such as ``+cpu`` is on an index of its own."""
    if "+" not in wanted:
        return ""
    name = re.split(r"[^\w.-]", wanted)[0]
    return f"; builds marked {wanted[wanted.index('+') :]!r} lie on {name}'s own index: name it in PIP_EXTRA_INDEX_URL"
