"""Stage 3, template: messages to text, in the chat-template environment of transformers.

Source: transformers documentation, "Chat templates" (Jinja2 in a sandbox, ``trim_blocks`` and ``lstrip_blocks``, loop
controls, ``tojson`` without HTML or ASCII escapes, ``raise_exception``, ``strftime_now``). The library itself is the
oracle here. It is imported at the first rendering; a compiled template is kept.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from reference.render.records import Normalised, RenderError, Setup


class TemplateRefused(Exception):  # noqa: N818 - an outcome
    """The template cannot be rendered with this input: it raised, or what it did is an error in Jinja2."""


@cache
def _library() -> Any:
    from transformers.utils import chat_template_utils

    return chat_template_utils


@cache
def special_tokens(folder: Path) -> dict[str, str]:
    """The special tokens of a model folder, by name (``bos_token`` ...).

    Raises :class:`reference.render.records.RenderError` if its ``tokenizer_config.json`` cannot be read.
    """
    file = folder / "tokenizer_config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RenderError(f"cannot read {file}: {error}") from error
    found: dict[str, str] = {}
    for key in ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"):
        token = config.get(key)
        if isinstance(token, dict):
            token = token.get("content")
        if isinstance(token, str):
            found[key] = token
    return found


def apply(setup: Setup, given: Normalised, source: str | None = None) -> str:
    """Render messages to text with the template of the set-up, or with ``source``.

    Raises :class:`TemplateRefused` where Jinja2 or the template does.
    """
    variables = {**special_tokens(setup.folder), **given.variables}
    try:
        rendered, _ = _library().render_jinja_template(
            conversations=[given.messages],
            tools=given.tools,
            documents=given.documents,
            chat_template=setup.template if source is None else source,
            add_generation_prompt=given.add_generation_prompt,
            continue_final_message=given.continue_final_message,
            **variables,
        )
    except Exception as error:
        raise TemplateRefused(f"{type(error).__name__}: {error}") from error
    return str(rendered[0])
