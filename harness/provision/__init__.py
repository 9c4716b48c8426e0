"""Provisioning: ``name@version`` -> an isolated, ready environment or program, cached on this machine."""

from __future__ import annotations

from harness.provision.build import provision
from harness.provision.cache import Environment, find, installed, remove, root
from harness.provision.check import Check, check
from harness.provision.errors import ProvisionError
from harness.provision.recipes import Alias, EmulatedSite, EmulatedWheel, Recipe, Stubs, Sysroot, Venv, WheelMember

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
