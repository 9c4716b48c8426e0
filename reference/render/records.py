"""The records that the stages of the reference renderer hand on: validate, normalise, template, tokenise, lower."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

Json = Any
Route = Literal["chat", "completions"]
Format = Literal["string", "openai"]


class Setup(msgspec.Struct, frozen=True):
    """One server: a model folder with a chat template and the limits that it was started with."""

    name: str
    folder: Path  # tokenizer.json, tokenizer_config.json, config.json, perhaps generation_config.json
    template: str  # Jinja source
    content_format: Format  # how the template wants the content of a message: one string, or a list of parts
    served: str = "gauge"
    max_model_len: int = 512  # tokens, prompt and answer together
    trust_template: bool = False  # may a request bring its own template
    vocabulary: int = 1000  # token ids that the tokeniser knows are below this
    embedding: int = 1024  # rows of the embedding: ids that the model can take are below this
    bos: bool = False  # the tokeniser's post-processor puts BOS in front
    defaults: dict[str, float] = {}  # sampling defaults of generation_config.json


class Question(msgspec.Struct, frozen=True):
    """Something in a request that bears on whether it is answered.

    ``must`` is True where a source says that it must be refused; otherwise no source fixes it and implementations
    only have to agree. ``field`` and ``tag`` name it: the field of the engine's schema (indexes erased) and the class
    of the value, never the value.
    """

    clause: str
    field: str
    tag: str
    must: bool = False


class Checked(msgspec.Struct, frozen=True):
    """Stage 1, validate: the questions that a request raises. None of them: it has to be answered."""

    route: Route
    body: dict[str, Json]
    questions: tuple[Question, ...]
    taken: dict[str, Json] = {}  # field -> value as its type, after lenient conversion; null and absent are missing

    @property
    def effective(self) -> dict[str, Json]:
        """The body as a lenient reader takes it: null fields gone, values converted."""
        return {**{k: v for k, v in self.body.items() if v is not None}, **self.taken}

    @property
    def refused(self) -> tuple[Question, ...]:
        """The questions for which the request must be refused."""
        return tuple(q for q in self.questions if q.must)

    @property
    def open(self) -> tuple[Question, ...]:
        """The questions that no source answers."""
        return tuple(q for q in self.questions if not q.must)


class Choice(msgspec.Struct, frozen=True):
    """A point at which no source fixes what a renderer does. ``options`` are all admissible; the first is ours."""

    name: str
    clause: str
    options: tuple[str, ...]


class Normalised(msgspec.Struct, frozen=True):
    """Stage 2, normalise: the messages and variables as the template gets them, under one combination of choices."""

    messages: list[dict[str, Json]]
    tools: list[dict[str, Json]] | None
    documents: list[dict[str, Json]] | None
    variables: dict[str, Json]
    add_generation_prompt: bool
    continue_final_message: bool


class Rendering(msgspec.Struct, frozen=True):
    """Stages 2 to 4 under one combination of choices. ``text`` is None for a prompt given as token ids."""

    choices: dict[str, str]
    text: str | None
    token_ids: tuple[int, ...]


class Refusal(msgspec.Struct, frozen=True):
    """A stage that refuses under one combination of choices: the template raised, the prompt is too long."""

    clause: str
    message: str
    choices: dict[str, str] = {}


class Param(msgspec.Struct, frozen=True):
    """Stage 5, lower: one field of the engine request. ``values`` are the admissible ones, ours first.

    ``clause`` is what a value outside them breaks, ``agree`` the clause under which targets have to choose alike.
    None stands for an absent or null field.
    """

    name: str
    values: tuple[Json, ...]
    clause: str
    agree: str
    given: bool = False


class Evaluation(msgspec.Struct, frozen=True):
    """All that the reference has to say about one request; each stage's result is kept.

    ``results`` holds for each prompt what comes out under each combination of choices. It is empty where the request
    must be refused, or where the reference does not render it (``unrendered`` says why).
    """

    checked: Checked
    choices: tuple[Choice, ...] = ()
    results: tuple[tuple[Rendering | Refusal, ...], ...] = ()
    unrendered: str = ""


class RenderError(Exception):
    """The reference cannot render: a broken template or a missing file of the set-up. Names the file and the cause."""
