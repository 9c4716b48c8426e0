"""Single mistakes that a renderer can make: changes to a request, to an answer, to the text of a template."""

from __future__ import annotations

import html
import itertools
import json
from collections.abc import Callable
from typing import Any

from harness.records import Json
from reference.render import tokenise
from reference.render.fields import FIELDS
from reference.render.records import Setup
from reference.render.wire import Reply
from suites.render import snippets
from suites.render.features import is_json_type
from suites.render.planted import Sent, canned, each

Body = dict[str, Any]


# ---- changes to the request before it is rendered


def contents(change: Callable[[str], str]) -> Callable[[Body], Body]:
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


def without(*names: str) -> Callable[[Body], Body]:
    """Drop fields."""
    return lambda body: {key: value for key, value in body.items() if key not in names}


def sorted_tools(body: Body) -> Body:
    """Sort the keys of tools and escape HTML in their descriptions."""
    if isinstance(body.get("tools"), list):
        body["tools"] = json.loads(json.dumps(body["tools"], sort_keys=True))
        for tool in body["tools"]:
            function = tool.get("function") if isinstance(tool, dict) else None
            if isinstance(function, dict) and isinstance(function.get("description"), str):
                function["description"] = html.escape(function["description"])
    return body


def sorted_arguments(body: Body) -> Body:
    """Sort the keys of tool-call arguments."""
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


def reversed_messages(body: Body) -> Body:
    """Reverse the messages."""
    if isinstance(body.get("messages"), list):
        body["messages"] = body["messages"][::-1]
    return body


def one_part_newline(body: Body) -> Body:
    """End a single text part with a newline."""
    for message in body.get("messages") or []:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
            text = content[0].get("text")
            if isinstance(text, str):
                content[0]["text"] = text + "\n"
    return body


def unknown_fields_in_prompt(body: Body) -> Body:
    """Let the names of unknown fields into the messages."""
    strange = [
        k for k in body if k not in FIELDS and k not in ("messages", "prompt", "tools", "tool_choice", "logprobs")
    ]
    return contents(lambda text: text + " ".join(strange))(body) if strange else body


def without_bos_of_tokeniser(body: Body) -> Body:
    """Ask for no special tokens in a completion."""
    return {**body, "add_special_tokens": False} if "prompt" in body else body


def other_side(body: Body) -> Body:
    """Swap the sides of truncation."""
    other = {"left": "right", "right": "left"}.get(str(body.get("truncation_side")))
    return {**body, "truncation_side": other} if other else body


def cut_long_prompts(body: Body) -> Body:
    """Cut a long prompt instead of refusing it."""
    return body if "truncate_prompt_tokens" in body else {**body, "truncate_prompt_tokens": 500}


# ---- changes to the answer


def bos_before_ids(sent: Sent, one: Body) -> Body:
    """Put BOS before a prompt of token ids."""
    if isinstance(sent.body, dict) and isinstance(sent.body.get("prompt"), list):
        one["token_ids"] = [1, *one["token_ids"]]
    return one


def bos_twice(sent: Sent, one: Body) -> Body:
    """Put BOS before a chat that says anything on special tokens."""
    if isinstance(sent.body, dict) and sent.body.get("add_special_tokens") is not None and sent.route == "chat":
        one["token_ids"] = [1, *one["token_ids"]]
    return one


def special_as_text(sent: Sent, one: Body) -> Body:
    """Encode the special tokens that stand in messages as ordinary text."""
    text = json.dumps(sent.body) if sent.body is not None else ""
    token = next((t for t in ("<|user|>", "<|end|>", "<|eos|>") if t in text), None)
    if token is None or sent.route is None:
        return one
    special = tokenise.tokenizer(sent.setup.folder).token_to_id(token)
    pieces = [sent_id for i in one["token_ids"] for sent_id in (spelled(sent.setup, token) if i == special else [i])]
    one["token_ids"] = pieces
    return one


def spelled(setup: Setup, text: str) -> list[int]:
    """Give the token ids of a text, letter by letter."""
    return [i for letter in text for i in tokenise.encode(setup, letter, special=False)]


def letter_by_letter(setup: Setup, text: str) -> list[int]:
    """Another tokenisation of the same text: no merges between letters outside special tokens."""
    whole = list(tokenise.encode(setup, text, special=False))
    return [i for token in whole for i in ([token] if token < 8 else apart(setup, token))]


def apart(setup: Setup, token: int) -> list[int]:
    """Split a token into its letters, where it has whole ones."""
    text = tokenise.decode(setup, (token,))
    return [token] if "\ufffd" in text else spelled(setup, text)


def not_continued(sent: Sent, one: Body) -> Body:
    """Close a message that is to be continued."""
    if isinstance(sent.body, dict) and sent.body.get("continue_final_message"):
        one["token_ids"] = [*one["token_ids"], 7]
    return one


COUNTER = itertools.count()


def counted(_sent: Sent, one: Body) -> Body:
    """End every answer with another token."""
    one["token_ids"] = [*one["token_ids"], next(COUNTER) % 900 + 50]
    return one


def id_is(change: Callable[[Sent, str], str]) -> Any:
    """Change the id of every engine request."""
    return each(lambda sent, one: {**one, "request_id": change(sent, one["request_id"])})


def ignores_header(sent: Sent, identity: str) -> str:
    """Take an id of its own in place of the header's."""
    return identity.replace(sent.headers.get("x-request-id", "\0"), "fresh")


def ignores_body_id(sent: Sent, identity: str) -> str:
    """Take an id of its own in place of the request's."""
    given = sent.body.get("request_id") if isinstance(sent.body, dict) else None
    return identity.replace(given, "fresh") if isinstance(given, str) and given else identity


def detail(_sent: Sent, made: Reply) -> Reply:
    """Refuse without an error object."""
    return Reply(made.status, {"detail": "no"}) if made.status >= 400 else made


def server_error(sent: Sent, made: Reply) -> Reply:
    """Answer what must be refused with 500."""
    found = sent.evaluation()
    return Reply(500, None) if found is not None and found.checked.refused else made


def any_json(sent: Sent, made: Reply) -> Reply:
    """Answer bodies that are no JSON."""
    return canned(sent) if sent.body is None and sent.route is not None else made


def flip_text(test: Callable[[str], bool]) -> Any:
    """Decide otherwise about bodies whose text has a property that the parsed body no longer shows."""

    def after(sent: Sent, made: Reply) -> Reply:
        if sent.route is None or not test(sent.data.decode("utf-8", "replace")):
            return made
        refusal = Reply(400, {"error": {"message": "no", "type": "BadRequestError", "code": 400}})
        return refusal if made.status == 200 else canned(sent)

    return after


def twice(text: str) -> bool:
    """Tell whether an object in a JSON text has a name twice."""
    seen: list[bool] = []

    def pairs(items: list[tuple[str, Any]]) -> None:
        seen.append(len({key for key, _ in items}) < len(items))

    try:
        json.loads(text, object_pairs_hook=pairs)
    except ValueError:
        return False
    return any(seen)


def refuse_if(test: Callable[[Body], bool]) -> Any:
    """Refuse what passes a test and is right."""

    def after(sent: Sent, made: Reply) -> Reply:
        if isinstance(sent.body, dict) and made.status == 200 and test(sent.body):
            return Reply(400, {"error": {"message": "no", "type": "BadRequestError", "code": 400}})
        return made

    return after


def picky(sent: Sent, made: Reply) -> Reply:
    """Refuse a body that is not said to be JSON."""
    if is_json_type(sent.headers) or sent.route is None:
        return made
    return Reply(415, {"error": {"message": "not JSON", "type": "BadRequestError", "code": 415}})


def no_models(sent: Sent, made: Reply) -> Reply:
    """List no model."""
    return Reply(200, {"object": "list", "data": []}) if sent.path == "/v1/models" else made


def no_health(sent: Sent, made: Reply) -> Reply:
    """Know no /ping."""
    return Reply(404, {"error": {"message": "x", "type": "x", "code": 404}}) if sent.path == "/ping" else made


def first_only(_sent: Sent, made: Reply) -> Reply:
    """Render only the first of several prompts."""
    return Reply(200, made.body[:1]) if isinstance(made.body, list) else made


def texts_for_ids(_sent: Sent, one: Body) -> Body:
    """Give token ids as strings."""
    return {**one, "token_ids": [str(i) for i in one["token_ids"]]}


def smaller_budget(sent: Sent, one: Body) -> Body:
    """Let the deprecated field go before the new one."""
    old = sent.body.get("max_tokens") if isinstance(sent.body, dict) else None
    if isinstance(old, int) and sent.body.get("max_completion_tokens") is not None:
        one["sampling_params"] = {**one["sampling_params"], "max_tokens": old}
    return one


# ---- templates


def named(given: dict[str, Json], *starts: str) -> bool:
    """Tell whether a template has a snippet whose name begins like that."""
    names = [snippets.NAMES.get(source, "") for source in given["snippets"]]
    return any(name.startswith(starts) for name in names)


def printed_as_json(given: dict[str, Json], text: str) -> str:
    """Print true and null as JSON has them."""
    if not named(given, "print", "concat", "string", "boolean-words"):
        return text
    return text.replace("True", "true").replace("False", "false").replace("None", "null")


def compact(given: dict[str, Json], text: str) -> str:
    """Write JSON without blanks."""
    return text.replace(": ", ":").replace(", ", ",") if named(given, "tojson") else text


def trimmed(given: dict[str, Json], text: str) -> str:
    """Trim blanks that the template kept."""
    return text.strip() + "." if named(given, "trim-", "lstrip-", "trailing", "line-end") else text


def no_bos(given: dict[str, Json], text: str) -> str:
    """Know no bos_token."""
    return text.replace("<|bos|>", "") if named(given, "special-tokens") else text
