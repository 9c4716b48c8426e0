"""``provision``: the ready environment of a recipe, built under a lock where it is not there yet."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.provision import cache, pip
from harness.provision.cache import Environment, Progress
from harness.provision.errors import ProvisionError
from harness.provision.recipes import Recipe
from harness.records import digest
from harness.sandbox import Completed, Limits, StartFailed, run_once

# A download may take long on a slow line, and pip's own timeouts watch the connection. Memory is the user's.
LIMITS: Final = Limits(wall_s=7200.0, memory_bytes=None, grace_s=5.0)


class Built(msgspec.Struct, frozen=True):
    """What a builder hands back: the fields of an environment that only it knows."""

    python: str | None = None
    program: str | None = None
    files: dict[str, str] = {}
    versions: dict[str, str] = {}
    env: dict[str, str] = {}
    needs: tuple[str, ...] = ()
    probe: tuple[str, ...] = ()


class Workshop:
    """What a builder works with: the environment's folder, a scratch folder, and programs run under the sandbox."""

    def __init__(self, name: str, path: Path, progress: Progress) -> None:
        self.name, self.path, self._progress = name, path, progress
        self.scratch = path / "scratch"
        self.scratch.mkdir(parents=True)

    def say(self, text: str) -> None:
        """Report a step."""
        self._progress(f"{self.name}: {text}")

    def run(self, argv: Sequence[str], *, doing: str, env: Mapping[str, str] | None = None) -> list[str]:
        """Run a program to its end and return the lines it printed.

        :raises ProvisionError: it failed; with its last lines
        """
        done, lines = self._run(argv, doing, env, lambda _: None)
        if not done.ok:
            raise ProvisionError(f"{self.name}: {doing} failed: {argv[0]} {done.ending}. Its last lines:\n{done.tail}")
        return lines

    def pip(self, *arguments: str, doing: str, python: str | None = None) -> None:
        """Run pip under the user's configuration.

        :raises ProvisionError: it failed; names what was not found
        """
        self.say(doing)

        def relay(line: str) -> None:
            word, _, rest = line.strip().partition(" ")
            if word in ("Downloading", "Installing"):
                self.say(f"{word.lower()} {rest.split(', ')[0][:100]}")

        done, lines = self._run([*pip.command(python), *arguments], doing, None, relay)
        if not done.ok:
            raise pip.explain(f"{self.name}: {doing}", lines)

    def need(self, recipe: Recipe, name: str) -> Environment:
        """Return an environment that this one is built upon, building it where it is not there."""
        return provision(recipe, name, progress=self._progress, internal=True)

    def _run(
        self, argv: Sequence[str], doing: str, env: Mapping[str, str] | None, relay: Callable[[str], None]
    ) -> tuple[Completed, list[str]]:
        lines: list[str] = []

        def keep(line: str) -> None:
            lines.append(line)
            relay(line)

        try:
            done = run_once(
                argv,
                name="build",
                logs=self.path / "logs",
                limits=LIMITS,
                # pip unpacks large wheels into TMPDIR, which must be on the disk that has room for them
                env={"TMPDIR": str(self.scratch), **(env or {})},
                cwd=self.scratch,
                on_line=keep,
            )
        except StartFailed as error:
            raise ProvisionError(f"{self.name}: {doing}: {error}") from error
        return done, lines


def provision(recipe: Recipe, name: str, *, progress: Progress = lambda _: None, internal: bool = False) -> Environment:
    """Return the ready environment ``name``, at once where it is there, else built by ``recipe``.

    Safe against two runs at once, and against being killed at any moment. An environment that another recipe of the
    same name built is built again.

    :raises ProvisionError: names what was not found, and what to do
    """
    wanted = digest(msgspec.to_builtins(recipe))
    if (found := cache.find(name)) is not None and found.recipe == wanted:
        return found
    with cache.locked(name, progress):
        if (found := cache.find(name)) is not None and found.recipe == wanted:  # another run built it meanwhile
            return found
        path = cache.folder(name)
        cache.clear(path)
        try:
            _room(name, path, recipe.disk_bytes)
            shop = Workshop(name, path, progress)
            built = _builder(recipe)(recipe, shop)
            shutil.rmtree(shop.scratch)
            environment = Environment(
                name,
                str(msgspec.to_builtins(recipe)["type"]),
                str(path),
                bytes=cache.disk_use(path),
                built=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
                recipe=wanted,
                internal=internal,
                **{field: getattr(built, field) for field in built.__struct_fields__},
            )
            cache.write_marker(environment)
        except OSError as error:
            cache.clear(path)
            raise ProvisionError(f"{name}: {error.strerror or error} ({error.filename or path})") from error
        except BaseException:
            cache.clear(path)
            raise
    shared = "" if not built.needs else f", with {', '.join(built.needs)}"
    progress(f"{name}: ready, {environment.bytes / 1e6:.0f} MB on disk{shared}")
    return environment


def _builder(recipe: Recipe) -> Callable[[Any, Workshop], Built]:
    # Imported here: the builders use this module's Workshop.
    from harness.provision import emulated, sysroot, venv, wheel

    table: dict[str, Callable[[Any, Workshop], Built]] = {
        "wheel-member": wheel.build,
        "venv": venv.build,
        "sysroot": sysroot.build,
        "emulated-site": emulated.build_site,
        "emulated-wheel": emulated.build_wheel,
    }
    return table[msgspec.to_builtins(recipe)["type"]]


def _room(name: str, path: Path, needed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        raise ProvisionError(
            f"{name} needs about {needed / 1e9:.1f} GB while it is built, and {path.parent} has {free / 1e9:.1f} GB"
            " left; free some, or set AFERE_CACHE to a larger disk"
        )


def executable(path: Path) -> None:
    """Make a file executable."""
    path.chmod(path.stat().st_mode | 0o755)


def first_on_path(*names: str) -> str | None:
    """Return the first of several programs that is installed; administrators' folders are searched too."""
    search = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return next((found for name in names if (found := shutil.which(name, path=search))), None)
