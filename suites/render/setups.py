"""The servers that cases are put to: two, so that a slow target starts twice and no more."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

import msgspec

from reference.render.records import Setup

SERVED = "gauge"
MAX_MODEL_LEN = 512

LEDGER, OPEN = "ledger", "open"


def fixtures() -> Path:
    """The folder of fixtures, in a checkout or in an installed wheel."""
    return Path(str(resources.files("fixtures") / "models")).parent


@cache
def setups() -> dict[str, Setup]:
    """The set-ups by name.

    ``ledger`` prints every field of a message, wants text content, adds no BOS of its own and trusts no template of a
    request. ``open`` wants content as parts, its tokeniser adds BOS, its folder has sampling defaults, and it renders
    the templates that requests bring.
    """
    root = fixtures()

    def template(name: str) -> str:
        return (root / "templates" / f"{name}.jinja").read_text(encoding="utf-8")

    return {
        LEDGER: Setup(LEDGER, root / "models" / "gauge", template("ledger"), "string"),
        OPEN: Setup(
            OPEN, root / "models" / "gauge-bos", template("parts"), "openai", trust_template=True, bos=True,
            defaults={"temperature": 0.6},
        ),
    }  # fmt: skip


@cache
def plain_format(name: str) -> Setup:
    """Return a set-up as it is for a template, brought by a request, that takes content as text."""
    return msgspec.structs.replace(setups()[name], content_format="string")


def template_file(name: str) -> Path:
    """The template file of a set-up."""
    return fixtures() / "templates" / ("ledger.jinja" if name == LEDGER else "parts.jinja")
