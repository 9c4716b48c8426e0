"""Provisioning: ``name@version`` -> an isolated, ready environment or program, cached on this machine.

Suites declare recipes, and every command loads the suites; so the recipes are here at once, and what builds them (pip's
rules, locks, the sandbox) is imported when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from harness.provision.errors import ProvisionError
from harness.provision.recipes import Alias, EmulatedSite, EmulatedWheel, Recipe, Stubs, Sysroot, Venv, WheelMember

if TYPE_CHECKING:
    from harness.provision.build import provision
    from harness.provision.cache import Environment, find, installed, remove, root
    from harness.provision.proof import Check, check

__all__ = [
    "Alias",
    "Check",
    "EmulatedSite",
    "EmulatedWheel",
    "Environment",
    "ProvisionError",
    "Recipe",
    "Stubs",
    "Sysroot",
    "Venv",
    "WheelMember",
    "check",
    "find",
    "installed",
    "provision",
    "remove",
    "root",
]

_LATER = {
    **dict.fromkeys(("provision",), "build"),
    **dict.fromkeys(("Environment", "find", "installed", "remove", "root"), "cache"),
    **dict.fromkeys(("Check", "check"), "proof"),
}


def __getattr__(name: str) -> Any:
    """Import what is asked for; afterwards it is an ordinary attribute."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value
