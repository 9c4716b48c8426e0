"""The one error of the provisioner."""

from __future__ import annotations


class ProvisionError(Exception):
    """An environment could not be made ready. The message names what was not found and what to do next."""
