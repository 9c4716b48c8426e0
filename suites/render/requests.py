"""The HTTP request of a case, and the ``curl`` line that sends it without Afere."""

from __future__ import annotations

import json
import shlex
from typing import Any

from harness.records import Case, Json
from harness.targets.wire import Request
from reference.render.template import special_tokens
from suites.render import plain
from suites.render.ordered import unpack
from suites.render.setups import OPEN, SERVED, setups, template_file

PATHS = {"chat": "/v1/chat/completions/render", "completions": "/v1/completions/render"}
JSON_TYPE = {"content-type": "application/json"}


def template_body(given: dict[str, Json]) -> dict[str, Json]:
    """The chat request that puts a template case to a server which trusts the templates of requests."""
    body: dict[str, Any] = {
        "model": SERVED,
        "messages": [{"role": m["role"], "content": m["content"]} for m in given["messages"]],
        "chat_template": "".join(given["snippets"]),
        "add_generation_prompt": given.get("add_generation_prompt", True),
    }
    if given["variables"]:
        body["chat_template_kwargs"] = given["variables"]
    if given.get("tools"):
        body |= {"tools": given["tools"], "tool_choice": "none"}
    if given.get("documents"):
        body["documents"] = given["documents"]
    return body


def setup_of(case: Case) -> str:
    """The set-up that a case goes to."""
    return OPEN if case.op == "template" else str(case.input["setup"])


def request_of(case: Case) -> Request:
    """Make the request of a case (of ``repeat``: the one that is sent twice)."""
    given = case.input
    if case.op == "models":
        return Request("GET", "/v1/models")
    if case.op == "health":
        return Request(given["method"], given["path"])
    headers = {**JSON_TYPE, **(given.get("headers") or {})}
    if case.op == "text":
        body = bytes.fromhex(given["hex"]) if "hex" in given else given["text"].encode("utf-8", "surrogatepass")
        return Request("POST", PATHS["chat"], headers, body)
    route = given["route"] if case.op == "repeat" else "chat" if case.op == "template" else case.op
    sent = template_body(unpack(given)) if case.op == "template" else unpack(given["body"])
    return Request("POST", PATHS[route], headers, json.dumps(sent).encode())


_LIMITS = "--served-model-name gauge --max-model-len 512 --chat-template {template}{trust}"
START = {
    "vllm-rs": "vllm-rs render {model} " + _LIMITS,
    "vllm-render": "vllm launch render {model} " + _LIMITS,
}


def script(case: Case, target: str) -> str:
    """A shell script: how to start such a server (as a comment) and the ``curl`` line.

    The fixtures come with Afere; ``$AFERE`` stands for the folder that holds ``fixtures``.
    """
    request = request_of(case)
    setup = setup_of(case)
    kind = target.partition("@")[0]
    if kind not in START and kind != "url":
        return _python(case, kind)
    folder = "gauge-bos" if setup == OPEN else "gauge"
    trust = " --trust-request-chat-template" if setup == OPEN else ""
    start = START.get(kind, "the server").format(
        model=f"$AFERE/fixtures/models/{folder}",
        template=f"$AFERE/fixtures/templates/{template_file(setup).name}",
        trust=trust + (" true" if trust and kind == "vllm-rs" else ""),
    )
    lines = [f"# {start} --port 8000"]
    parts = ["curl", "-sS", "-X", request.method, f"http://127.0.0.1:8000{request.path}"]
    for name, value in request.headers.items():
        parts += ["-H", f"{name}: {value}"]
    command = " ".join(shlex.quote(part) for part in parts)
    if request.body is not None:
        try:
            command += " --data-binary " + shlex.quote(request.body.decode("utf-8"))
        except UnicodeDecodeError:
            octal = "".join(f"\\{byte:03o}" for byte in request.body)
            command = f"printf {shlex.quote(octal)} | {command} --data-binary @-"
    times = 2 if case.op == "repeat" else 1
    return "\n".join([*lines, *[command] * times]) + "\n"


def _python(case: Case, kind: str) -> str:
    """A Python script for a case on an embedded renderer: it prints the text that is made of the messages."""
    given = unpack(case.input)
    if case.op == "completions":
        setup = setups()[setup_of(case)]
        special = given["body"].get("add_special_tokens", True)
        return "\n".join([
            "import os, tokenizers",
            f"file = os.path.expandvars('$AFERE/fixtures/models/{setup.folder.name}/tokenizer.json')",
            "tokenizer = tokenizers.Tokenizer.from_file(file)",
            f"print(tokenizer.encode({given['body'].get('prompt')!r}, add_special_tokens={special!r}).ids)",
        ]) + "\n"  # fmt: skip
    if case.op == "chat":
        seen = plain.handed(setups()[setup_of(case)], given["body"])
        seen |= seen.pop("variables")
        if not seen["continue_final_message"]:
            del seen["continue_final_message"]
        template = f"open(os.path.expandvars('$AFERE/fixtures/templates/{template_file(setup_of(case)).name}')).read()"
    else:
        seen = {
            "messages": given.get("messages"), "tools": given.get("tools"), "documents": given.get("documents"),
            "add_generation_prompt": given.get("add_generation_prompt", True), **given.get("variables", {}),
        }  # fmt: skip
        template = repr("".join(given.get("snippets", ())))
    if kind == "minijinja":  # the other one gets them from its tokeniser
        seen = {**special_tokens(setups()[setup_of(case)].folder), **seen}
    head = ["import os", f"template = {template}", f"given = {seen!r}"]
    return "\n".join([*head, *(_MINIJINJA if kind == "minijinja" else _TRANSFORMERS)]) + "\n"


_MINIJINJA = (
    "import json, minijinja",
    "environment = minijinja.Environment(pycompat=True)",
    "environment.trim_blocks = environment.lstrip_blocks = True",
    "def tojson(value, **options): return json.dumps(value, **{'ensure_ascii': False, **options})",
    "environment.add_filter('tojson', tojson)",
    "def raise_exception(message): raise ValueError(message)",
    "environment.add_global('raise_exception', raise_exception)",
    "print(repr(environment.render_str(template, **given)))",
)
_TRANSFORMERS = (
    "from transformers import PreTrainedTokenizerFast",
    "folder = os.path.expandvars('$AFERE/fixtures/models/gauge')",
    "tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)",
    "messages = given.pop('messages')",
    "print(repr(tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False, **given)))",
)
