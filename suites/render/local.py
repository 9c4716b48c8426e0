"""The renderers that run in this process: transformers' own tokeniser class, and the MiniJinja template engine.

They are no servers. They answer the operation ``template`` (a template, messages and variables to text and token ids)
and requests that are about nothing but text (see :mod:`suites.render.plain`), rendered with the template of the set-up.
Each goes its own way from messages to tokens and knows nothing of the reference.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from harness.records import Json
from harness.suite import Session, TargetKind, TargetName
from harness.targets.base import InProcess, Refused, Target, Tensor
from reference.render.records import Setup
from suites.render import plain
from suites.render.ordered import unpack
from suites.render.setups import LEDGER, OPEN, setups

SETUPS = (f"setup:{LEDGER}", f"setup:{OPEN}")


def variables(given: dict[str, Json]) -> dict[str, Any]:
    """Everything that the template of a case sees, but for the special tokens."""
    return {
        "messages": [{"role": m["role"], "content": m["content"]} for m in given["messages"]],
        "tools": given.get("tools"),
        "documents": given.get("documents"),
        "add_generation_prompt": given.get("add_generation_prompt", True),
        **given["variables"],
    }


@cache
def _fast_tokenizer(folder: Path) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast.from_pretrained(str(folder), local_files_only=True)


class Library(msgspec.Struct, frozen=True):
    """One way from messages to token ids. Both functions raise whatever the library does."""

    name: str
    packages: tuple[str, ...]
    capabilities: tuple[str, ...]
    text: Callable[[Setup, str, dict[str, Any]], str]  # set-up, template, everything that it sees
    ids: Callable[[Setup, str, bool], list[int]]  # set-up, text, whether the tokeniser may add its special tokens


def _transformers_text(setup: Setup, template: str, seen: dict[str, Any]) -> str:
    seen = dict(seen)
    applied = _fast_tokenizer(setup.folder).apply_chat_template(
        seen.pop("messages"), chat_template=template, tokenize=False, **seen
    )
    return str(applied)


def _transformers_ids(setup: Setup, text: str, special: bool) -> list[int]:  # noqa: FBT001 - one of two ways
    return list(_fast_tokenizer(setup.folder)(text, add_special_tokens=special)["input_ids"])


def _tojson(value: Any, **options: Any) -> str:
    return json.dumps(
        value,
        ensure_ascii=options.get("ensure_ascii", False),
        indent=options.get("indent"),
        separators=options.get("separators"),
        sort_keys=options.get("sort_keys", False),
    )


def _raise(message: str) -> None:
    raise ValueError(message)


@cache
def _environment() -> Any:
    """MiniJinja as a server would set it up for chat templates: Python's methods, trimmed blocks, the usual helpers."""
    from minijinja import Environment

    environment = Environment(pycompat=True)
    environment.trim_blocks = True
    environment.lstrip_blocks = True
    environment.add_filter("tojson", _tojson)
    environment.add_global("raise_exception", _raise)
    environment.add_global("strftime_now", lambda form: datetime.now().strftime(form))  # noqa: DTZ005 - local time
    return environment


@cache
def _bare_tokenizer(file: Path) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(file))


@cache
def _special_tokens(folder: Path) -> dict[str, str]:
    listed = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    return {key: token for key, token in listed.items() if key.endswith("_token") and isinstance(token, str)}


def _minijinja_text(setup: Setup, template: str, seen: dict[str, Any]) -> str:
    return str(_environment().render_str(template, **{**_special_tokens(setup.folder), **seen}))


def _minijinja_ids(setup: Setup, text: str, special: bool) -> list[int]:  # noqa: FBT001 - one of two ways
    return list(_bare_tokenizer(setup.folder / "tokenizer.json").encode(text, add_special_tokens=special).ids)


TRANSFORMERS = Library(
    "transformers", ("transformers", "tokenizers", "jinja2"), plain.CAPABILITIES, _transformers_text, _transformers_ids
)
MINIJINJA = Library(  # an engine knows nothing of messages, so it has no way to leave the last one open
    "minijinja", ("minijinja", "tokenizers"), (plain.MESSAGES, plain.TEXT), _minijinja_text, _minijinja_ids
)


def _template(library: Library, given: dict[str, Json]) -> dict[str, Json]:
    setup = setups()[OPEN]
    text = library.text(setup, "".join(given["snippets"]), variables(given))
    return {"text": text, "token_ids": library.ids(setup, text, False)}


def _chat(library: Library, given: dict[str, Json]) -> dict[str, Json]:
    setup, body = setups()[given["setup"]], given["body"]
    seen = plain.handed(setup, body)
    seen |= seen.pop("variables")
    if not seen.pop("continue_final_message"):
        text = library.text(setup, setup.template, seen)
    else:
        text = library.text(setup, setup.template, {**seen, "continue_final_message": True})
    return {"rendered": [{"text": text, "token_ids": library.ids(setup, text, bool(body.get("add_special_tokens")))}]}


def _completions(library: Library, given: dict[str, Json]) -> dict[str, Json]:
    setup, body = setups()[given["setup"]], given["body"]
    special = body.get("add_special_tokens", True)
    return {"rendered": [{"text": body["prompt"], "token_ids": library.ids(setup, body["prompt"], bool(special))}]}


OPERATIONS = {"template": _template, "chat": _chat, "completions": _completions}


def _target(library: Library) -> Target:
    def operation(name: str) -> Callable[[dict[str, Json], Mapping[str, Tensor]], Json]:
        def answer(given: dict[str, Json], _arrays: Mapping[str, Tensor]) -> Json:
            try:
                return OPERATIONS[name](library, unpack(given))
            except Exception as error:  # a template that cannot be rendered is refused, whatever the library raises
                raise Refused(f"{type(error).__name__}: {error}", {"rendered": []}) from error

        return answer

    reports: dict[str, Json] = {package: version(package) for package in library.packages}
    capabilities = ("template", *library.capabilities, *SETUPS)
    return InProcess(library.name, {name: operation(name) for name in OPERATIONS}, reports, capabilities)


def transformers_target() -> Target:
    """Make the target ``transformers``."""
    return _target(TRANSFORMERS)


def minijinja_target() -> Target:
    """Make the target ``minijinja``."""
    return _target(MINIJINJA)


def _kind(name: str, summary: str, make: Callable[[], Target]) -> TargetKind:
    def build(_name: TargetName, _session: Session) -> Target:
        return make()

    return TargetKind(name, summary, build, embedded=True)


KINDS = (
    _kind("transformers", "transformers' fast tokeniser and its apply_chat_template", transformers_target),
    _kind("minijinja", "the MiniJinja engine, for chat templates", minijinja_target),
)
