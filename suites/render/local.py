"""The renderers that run in this process: transformers' own tokeniser class, and the MiniJinja template engine.

They are no servers. They answer the operation ``template``: a template, messages and variables to text and token ids.
Each goes its own way to the text and knows nothing of the reference.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness.records import Json
from harness.suite import Session, TargetKind, TargetName
from harness.targets.base import InProcess, Refused, Target
from suites.render.ordered import unpack
from suites.render.setups import OPEN, setups

CAPABILITIES = ("template", f"setup:{OPEN}")
Render = Callable[[dict[str, Json]], dict[str, Json]]


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


def transformers_template(given: dict[str, Json]) -> dict[str, Json]:
    """Render with ``apply_chat_template`` of transformers' fast tokeniser."""
    tokenizer = _fast_tokenizer(setups()[OPEN].folder)
    seen = variables(given)
    try:
        text = tokenizer.apply_chat_template(
            seen.pop("messages"), chat_template="".join(given["snippets"]), tokenize=False, **seen
        )
    except Exception as error:
        raise Refused(f"{type(error).__name__}: {error}") from error
    return {"text": text, "token_ids": tokenizer(text, add_special_tokens=False)["input_ids"]}


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


def minijinja_template(given: dict[str, Json]) -> dict[str, Json]:
    """Render with MiniJinja and encode with the bare tokeniser."""
    folder = setups()[OPEN].folder
    tokens = {
        k: v for k, v in json.loads((folder / "tokenizer_config.json").read_text()).items() if k.endswith("_token")
    }
    seen = {**{k: v for k, v in tokens.items() if isinstance(v, str)}, **variables(given)}
    try:
        text = _environment().render_str("".join(given["snippets"]), **seen)
        ids = _bare_tokenizer(folder / "tokenizer.json").encode(text, add_special_tokens=False).ids
    except Exception as error:
        raise Refused(f"{type(error).__name__}: {error}") from error
    return {"text": text, "token_ids": ids}


def _target(name: str, render: Render, packages: tuple[str, ...]) -> Target:
    def answer(given: dict[str, Json], _arrays: object) -> dict[str, Json]:
        return render(unpack(given))

    reports: dict[str, Json] = {package: version(package) for package in packages}
    return InProcess(name, {"template": answer}, reports, CAPABILITIES)


def transformers_target() -> Target:
    """Make the target ``transformers``."""
    return _target("transformers", transformers_template, ("transformers", "tokenizers", "jinja2"))


def minijinja_target() -> Target:
    """Make the target ``minijinja``."""
    return _target("minijinja", minijinja_template, ("minijinja", "tokenizers"))


def _kind(name: str, summary: str, make: Callable[[], Target]) -> TargetKind:
    def build(_name: TargetName, _session: Session) -> Target:
        return make()

    return TargetKind(name, summary, build, embedded=True)


KINDS = (
    _kind("transformers", "transformers' fast tokeniser and its apply_chat_template", transformers_target),
    _kind("minijinja", "the MiniJinja engine, for chat templates", minijinja_target),
)
