"""A virtual environment, with what its programs need to run on a machine without an accelerator."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from pathlib import Path

from harness.provision.build import Built, Workshop
from harness.provision.errors import ProvisionError
from harness.provision.recipes import Alias, Venv


def build(recipe: Venv, shop: Workshop) -> Built:
    """Create it, install, remove what does harm, add metadata, and prove that the modules import."""
    home = shop.path / "venv"
    shop.say("creating a virtual environment")
    # Without a pip of its own: ours installs into it, under the user's configuration.
    shop.run([sys.executable, "-m", "venv", "--without-pip", str(home)], doing="creating a virtual environment")
    python = str(home / "bin" / "python")
    if recipe.requirements:
        shop.pip("install", *recipe.requirements, python=python, doing=f"installing {', '.join(recipe.requirements)}")
    versions = distributions(home)
    unwanted = [name for name in recipe.remove if _canonical(name) in versions]
    if unwanted:
        shop.pip("uninstall", "--yes", *unwanted, python=python, doing=f"removing {', '.join(unwanted)}")
    for alias in recipe.aliases:
        _add_metadata(home, alias, versions, shop.name)
    probe = ("-c", f"import {', '.join(recipe.imports)}" if recipe.imports else "import sys")
    shop.say(f"starting it: {probe[1]}")
    shop.run([python, *probe], doing=f"starting it: {probe[1]}")
    return Built(python=python, versions=distributions(home), probe=probe)


def site(home: Path) -> Path:
    """Return the site-packages folder of a virtual environment."""
    return next(iter(home.glob("lib/python3*/site-packages")))


def distributions(home: Path) -> dict[str, str]:
    """Return the distributions in a virtual environment: canonical name -> version."""
    found = importlib.metadata.distributions(path=[str(site(home))])
    return dict(sorted((_canonical(d.metadata["Name"]), d.version) for d in found))


def _add_metadata(home: Path, alias: Alias, versions: dict[str, str], name: str) -> None:
    version = versions.get(_canonical(alias.of))
    if version is None:
        raise ProvisionError(f"{name}: {alias.of!r} was not installed, so {alias.project!r} cannot have its version")
    if _canonical(alias.project) in versions:
        return
    if alias.local:
        version = f"{version.partition('+')[0]}+{alias.local}"
    stem = re.sub(r"[-.]+", "_", alias.project)
    folder = site(home) / f"{stem}-{version}.dist-info"
    folder.mkdir()
    texts = {
        "METADATA": f"Metadata-Version: 2.1\nName: {alias.project}\nVersion: {version}\n"
        f"Summary: Added by Afere; the files are those of {alias.of}.\n",
        "INSTALLER": "afere\n",
    }
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    record = "".join(f"{folder.name}/{file},,\n" for file in (*texts, "RECORD"))
    (folder / "RECORD").write_text(record, encoding="utf-8")


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
