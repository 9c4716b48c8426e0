"""Stage 4, tokenise: text to token ids with the ``tokenizers`` library, which defines the file format."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from reference.render.records import Json, RenderError, Setup


@cache
def tokenizer(folder: Path) -> Any:
    """Load ``tokenizer.json`` of a model folder, once per process.

    Raises :class:`reference.render.records.RenderError` if it cannot be read.
    """
    from tokenizers import Tokenizer

    file = folder / "tokenizer.json"
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:
        raise RenderError(f"cannot read {file}: {error}") from error


def encode(setup: Setup, text: str, *, special: bool) -> tuple[int, ...]:
    """Token ids of ``text``. ``special``: let the post-processor add its tokens (BOS).

    Special tokens that are written in the text are taken as such, which is how the library works without
    ``encode_special_tokens``.

    Raises UnicodeEncodeError for a lone surrogate, which no UTF-8 text can hold.
    """
    text.encode()
    return tuple(tokenizer(setup.folder).encode(text, add_special_tokens=special).ids)


def decode(setup: Setup, ids: tuple[int, ...]) -> str:
    """Text of token ids, special tokens included. Ids that the tokeniser does not know give nothing."""
    known = [i for i in ids if 0 <= i < setup.vocabulary]
    return str(tokenizer(setup.folder).decode(known, skip_special_tokens=False))


def truncate(
    setup: Setup, text: str | None, ids: tuple[int, ...], body: dict[str, Json], option: str
) -> tuple[int, ...]:
    """Apply ``truncate_prompt_tokens``: -1 is the model's whole context, else so many tokens.

    ``option`` is ``left`` (keep the last), ``right`` (keep the first) or one of the two that count the tokens of the
    post-processor in but do not cut them off.
    """
    most = body.get("truncate_prompt_tokens")
    if most is None:
        return ids
    most = int(most)
    keep = setup.max_model_len if most == -1 else most
    if keep >= len(ids):
        return ids
    if option.endswith("special") and text is not None:
        bare = encode(setup, text, special=False)
        front = ids[: len(ids) - len(bare)]
        room = max(keep - len(front), 0)
        return front + (bare[len(bare) - room :] if option.startswith("left") else bare[:room])
    return ids[len(ids) - keep :] if option.startswith("left") else ids[:keep]
