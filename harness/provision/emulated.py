"""Wheels of another architecture, run by an emulator of user programs."""

from __future__ import annotations

import shlex
from pathlib import Path

from harness.provision import stubs, wheel
from harness.provision.build import Built, Workshop, executable, first_on_path
from harness.provision.errors import ProvisionError
from harness.provision.pip import foreign
from harness.provision.recipes import EmulatedSite, EmulatedWheel, Sysroot
from harness.provision.sysroot import ARCHITECTURES, PYTHON, require_tools


def build_wheel(recipe: EmulatedWheel, shop: Workshop) -> Built:
    """Take the files out of the wheel, and build or share the emulated Python that it asks for."""
    architecture = recipe.sysroot.architecture
    require_tools(shop.name, architecture)
    requirement = f"{recipe.project}=={recipe.version}"
    found = _fetch(recipe.sysroot, (requirement,), shop)[0]
    files = wheel.unpack(found, shop.path / "files", recipe.members)
    if not files:
        raise ProvisionError(f"{shop.name}: the wheel of {requirement} has no file like {' or '.join(recipe.members)}")
    markers = {"platform_machine": architecture, "sys_platform": "linux", "platform_system": "Linux"}
    version = wheel.pinned(found, recipe.pinned, markers)
    if version is None:
        raise ProvisionError(f"{shop.name}: the metadata of {requirement} pins no version of {recipe.pinned}")
    public = version.partition("+")[0]  # a local build such as +cpu is for another architecture
    site = EmulatedSite(
        wheels=(f"{recipe.pinned}=={public}", *recipe.site),
        skip=recipe.pinned_skip,
        stubs=recipe.stubs,
        imports=(recipe.pinned,),
        sysroot=recipe.sysroot,
    )
    base = shop.need(site, f"{recipe.pinned}@{public}:{architecture}")
    return Built(
        python=base.python,
        files={name: str(path) for name, path in files.items()},
        versions={recipe.project: recipe.version, **base.versions},
        env=base.env,
        needs=(base.name,),
        probe=base.probe,
    )


def build_site(recipe: EmulatedSite, shop: Workshop) -> Built:
    """Unpack the wheels, make the stand-ins, write the launcher, and prove that the modules import."""
    architecture = recipe.sysroot.architecture
    require_tools(shop.name, architecture)
    below = shop.need(recipe.sysroot, f"sysroot-{architecture}@{recipe.sysroot.release}")
    root = Path(below.path) / "root"
    site = shop.path / "site"
    wheels = _fetch(recipe.sysroot, recipe.wheels, shop)
    for path in wheels:
        shop.say(f"unpacking {path.name}")
        wheel.unpack(path, site, skip=recipe.skip)
    if recipe.stubs is not None:
        stubs.make(recipe.stubs, architecture, site, root, shop.path / "stubs", shop)
    assert below.python is not None
    launcher = _launcher(recipe, shop.path, root, below.python)
    probe = ("-c", f"import {', '.join(recipe.imports)}" if recipe.imports else "import sys")
    shop.say(f"starting it: {probe[1]}, under emulation")
    shop.run([str(launcher), *probe], doing=f"starting it: {probe[1]}, under emulation")
    names = [path.name.split("-")[:2] for path in wheels]
    return Built(
        python=str(launcher),
        versions={**{name.lower().replace("_", "-"): version for name, version in sorted(names)}, **below.versions},
        needs=(below.name,),
        probe=probe,
    )


def _fetch(sysroot: Sysroot, requirements: tuple[str, ...], shop: Workshop) -> list[Path]:
    """Download exactly these wheels for the sysroot's architecture and Python, in this order."""
    into = shop.scratch / "wheels"
    options = foreign(sysroot.architecture, PYTHON[sysroot.release])
    shop.pip("download", *options, "--dest", str(into), *requirements, doing=f"fetching {', '.join(requirements)}")
    return sorted(into.glob("*.whl"))


def _launcher(recipe: EmulatedSite, path: Path, root: Path, python: str) -> Path:
    """Write ``bin/python``: a shell line, so that the emulator replaces it and one process is one process.

    The variables are given to the emulated program only; the emulator itself must not load its libraries.
    Bytecode may be written: an import from source takes twice as long here.
    """
    a = ARCHITECTURES[recipe.sysroot.architecture]
    variables = {"PYTHONPATH": str(path / "site"), "PYTHONDONTWRITEBYTECODE": ""}
    if recipe.stubs is not None:
        variables["LD_LIBRARY_PATH"] = str(path / "stubs")
        variables["LD_PRELOAD"] = ":".join(str(path / "stubs" / name) for name in recipe.stubs.preload)
    emulator = first_on_path(a.emulator) or a.emulator
    words = [emulator, "-cpu", a.cpu, "-L", str(root)]
    for name, value in variables.items():
        words += ["-E", f"{name}={value}"]
    launcher = path / "bin" / "python"
    launcher.parent.mkdir()
    launcher.write_text(f'#!/bin/sh\nexec {shlex.join([*words, python])} "$@"\n', encoding="utf-8")
    executable(launcher)
    return launcher
