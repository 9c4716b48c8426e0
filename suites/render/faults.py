"""Planted faults, one or more for every clause, and honest variants beside them. A table; planted.py works them."""

from __future__ import annotations

import html
import itertools
import json
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

from harness.records import Json
from harness.suite import Fault
from harness.targets.base import Target
from reference.contract import load
from reference.render import tokenise
from reference.render.fields import FIELDS
from reference.render.records import Setup
from reference.render.wire import Policy, Reply
from suites.render import local, snippets
from suites.render.features import is_json_type
from suites.render.planted import Hooks, Planted, Sent, canned, each, flipped, lenient, parameters

Body = dict[str, Any]


def _fault(name: str, clause: str, summary: str, **hooks: Any) -> Fault:
    return Fault(name, summary, lambda: Planted(name, Hooks(**hooks)), (clause,))


# ---- changes to the request before it is rendered


def _contents(change: Callable[[str], str]) -> Callable[[Body], Body]:
    """Change the text of every message, wherever it stands."""

    def before(body: Body) -> Body:
        for message in body.get("messages") or []:
            if not isinstance(message, dict):
                continue
            content = message.get("content")
            if isinstance(content, str):
                message["content"] = change(content)
            for part in content if isinstance(content, list) else []:
                if isinstance(part, dict) and isinstance(part.get("text"), str):
                    part["text"] = change(part["text"])
        return body

    return before


def _without(*names: str) -> Callable[[Body], Body]:
    return lambda body: {key: value for key, value in body.items() if key not in names}


def _sorted_tools(body: Body) -> Body:
    if isinstance(body.get("tools"), list):
        body["tools"] = json.loads(json.dumps(body["tools"], sort_keys=True))
        for tool in body["tools"]:
            function = tool.get("function") if isinstance(tool, dict) else None
            if isinstance(function, dict) and isinstance(function.get("description"), str):
                function["description"] = html.escape(function["description"])
    return body


def _sorted_arguments(body: Body) -> Body:
    for message in body.get("messages") or []:
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        for call in calls if isinstance(calls, list) else []:
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict) and isinstance(function.get("arguments"), str):
                try:
                    function["arguments"] = json.dumps(json.loads(function["arguments"]), sort_keys=True)
                except ValueError:
                    continue
    return body


def _reversed_messages(body: Body) -> Body:
    if isinstance(body.get("messages"), list):
        body["messages"] = body["messages"][::-1]
    return body


def _one_part_newline(body: Body) -> Body:
    for message in body.get("messages") or []:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
            text = content[0].get("text")
            if isinstance(text, str):
                content[0]["text"] = text + "\n"
    return body


def _unknown_fields_in_prompt(body: Body) -> Body:
    strange = [
        k for k in body if k not in FIELDS and k not in ("messages", "prompt", "tools", "tool_choice", "logprobs")
    ]
    return _contents(lambda text: text + " ".join(strange))(body) if strange else body


def _without_bos_of_tokeniser(body: Body) -> Body:
    return {**body, "add_special_tokens": False} if "prompt" in body else body


def _other_side(body: Body) -> Body:
    other = {"left": "right", "right": "left"}.get(str(body.get("truncation_side")))
    return {**body, "truncation_side": other} if other else body


def _cut_long_prompts(body: Body) -> Body:
    return body if "truncate_prompt_tokens" in body else {**body, "truncate_prompt_tokens": 500}


# ---- changes to the answer


def _bos_before_ids(sent: Sent, one: Body) -> Body:
    if isinstance(sent.body, dict) and isinstance(sent.body.get("prompt"), list):
        one["token_ids"] = [1, *one["token_ids"]]
    return one


def _bos_twice(sent: Sent, one: Body) -> Body:
    if isinstance(sent.body, dict) and sent.body.get("add_special_tokens") is not None and sent.route == "chat":
        one["token_ids"] = [1, *one["token_ids"]]
    return one


def _special_as_text(sent: Sent, one: Body) -> Body:
    """Encode the special tokens that stand in messages as ordinary text."""
    text = json.dumps(sent.body) if sent.body is not None else ""
    token = next((t for t in ("<|user|>", "<|end|>", "<|eos|>") if t in text), None)
    if token is None or sent.route is None:
        return one
    special = tokenise.tokenizer(sent.setup.folder).token_to_id(token)
    pieces = [sent_id for i in one["token_ids"] for sent_id in (_spelled(sent.setup, token) if i == special else [i])]
    one["token_ids"] = pieces
    return one


def _spelled(setup: Setup, text: str) -> list[int]:
    return [i for letter in text for i in tokenise.encode(setup, letter, special=False)]


def _letter_by_letter(setup: Setup, text: str) -> list[int]:
    """Another tokenisation of the same text: no merges between letters outside special tokens."""
    whole = list(tokenise.encode(setup, text, special=False))
    return [i for token in whole for i in ([token] if token < 8 else _apart(setup, token))]


def _apart(setup: Setup, token: int) -> list[int]:
    text = tokenise.decode(setup, (token,))
    return [token] if "\ufffd" in text else _spelled(setup, text)


def _not_continued(sent: Sent, one: Body) -> Body:
    if isinstance(sent.body, dict) and sent.body.get("continue_final_message"):
        one["token_ids"] = [*one["token_ids"], 7]
    return one


_COUNTER = itertools.count()


def _counted(_sent: Sent, one: Body) -> Body:
    one["token_ids"] = [*one["token_ids"], next(_COUNTER) % 900 + 50]
    return one


def _id_is(change: Callable[[Sent, str], str]) -> Any:
    return each(lambda sent, one: {**one, "request_id": change(sent, one["request_id"])})


def _ignores_header(sent: Sent, identity: str) -> str:
    return identity.replace(sent.headers.get("x-request-id", "\0"), "fresh")


def _ignores_body_id(sent: Sent, identity: str) -> str:
    given = sent.body.get("request_id") if isinstance(sent.body, dict) else None
    return identity.replace(given, "fresh") if isinstance(given, str) and given else identity


def _detail(_sent: Sent, made: Reply) -> Reply:
    return Reply(made.status, {"detail": "no"}) if made.status >= 400 else made


def _server_error(sent: Sent, made: Reply) -> Reply:
    found = sent.evaluation()
    return Reply(500, None) if found is not None and found.checked.refused else made


def _any_json(sent: Sent, made: Reply) -> Reply:
    return canned(sent) if sent.body is None and sent.route is not None else made


def _flip_text(test: Callable[[str], bool]) -> Any:
    """Decide otherwise about bodies whose text has a property that the parsed body no longer shows."""

    def after(sent: Sent, made: Reply) -> Reply:
        if sent.route is None or not test(sent.data.decode("utf-8", "replace")):
            return made
        refusal = Reply(400, {"error": {"message": "no", "type": "BadRequestError", "code": 400}})
        return refusal if made.status == 200 else canned(sent)

    return after


def _twice(text: str) -> bool:
    seen: list[bool] = []

    def pairs(items: list[tuple[str, Any]]) -> None:
        seen.append(len({key for key, _ in items}) < len(items))

    try:
        json.loads(text, object_pairs_hook=pairs)
    except ValueError:
        return False
    return any(seen)


def _refuse_if(test: Callable[[Body], bool]) -> Any:
    def after(sent: Sent, made: Reply) -> Reply:
        if isinstance(sent.body, dict) and made.status == 200 and test(sent.body):
            return Reply(400, {"error": {"message": "no", "type": "BadRequestError", "code": 400}})
        return made

    return after


def _picky(sent: Sent, made: Reply) -> Reply:
    if is_json_type(sent.headers) or sent.route is None:
        return made
    return Reply(415, {"error": {"message": "not JSON", "type": "BadRequestError", "code": 415}})


def _no_models(sent: Sent, made: Reply) -> Reply:
    return Reply(200, {"object": "list", "data": []}) if sent.path == "/v1/models" else made


def _no_health(sent: Sent, made: Reply) -> Reply:
    return Reply(404, {"error": {"message": "x", "type": "x", "code": 404}}) if sent.path == "/ping" else made


def _first_only(_sent: Sent, made: Reply) -> Reply:
    return Reply(200, made.body[:1]) if isinstance(made.body, list) else made


def _texts_for_ids(_sent: Sent, one: Body) -> Body:
    return {**one, "token_ids": [str(i) for i in one["token_ids"]]}


def _smaller_budget(sent: Sent, one: Body) -> Body:
    """Let the deprecated field go before the new one."""
    old = sent.body.get("max_tokens") if isinstance(sent.body, dict) else None
    if isinstance(old, int) and sent.body.get("max_completion_tokens") is not None:
        one["sampling_params"] = {**one["sampling_params"], "max_tokens": old}
    return one


# ---- templates


def _named(given: dict[str, Json], *starts: str) -> bool:
    names = [snippets.NAMES.get(source, "") for source in given["snippets"]]
    return any(name.startswith(starts) for name in names)


def _printed_as_json(given: dict[str, Json], text: str) -> str:
    if not _named(given, "print", "concat", "string", "boolean-words"):
        return text
    return text.replace("True", "true").replace("False", "false").replace("None", "null")


def _compact(given: dict[str, Json], text: str) -> str:
    return text.replace(": ", ":").replace(", ", ",") if _named(given, "tojson") else text


def _trimmed(given: dict[str, Json], text: str) -> str:
    return text.strip() + "." if _named(given, "trim-", "lstrip-", "trailing", "line-end") else text


def _no_bos(given: dict[str, Json], text: str) -> str:
    return text.replace("<|bos|>", "") if _named(given, "special-tokens") else text


TOKENS: tuple[Fault, ...] = (
    _fault("newline-at-the-end", "R-TEXT-1", "ends every prompt with a newline",
           after=each(lambda sent, one: {**one, "token_ids": [*one["token_ids"], *_spelled(sent.setup, "\n")]})),
    _fault("html-escapes", "R-TEXT-2", "escapes markup in messages", before=_contents(html.escape)),
    _fault("strips-messages", "R-TEXT-2", "strips blanks around messages", before=_contents(str.strip)),
    _fault("normalises-unicode", "R-UNI-1", "normalises text to NFKC",
           before=_contents(lambda text: unicodedata.normalize("NFKC", text))),
    _fault("drops-non-ascii", "R-UNI-1", "drops what is not ASCII",
           before=_contents(lambda text: text.encode("ascii", "ignore").decode() or "x")),
    _fault("special-as-text", "R-SPECIAL-1", "encodes special tokens in messages as text",
           after=each(_special_as_text)),
    _fault("no-merges", "R-TOKEN-1", "tokenises letter by letter", tokens=_letter_by_letter),
    _fault("sorts-tools", "R-TOOL-1", "sorts the keys of tools and escapes HTML in them", before=_sorted_tools),
    _fault("sorts-arguments", "R-CALL-1", "sorts the arguments of tool calls", before=_sorted_arguments),
    _fault("drops-kwargs", "R-KWARGS-1", "drops chat_template_kwargs", before=_without("chat_template_kwargs")),
    _fault("drops-documents", "R-DOC-1", "drops documents", before=_without("documents")),
    _fault("one-part-newline", "R-JOIN-2", "ends a single part with a newline", before=_one_part_newline),
    _fault("closes-the-last", "R-CONT-1", "closes a message that is to be continued", after=each(_not_continued)),
    _fault("always-opens", "R-GEN-1", "ignores add_generation_prompt", before=_without("add_generation_prompt")),
    _fault("bos-twice", "R-BOS-1", "adds BOS before a chat that has one", after=each(_bos_twice)),
    _fault("no-bos", "R-BOS-2", "adds no BOS to completions", before=_without_bos_of_tokeniser),
    _fault("bos-before-ids", "R-PROMPT-1", "puts BOS before a prompt of token ids", after=each(_bos_before_ids)),
    _fault("other-side", "R-TRUNC-1", "cuts the other side", before=_other_side),
    _fault("unknown-fields", "R-EXTRA-1", "lets unknown fields into the prompt", before=_unknown_fields_in_prompt),
    _fault("reverses", "R-MSG-3", "reverses the messages", before=_reversed_messages),
)  # fmt: skip

ANSWERS: tuple[Fault, ...] = (
    _fault("refuses-user", "R-ACCEPT-1", "refuses the field user",
           after=_refuse_if(lambda b: isinstance(b.get("user"), str))),
    _fault("refuses-null", "R-NULL-1", "refuses null everywhere", after=_refuse_if(lambda b: None in b.values())),
    _fault("ids-as-text", "R-ANSWER-1", "gives token ids as strings", after=each(_texts_for_ids)),
    _fault("detail-only", "R-ERR-1", "refuses without an error object", after=_detail),
    _fault("server-errors", "R-ERR-2", "answers bad requests with 500", after=_server_error),
    _fault("any-bytes", "R-JSON-1", "answers bodies that are no JSON", after=_any_json),
    _fault("double-names", "R-JSON-2", "refuses names that stand twice", after=_flip_text(_twice)),
    _fault("byte-order-mark", "R-JSON-3", "takes a byte order mark",
           after=_flip_text(lambda t: t.startswith("\ufeff"))),
    _fault("minus-zero", "R-JSON-5", "refuses -0", after=_flip_text(lambda t: ": -0}" in t)),
    _fault("no-models", "R-MODELS-1", "lists no model", after=_no_models),
    _fault("no-ping", "R-HEALTH-1", "knows no /ping", after=_no_health),
    _fault("bare-ids", "R-ID-1", "leaves the prefix of ids out", after=_id_is(lambda _s, i: i.partition("-")[2])),
    _fault("own-ids", "R-ID-2", "ignores X-Request-Id", after=_id_is(_ignores_header)),
    _fault("fresh-ids", "R-ID-3", "ignores request_id", after=_id_is(_ignores_body_id)),
    _fault("picky-types", "R-HTTP-1", "refuses a body that is not said to be JSON", after=_picky),
    _fault("counts", "R-DET-1", "gives another answer every time", after=each(_counted)),
    _fault("first-prompt-only", "R-PROMPT-7", "renders the first of several prompts", after=_first_only),
    _fault("cuts-long-prompts", "R-LEN-1", "cuts a long prompt instead of refusing it", before=_cut_long_prompts),
    _fault("drops-seed", "R-PARAM-1", "drops the seed",
           after=parameters(lambda p: {k: v for k, v in p.items() if k != "seed"})),
    _fault("halves-temperature", "R-PARAM-1", "halves the temperature",
           after=parameters(lambda p: {**p, "temperature": p.get("temperature", 1.0) / 2})),
    _fault("drops-priority", "R-FIELD-1", "drops the priority", after=each(lambda _s, one: {**one, "priority": 0})),
    _fault("old-budget-first", "R-MAX-5", "lets max_tokens go before max_completion_tokens",
           after=each(_smaller_budget)),
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
    _fault("no-namespace", "R-TMPL-1", "knows no namespace", refuses=lambda given: _named(given, "namespace")),
    _fault("leaks-scope", "R-TMPL-1", "lets a loop change an outer variable",
           text=lambda given, text: text.replace("[1]", "[2]") if _named(given, "loop-scope") else text),
    _fault("prints-json", "R-TMPL-2", "prints true and null", text=_printed_as_json),
    _fault("deaf-to-raise", "R-TMPL-3", "goes on where the template raises", lenient=True,
           text=lambda _given, text: text),
    _fault("renders-anything", "R-TMPL-4", "renders what Jinja2 refuses", lenient=True),
    _fault("compact-json", "R-TMPL-5", "writes JSON without blanks", text=_compact),
    _fault("trims", "R-TMPL-6", "trims blanks of its own", text=_trimmed),
    _fault("no-split", "R-TMPL-7", "knows no split", refuses=lambda given: _named(given, "method-split")),
    _fault("no-bos-token", "R-TMPL-8", "gives templates no bos_token", text=_no_bos),
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
