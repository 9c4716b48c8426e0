"""Cases: edge values one at a time, and requests drawn around a plain one with at most two oddities.

One stream of cases feeds all targets. Every other one comes from the edge lists (first the commonest value of every
field, then the second of every field ...), the others are drawn; once the lists are through, all are drawn.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

from harness.records import Case, Json
from suites.render import edges, snippets, texts
from suites.render.draw import Draw, Stream
from suites.render.features import features
from suites.render.ordered import pack, settle
from suites.render.setups import LEDGER, OPEN, SERVED

SUITE = "render"
Body = dict[str, Json]
Spec = tuple[str, dict[str, Json]]
"""Operation and input of a case."""


def plain_chat() -> Body:
    """The plainest chat request."""
    return {"messages": [{"content": "Hi", "role": "user"}], "model": SERVED}


def plain_completion() -> Body:
    """The plainest completion request."""
    return {"model": SERVED, "prompt": "Hi"}


def plain_template() -> dict[str, Json]:
    """The plainest template case."""
    messages = [{"content": "Hi", "role": "user"}, {"content": "Yes", "role": "assistant"}]
    return {"setup": OPEN, "snippets": [snippets.PLAIN], "messages": messages, "variables": {}}


def request(op: str, body: Body, setup: str = LEDGER, **more: Json) -> Spec:
    """Make a case that sends ``body`` to a set-up.

    The order of keys is kept where a template can print it, and sorted in the request itself and in its messages.
    """
    body = dict(sorted(body.items()))
    if "messages" in body:
        body["messages"] = settle(body["messages"])
    return op, {"setup": setup, "body": pack(body), **more}


# ---- edge lists


def _fields(op: str, table: dict[str, list[Any]], make: Any) -> Iterator[tuple[int, Spec]]:
    for name, values in table.items():
        for place, value in enumerate(values):
            # The first value is the ordinary one; drawn cases have it often.
            yield (1, 0)[place] if place < 2 else (place + 1) // 2, request(op, {**make(), name: copy.deepcopy(value)})


def _requests() -> Iterator[tuple[int, Spec]]:
    """Yield edge requests with a rank: how early within a run."""
    yield 0, request("chat", plain_chat())
    yield 0, request("completions", plain_completion())
    yield 0, request("chat", plain_chat(), OPEN)
    for rank, messages in enumerate(edges.MESSAGES):
        yield rank // 20, request("chat", {"model": SERVED, "messages": messages})
        if rank % 3 == 0 or rank < 30:
            yield 2 + rank // 12, request("chat", {"model": SERVED, "messages": messages}, OPEN)
    yield from _fields("chat", edges.CHAT, plain_chat)
    # The fields that both routes share have the same rules: on the completions route later.
    for rank, spec in _fields("completions", edges.COMPLETIONS, plain_completion):
        own = set(spec[1]["body"]) & {"prompt", "suffix", "logprobs"} and len(spec[1]["body"]) == 2
        yield (rank if own else rank + 3), spec
    for rank, pair in enumerate(edges.PAIRS):
        yield 1 + rank // 12, request("chat", {**plain_chat(), **pair})
        if not edges.CHAT_ONLY & set(pair) and pair.get("logprobs") not in (True, False):
            yield 3 + rank // 12, request("completions", {**plain_completion(), **pair})
    for rank, messages in enumerate(edges.CONTINUED):
        for setup in (LEDGER, OPEN):
            body = {"model": SERVED, "messages": messages, "continue_final_message": True}
            yield 1 + rank, request("chat", {**body, "add_generation_prompt": False}, setup)
            yield 3 + rank, request("chat", body, setup)
    for route, make in (("chat", plain_chat), ("completions", plain_completion)):
        absent = make()
        del absent["model"]
        yield 1, request(route, absent)
        yield 1, request(route, make(), headers={"x-request-id": "from-the-header"})
        yield 2, request(route, {**make(), "request_id": "from-body"}, headers={"x-request-id": "from-header"})
        yield 3, request("repeat", make(), route=route)
        for rank, kind in enumerate(
            ("text/plain", "application/json; charset=utf-8", "application/x-www-form-urlencoded")
        ):
            yield 1 + rank, request(route, make(), headers={"content-type": kind})
    yield 2, request("completions", {"model": SERVED})
    yield 2, request("chat", {"model": SERVED})
    prompts: list[Json] = ["Hello there", "<|bos|>a", [5, 6], ["a"], ""]
    for rank, prompt in enumerate(prompts):
        for special in (None, False):
            body = {"model": SERVED, "prompt": prompt, **({} if special is None else {"add_special_tokens": special})}
            yield 2 + rank, request("completions", body, OPEN)
    yield 2, request("chat", {**plain_chat(), "chat_template": ""}, OPEN)
    yield 2, request("chat", {**plain_chat(), "chat_template": "{{ messages[0].content }}"}, OPEN)
    yield 2, request("chat", {**plain_chat(), "add_special_tokens": True}, OPEN)
    yield 2, request("chat", {**plain_chat(), "temperature": 1.0}, OPEN)
    sides: list[Body] = [{}, {"truncation_side": "left"}, {"truncation_side": "right"}]
    for rank, side in enumerate(sides):
        body = {"model": SERVED, "prompt": "Hello there you", "truncate_prompt_tokens": 2, **side}
        yield 2 + rank, request("completions", body, OPEN)


def _texts() -> Iterator[tuple[int, Spec]]:
    for rank, body in enumerate(edges.BODIES):
        yield rank // 3, ("text", {"setup": LEDGER, "text": body})
    yield 4, ("text", {"setup": LEDGER, "hex": b'{"model": "gauge", "prompt": "\xff"}'.hex()})
    yield 4, ("text", {"setup": LEDGER, "hex": '{"model": "gauge", "messages": []}'.encode("utf-16").hex()})


def _routes() -> Iterator[tuple[int, Spec]]:
    for setup in (LEDGER, OPEN):
        yield 0, ("models", {"setup": setup})
    for method, path in (("GET", "/health"), ("GET", "/ping"), ("POST", "/ping")):
        yield 2, ("health", {"setup": LEDGER, "method": method, "path": path})


def template_case(names: list[str], variables: dict[str, Json], **more: Json) -> Spec:
    """Make a template case from snippets by name."""
    given = {
        "snippets": [snippets.SNIPPETS[n] for n in names],
        "variables": pack(variables),
        **{key: pack(value) for key, value in more.items()},
    }
    return "template", {**plain_template(), **given}


def _templates() -> Iterator[tuple[int, Spec]]:
    for rank, name in enumerate(snippets.SNIPPETS):
        value: Json = {"b": 1, "a": "é<"} if name.startswith("tojson") else "a"
        yield rank // 10, template_case([name], {"v": value} if name in snippets.TAKES_VALUE else {})
    turns = [
        {"content": text, "role": ("user", "assistant")[i % 2]} for i, text in enumerate(("a\n", " b</think>c ", "d"))
    ]
    for rank, name in enumerate(n for n in snippets.SNIPPETS if n.startswith("whole-")):
        more: dict[str, Json] = {"tools": [edges.TOOL]} if name == "whole-tools" else {}
        more |= {"documents": [{"title": "t", "text": " x "}]} if name == "whole-documents" else {}
        yield 1 + rank, template_case([name], {}, messages=turns, **more)
    for rank, value in enumerate(snippets.VALUES):
        for place, name in enumerate(snippets.TAKES_VALUE):
            yield 2 + rank // 3 + place, template_case([name], {"v": value})
    extras: list[dict[str, Json]] = [
        {"tools": [edges.TOOL]}, {"add_generation_prompt": False}, {"documents": [{"text": "x"}]},
    ]  # fmt: skip
    for rank, extra in enumerate(extras):
        yield 1 + rank, template_case(["given"], {}, **extra)


SHARES = ((_requests, 70), (_templates, 20), (_texts, 8), (_routes, 2))
"""The lists, and how many of a hundred edge cases come from each, as long as it lasts."""


OPEN_TOO = (
    "content:",
    "parts:",
    "part:",
    "role:",
    "calls:",
    "continue:",
    "assistant:",
    "arguments:",
    "tools:",
    "prompt",
)
"""What the second set-up treats in another way than the first, so that it has to be seen on both."""


@cache
def edge_cases() -> tuple[Spec, ...]:
    """All edge cases in the order in which a run takes them.

    Each list by rank, the lists by their shares; but what shows a feature that no case before it has comes first. So a
    short run sees every feature once before any twice, and a longer one every feature on each route.
    """
    seen: set[str] = set()
    first: list[Spec] = []
    second: list[Spec] = []
    later: list[Spec] = []
    for op, given in _ranked():
        tags = features(Case.make(SUITE, op, given)) | {op}
        if given["setup"] == OPEN and op != "template":
            tags |= {f"open {tag}" for tag in tags if tag.startswith(OPEN_TOO)}
        own = {f"{op} {tag}" for tag in tags}
        (first if not tags <= seen else second if not own <= seen else later).append((op, given))
        seen |= tags | own
    return (*first, *second, *later)


def _ranked() -> list[Spec]:
    placed = [
        ((place + 1) / share, number, spec)
        for number, (source, share) in enumerate(SHARES)
        for place, (_, spec) in enumerate(sorted(source(), key=lambda item: item[0]))
    ]
    return [spec for _, _, spec in sorted(placed, key=lambda item: item[:2])]


# ---- drawn cases


def chat_body(draw: Draw) -> Body:
    """Draw a chat request: a plausible conversation; in every other one, ordinary parameters and up to two oddities."""
    body: Body = {"model": SERVED, "messages": conversation(draw)}
    if draw.odds(2):
        _shown(draw, body)
        return body
    for _ in range(draw.pick((0, 0, 1, 2))):
        _ordinary(draw, body, edges.CHAT)
    for _ in range(draw.pick((0, 1, 1, 2))):
        _odd(draw, body)
    return body


def conversation(draw: Draw) -> list[Json]:
    """Draw messages: perhaps a system or developer message, then turns, perhaps with a tool call and its result."""
    messages: list[Json] = []
    if draw.odds(4):
        messages.append({"role": draw.pick(("system", "system", "developer")), "content": _content(draw)})
    for _ in range(draw.pick((1, 1, 1, 2, 3))):
        messages.append({"role": "user", "content": _content(draw)})
        if draw.odds(3):
            messages += _answer(draw)
    if draw.odds(8):
        messages[draw.below(len(messages))]["name"] = draw.pick(("bob", "Ana", "x_1"))
    return messages


def _content(draw: Draw) -> Json:
    if not draw.odds(6):
        return texts.text(draw)
    return [{"type": "text", "text": texts.text(draw)} for _ in range(draw.pick((1, 2, 2, 3)))]


def _answer(draw: Draw) -> list[Json]:
    if not draw.odds(3):
        answer: dict[str, Json] = {"role": "assistant", "content": _content(draw)}
        if draw.odds(8):
            answer[draw.pick(("reasoning", "reasoning_content"))] = texts.text(draw)
        return [answer]
    calls = [
        {"id": f"call_{i}", "type": "function", "function": {"name": "lookup", "arguments": draw.pick(edges.ARGUMENTS)}}
        for i in range(draw.pick((1, 1, 2)))
    ]
    result = {"role": "tool", "tool_call_id": "call_0", "content": _content(draw)}
    return [{"role": "assistant", "content": draw.pick((None, "", "x")), "tool_calls": calls}, result]


def _shown(draw: Draw, body: Body) -> None:
    """Set up to two fields that a template sees, to values that nobody may refuse."""
    for _ in range(draw.pick((0, 1, 1, 2))):
        shape = draw.below(6)
        if shape < 2:
            body["chat_template_kwargs"] = {"note": json_value(draw, 3)}
        elif shape == 2:
            parameters = {"properties": {texts.plain(draw): json_value(draw) for _ in range(1 + draw.below(2))}}
            function = {"name": "f", "description": texts.text(draw), "parameters": parameters}
            body |= {"tools": [{"type": "function", "function": function}], "tool_choice": "none"}
        elif shape == 3:
            body["documents"] = [{"title": texts.text(draw), "text": texts.text(draw)}]
        elif shape == 4:
            body["add_special_tokens"] = draw.odds(2)
        else:
            body["add_generation_prompt"] = False
            body["continue_final_message"] = body["messages"][-1]["role"] == "assistant"


def _ordinary(draw: Draw, body: Body, table: dict[str, list[Any]]) -> None:
    """Set a field to the commonest of its values."""
    name = draw.pick(tuple(table))
    if name not in ("model", "messages", "prompt", "chat_template"):
        body[name] = copy.deepcopy(table[name][0])
    if body.get("tools") and "tool_choice" not in body:
        body["tool_choice"] = "none"


def _odd(draw: Draw, body: Body) -> None:
    """Change one thing to anything its edge list has, or to a JSON value of any kind."""
    if draw.odds(3):
        body["messages"] = copy.deepcopy(draw.pick(edges.MESSAGES))
        return
    name = draw.pick(tuple(edges.CHAT))
    body[name] = json_value(draw) if draw.odds(6) else copy.deepcopy(draw.pick(edges.CHAT[name]))


def json_value(draw: Draw, depth: int = 2) -> Json:
    """Draw any JSON value."""
    shape = draw.below(8 if depth else 6)
    if shape < 2:
        return texts.text(draw)
    if shape == 2:
        return draw.pick((0, 1, -1, 7, 600, 2**31, 2**32, 2**63, 10**30)) + draw.below(3)
    if shape == 3:
        return draw.pick((0.5, -0.5, 1.0, 1e-7, 1e20, 0.1, 2.5))
    if shape < 6:
        return draw.pick((None, True, False))
    count = draw.below(3)
    if shape == 6:
        return [json_value(draw, depth - 1) for _ in range(count)]
    return {texts.plain(draw): json_value(draw, depth - 1) for _ in range(count)}


def completion_body(draw: Draw) -> Body:
    """Draw a completion request; every other one is a text and nothing else."""
    if draw.odds(2):
        special: Body = {"add_special_tokens": False} if draw.odds(4) else {}
        return {"model": SERVED, "prompt": " ".join(texts.text(draw) for _ in range(1 + draw.below(3))), **special}
    body: Body = {"model": SERVED, "prompt": _prompt(draw)}
    for _ in range(draw.pick((0, 1, 2))):
        _ordinary(draw, body, edges.COMPLETIONS)
    for _ in range(draw.pick((0, 1, 1, 2))):
        name = draw.pick(tuple(edges.COMPLETIONS))
        body[name] = json_value(draw) if draw.odds(6) else copy.deepcopy(draw.pick(edges.COMPLETIONS[name]))
    return body


def _prompt(draw: Draw) -> Json:
    shape = draw.below(6)
    if shape < 4:
        return texts.text(draw)
    ids = [draw.below(1000) for _ in range(1 + draw.below(6))]
    if shape == 4:
        return ids
    return draw.pick(([texts.text(draw), texts.text(draw)], [ids, [1]], [*ids, 1024 + draw.below(10)]))


def template_input(draw: Draw) -> Spec:
    """Draw a template of up to three snippets, with messages and a value for it."""
    names = [draw.pick(tuple(snippets.SNIPPETS)) for _ in range(draw.pick((1, 1, 2, 3)))]
    value = json_value(draw) if draw.odds(3) else draw.pick(snippets.VALUES)
    value = [None] if value is None else value  # a null argument may count as none at all
    variables = {"v": value} if any(name in snippets.TAKES_VALUE for name in names) else {}
    roles = ("user", "assistant")
    messages = [{"content": texts.text(draw), "role": roles[i % 2]} for i in range(1 + draw.below(4))]
    return template_case(names, variables, messages=messages)


def drawn(draw: Draw) -> Spec:
    """Draw one case of any operation."""
    shape = draw.below(20)
    if shape < 9:
        return request("chat", chat_body(draw), OPEN if draw.odds(4) else LEDGER)
    if shape < 13:
        return request("completions", completion_body(draw), OPEN if draw.odds(4) else LEDGER)
    if shape < 19:
        return template_input(draw)
    route = draw.pick(("chat", "completions"))
    return request("repeat", chat_body(draw) if route == "chat" else completion_body(draw), route=route)


def generate(count: int, seed: int) -> Iterator[Case]:
    """Yield exactly ``count`` different cases; the same for equal arguments on every machine."""
    seen: set[str] = set()
    listed = iter(edge_cases())
    index = 0
    while len(seen) < count:
        spec = next(listed, None) if index % 3 else None
        op, given = spec if spec is not None else drawn(Stream(seed, index))
        index += 1
        case = Case.make(SUITE, op, given)
        if case.id not in seen:
            seen.add(case.id)
            yield case
