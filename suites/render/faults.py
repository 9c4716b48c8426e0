"""Planted faults, one or more for every clause, and honest variants beside them. A table; planted.py works them."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterator
from typing import Any

from harness.suite import Fault
from harness.targets.base import Target
from reference.contract import load
from reference.render.fields import FIELDS
from reference.render.wire import Policy, Reply
from suites.render import local
from suites.render.mistakes import (
    any_json,
    bos_before_ids,
    bos_twice,
    compact,
    contents,
    counted,
    cut_long_prompts,
    detail,
    first_only,
    flip_text,
    id_is,
    ignores_body_id,
    ignores_header,
    letter_by_letter,
    named,
    no_bos,
    no_health,
    no_models,
    not_continued,
    one_part_newline,
    other_side,
    picky,
    printed_as_json,
    refuse_if,
    reversed_messages,
    server_error,
    smaller_budget,
    sorted_arguments,
    sorted_tools,
    special_as_text,
    spelled,
    texts_for_ids,
    trimmed,
    twice,
    unknown_fields_in_prompt,
    without,
    without_bos_of_tokeniser,
)
from suites.render.planted import Hooks, Planted, Sent, each, flipped, lenient, parameters

Body = dict[str, Any]


def _fault(name: str, clause: str, summary: str, **hooks: Any) -> Fault:
    return Fault(name, summary, lambda: Planted(name, Hooks(**hooks)), (clause,))


TOKENS: tuple[Fault, ...] = (
    _fault("newline-at-the-end", "R-TEXT-1", "ends every prompt with a newline",
           after=each(lambda sent, one: {**one, "token_ids": [*one["token_ids"], *spelled(sent.setup, "\n")]})),
    _fault("html-escapes", "R-TEXT-2", "escapes markup in messages", before=contents(html.escape)),
    _fault("strips-messages", "R-TEXT-2", "strips blanks around messages", before=contents(str.strip)),
    _fault("normalises-unicode", "R-UNI-1", "normalises text to NFKC",
           before=contents(lambda text: unicodedata.normalize("NFKC", text))),
    _fault("drops-non-ascii", "R-UNI-1", "drops what is not ASCII",
           before=contents(lambda text: text.encode("ascii", "ignore").decode() or "x")),
    _fault("special-as-text", "R-SPECIAL-1", "encodes special tokens in messages as text",
           after=each(special_as_text)),
    _fault("no-merges", "R-TOKEN-1", "tokenises letter by letter", tokens=letter_by_letter),
    _fault("sorts-tools", "R-TOOL-1", "sorts the keys of tools and escapes HTML in them", before=sorted_tools),
    _fault("sorts-arguments", "R-CALL-1", "sorts the arguments of tool calls", before=sorted_arguments),
    _fault("drops-kwargs", "R-KWARGS-1", "drops chat_template_kwargs", before=without("chat_template_kwargs")),
    _fault("drops-documents", "R-DOC-1", "drops documents", before=without("documents")),
    _fault("one-part-newline", "R-JOIN-2", "ends a single part with a newline", before=one_part_newline),
    _fault("closes-the-last", "R-CONT-1", "closes a message that is to be continued", after=each(not_continued)),
    _fault("always-opens", "R-GEN-1", "ignores add_generation_prompt", before=without("add_generation_prompt")),
    _fault("bos-twice", "R-BOS-1", "adds BOS before a chat that has one", after=each(bos_twice)),
    _fault("no-bos", "R-BOS-2", "adds no BOS to completions", before=without_bos_of_tokeniser),
    _fault("bos-before-ids", "R-PROMPT-1", "puts BOS before a prompt of token ids", after=each(bos_before_ids)),
    _fault("other-side", "R-TRUNC-1", "cuts the other side", before=other_side),
    _fault("unknown-fields", "R-EXTRA-1", "lets unknown fields into the prompt", before=unknown_fields_in_prompt),
    _fault("reverses", "R-MSG-3", "reverses the messages", before=reversed_messages),
)  # fmt: skip

ANSWERS: tuple[Fault, ...] = (
    _fault("refuses-user", "R-ACCEPT-1", "refuses the field user",
           after=refuse_if(lambda b: isinstance(b.get("user"), str))),
    _fault("refuses-null", "R-NULL-1", "refuses null everywhere", after=refuse_if(lambda b: None in b.values())),
    _fault("ids-as-text", "R-ANSWER-1", "gives token ids as strings", after=each(texts_for_ids)),
    _fault("detail-only", "R-ERR-1", "refuses without an error object", after=detail),
    _fault("server-errors", "R-ERR-2", "answers bad requests with 500", after=server_error),
    _fault("any-bytes", "R-JSON-1", "answers bodies that are no JSON", after=any_json),
    _fault("double-names", "R-JSON-2", "refuses names that stand twice", after=flip_text(twice)),
    _fault("byte-order-mark", "R-JSON-3", "takes a byte order mark",
           after=flip_text(lambda t: t.startswith("\ufeff"))),
    _fault("minus-zero", "R-JSON-5", "refuses -0", after=flip_text(lambda t: ": -0}" in t)),
    _fault("no-models", "R-MODELS-1", "lists no model", after=no_models),
    _fault("no-ping", "R-HEALTH-1", "knows no /ping", after=no_health),
    _fault("bare-ids", "R-ID-1", "leaves the prefix of ids out", after=id_is(lambda _s, i: i.partition("-")[2])),
    _fault("own-ids", "R-ID-2", "ignores X-Request-Id", after=id_is(ignores_header)),
    _fault("fresh-ids", "R-ID-3", "ignores request_id", after=id_is(ignores_body_id)),
    _fault("picky-types", "R-HTTP-1", "refuses a body that is not said to be JSON", after=picky),
    _fault("counts", "R-DET-1", "gives another answer every time", after=each(counted)),
    _fault("first-prompt-only", "R-PROMPT-7", "renders the first of several prompts", after=first_only),
    _fault("cuts-long-prompts", "R-LEN-1", "cuts a long prompt instead of refusing it", before=cut_long_prompts),
    _fault("drops-seed", "R-PARAM-1", "drops the seed",
           after=parameters(lambda p: {k: v for k, v in p.items() if k != "seed"})),
    _fault("halves-temperature", "R-PARAM-1", "halves the temperature",
           after=parameters(lambda p: {**p, "temperature": p.get("temperature", 1.0) / 2})),
    _fault("drops-priority", "R-FIELD-1", "drops the priority", after=each(lambda _s, one: {**one, "priority": 0})),
    _fault("old-budget-first", "R-MAX-5", "lets max_tokens go before max_completion_tokens",
           after=each(smaller_budget)),
)  # fmt: skip


LOWERED: tuple[Fault, ...] = tuple(
    _fault(f"lowers-{clause}", clause, f"takes another admissible form: {', '.join(fields)}",
           policy=Policy(values=dict.fromkeys(fields, 1)))
    for clause, fields in (
        ("R-PARAM-2", ("logit_bias", "stop_token_ids", "temperature", "top_p", "seed")),
        ("R-PARAM-3", ("temperature",)),
        ("R-FIELD-2", ("return_token_ids",)),
        ("R-MAX-3", ("max_tokens",)),
        ("R-MAX-4", ("max_tokens",)),
        ("R-MAX-7", ("max_tokens",)),
    )
)  # fmt: skip

TEMPLATES: tuple[Fault, ...] = (
    _fault("no-namespace", "R-TMPL-1", "knows no namespace", refuses=lambda given: named(given, "namespace")),
    _fault("leaks-scope", "R-TMPL-1", "lets a loop change an outer variable",
           text=lambda given, text: text.replace("[1]", "[2]") if named(given, "loop-scope") else text),
    _fault("prints-json", "R-TMPL-2", "prints true and null", text=printed_as_json),
    _fault("deaf-to-raise", "R-TMPL-3", "goes on where the template raises", lenient=True,
           text=lambda _given, text: text),
    _fault("renders-anything", "R-TMPL-4", "renders what Jinja2 refuses", lenient=True),
    _fault("compact-json", "R-TMPL-5", "writes JSON without blanks", text=compact),
    _fault("trims", "R-TMPL-6", "trims blanks of its own", text=trimmed),
    _fault("no-split", "R-TMPL-7", "knows no split", refuses=lambda given: named(given, "method-split")),
    _fault("no-bos-token", "R-TMPL-8", "gives templates no bos_token", text=no_bos),
)  # fmt: skip

PICKS: dict[str, tuple[str, str]] = {
    "R-JOIN-1": ("parts.join", "nothing"),
    "R-JOIN-3": ("parts.empty", "kept"),
    "R-CONTENT-4": ("content.null", "none"),
    "R-CONTENT-5": ("content.string", "string"),
    "R-CONTENT-6": ("tool.parts", "parts"),
    "R-ROLE-1": ("role.developer", "kept"),
    "R-NAME-1": ("message.name", "dropped"),
    "R-MSG-2": ("message.extra", "passed"),
    "R-REASON-1": ("message.reasoning", "dropped"),
    "R-CALL-2": ("call.arguments", "value"),
    "R-CALL-5": ("call.big-number", "rounded"),
    "R-TOOL-4": ("tool.missing", "absent"),
    "R-TOOL-7": ("tool.extra", "dropped"),
    "R-TOOL-8": ("tool.order", "given"),
    "R-KWARGS-3": ("kwargs.precedence", "kwargs"),
    "R-KWARGS-4": ("kwargs.special-token", "model"),
    "R-EFFORT-1": ("effort.thinking", "unset"),
    "R-CONTENT-7": ("assistant.parts", "joined"),
    "R-TRUNC-2": ("truncate.side", "right"),
}
"""Clauses of choices, and a choice other than the reference's."""


def _rest(done: set[str]) -> Iterator[Fault]:
    """The clauses on what is refused: a server that does not look, or decides the other way than its peer."""
    for clause in load("render").values():
        if clause.id in done:
            continue
        if clause.level == "AGREE":
            yield _fault(f"flips-{clause.id}", clause.id, f"decides otherwise: {clause.text}", after=flipped(clause.id))
        else:
            yield _fault(f"lenient-{clause.id}", clause.id, f"does not look: {clause.text}", after=lenient(clause.id))


_CHOSEN = tuple(
    _fault(f"picks-{clause}", clause, f"chooses otherwise than its peer: {name} {option}",
           policy=Policy(picks={name: option}))
    for clause, (name, option) in PICKS.items()
)  # fmt: skip


# ---- honest variants


def _honest(name: str, summary: str, **hooks: Any) -> Fault:
    """Make an honest variant. Its peer is the same, for what is open is a matter of agreement."""

    def build() -> Target:
        return Planted(name, Hooks(**hooks))

    return Fault(name, summary, build, partner=build)


def _rust_error(_sent: Sent, made: Reply) -> Reply:
    """The error object of Rust's renderer before 0.33: a string for a code."""
    if made.status < 400:
        return made
    error = {**made.body["error"], "type": "invalid_request_error", "code": "invalid_request_error"}
    return Reply(made.status, {"error": error})


def _filled(params: Body) -> Body:
    """Fill in every documented default, as Python's renderer does."""
    defaults = {f.lowered: f.default for f in FIELDS.values() if f.lowered and f.default is not None}
    return {**{k: list(v) if isinstance(v, tuple) else v for k, v in defaults.items()}, "output_kind": 2, **params}


def _sparse(_sent: Sent, one: Body) -> Body:
    """Leave out what is a default, as Rust's renderer does."""
    return {k: v for k, v in one.items() if v is not None and v is not False and v != 0 and k != "model"}


def _local() -> Target:
    return local.transformers_target()


HONEST: tuple[Fault, ...] = (
    _honest("reference", "the reference as it is"),
    _honest("other-choices", "chooses otherwise wherever there is a choice", policy=Policy(picks=dict(PICKS.values()))),
    _honest("other-forms", "lowers to the other admissible value",
            policy=Policy(values=dict.fromkeys(FIELDS, 1))),
    _honest("string-codes", "gives error codes as strings", after=_rust_error),
    _honest("fills-defaults", "writes every default out", after=parameters(_filled)),
    _honest("sparse", "leaves every default out", after=each(_sparse)),
    Fault("transformers-itself", "the template library, without a server", _local),
)  # fmt: skip

_TABLED = (*TOKENS, *ANSWERS, *LOWERED, *TEMPLATES, *_CHOSEN)
FAULTS: tuple[Fault, ...] = (*HONEST, *_TABLED, *_rest({c for fault in _TABLED for c in fault.breaks}))
