"""Where environments lie, and what makes one complete: its marker, written last and in one step.

Layout: ``environments/<name>/`` with ``ready.json`` (the marker) and the environment's files, ``locks/<name>.lock``.
A folder without a marker was interrupted; it is removed and built again.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import filelock
import msgspec
import platformdirs

from harness.provision.errors import ProvisionError

NAME: Final = re.compile(r"[A-Za-z0-9][\w.+-]*@[\w.+-]+(:[\w.+-]+)?")
MARKER: Final = "ready.json"

Progress = Callable[[str], None]


class Environment(msgspec.Struct, frozen=True):
    """A ready environment. Paths are absolute.

    ``versions`` names every distribution that was installed; ``files`` maps a member of a wheel to where it lies;
    ``env`` are variables the target must be started with; ``needs`` are environments this one is built upon;
    ``probe`` are the arguments with which its program or Python proves itself, ending with status 0.
    """

    name: str
    kind: str
    path: str
    python: str | None = None
    program: str | None = None
    files: dict[str, str] = {}
    versions: dict[str, str] = {}
    env: dict[str, str] = {}
    needs: tuple[str, ...] = ()
    probe: tuple[str, ...] = ()
    internal: bool = False  # made because another needs it; removed when none does any more
    bytes: int = 0
    built: str = ""  # ISO 8601, UTC
    recipe: str = ""  # digest

    def script(self, name: str) -> str:
        """Path of a command that was installed into a virtual environment.

        :raises ProvisionError: it has no such command
        """
        path = Path(self.python or self.path).parent / name
        if not path.exists():
            raise ProvisionError(f"{self.name} has no command {name!r} in {path.parent}")
        return str(path)


def root() -> Path:
    """Return the cache folder: ``AFERE_CACHE``, or the platform's place for caches.

    :raises ProvisionError: its path holds a character that search paths cannot carry
    """
    given = os.environ.get("AFERE_CACHE")
    path = Path(given).expanduser().absolute() if given else Path(platformdirs.user_cache_dir("afere"))
    if bad := [c for c in ":,\n" if c in str(path)]:
        raise ProvisionError(f"the cache folder {str(path)!r} holds {bad[0]!r}; set AFERE_CACHE to a path without it")
    return path


def folder(name: str) -> Path:
    """Return the folder of an environment, whether it exists or not.

    :raises ProvisionError: the name is not NAME@VERSION[:VARIANT]
    """
    return root() / "environments" / _stem(name)


def find(name: str) -> Environment | None:
    """Return the environment where it is complete; never builds."""
    return _read(folder(name))


def installed() -> list[Environment]:
    """Return all complete environments, by name."""
    parent = root() / "environments"
    found = [_read(path) for path in sorted(parent.iterdir())] if parent.is_dir() else []
    return [environment for environment in found if environment is not None]


def write_marker(environment: Environment) -> None:
    """Make the environment complete, atomically."""
    path = Path(environment.path) / MARKER
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(environment), indent=1))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def remove(name: str, progress: Progress = lambda _: None) -> int:
    """Remove an environment, complete or not, and those that only it needed. Returns the bytes freed.

    :raises ProvisionError: there is none of that name, or another one is built upon it
    """
    path = folder(name)
    if not path.exists():
        have = ", ".join(e.name for e in installed() if not e.internal) or "none"
        raise ProvisionError(f"{name!r} is not installed; installed are: {have}")
    if users := [e.name for e in installed() if name in e.needs]:
        raise ProvisionError(f"{name!r} is needed by {', '.join(users)}; remove that first")
    with locked(name, progress):
        environment = _read(path)
        freed = disk_use(path)
        clear(path)
    used = {need for e in installed() for need in e.needs}
    for need in environment.needs if environment else ():
        shared = find(need)
        if shared is not None and shared.internal and need not in used:
            freed += remove(need, progress)
    return freed


def clear(path: Path) -> None:
    """Remove a folder. Its marker goes first, so that an interrupted removal leaves nothing that looks complete."""
    (path / MARKER).unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        shutil.rmtree(path)  # says what is in the way


@contextlib.contextmanager
def locked(name: str, progress: Progress) -> Iterator[None]:
    """Hold the environment's lock; waits, and says so, while another run of Afere holds it."""
    path = root() / "locks" / f"{_stem(name)}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(path)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            progress(f"{name}: waiting for another run of Afere that is at work on it")
            lock.acquire()
    except OSError as error:
        raise ProvisionError(
            f"cannot write to the cache folder {root()}: {error.strerror}; set AFERE_CACHE to a folder that you own"
        ) from error
    try:
        yield
    finally:
        lock.release()


def disk_use(path: Path) -> int:
    """Bytes allocated below a folder; a file with two names counts once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for base, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.lstat(os.path.join(base, name))  # noqa: PTH118 - tens of thousands of files
                if (status.st_dev, status.st_ino) not in seen:
                    seen.add((status.st_dev, status.st_ino))
                    total += status.st_blocks * 512
    return total


def _stem(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ProvisionError(
            f"{name!r} is not the name of an environment; it must be NAME@VERSION or NAME@VERSION:VARIANT"
        )
    return name.replace(":", "~")  # a colon separates the folders of a search path


def _read(path: Path) -> Environment | None:
    try:
        environment = msgspec.json.decode((path / MARKER).read_bytes(), type=Environment)
    except (OSError, msgspec.DecodeError):
        return None
    return environment if environment.path == str(path) else None  # a cache that was moved must be built again
