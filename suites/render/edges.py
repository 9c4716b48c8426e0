"""Edge values of every field, as data: right and wrong types, and both sides of every limit.

Each value is put alone into a plain request, so that a difference has one cause. Within a field the commoner values
come first: a short run takes the first value of every field before the second of any.
"""

from __future__ import annotations

from typing import Any

from suites.render import texts

Values = list[Any]

_NUMBER_TYPES: Values = [None, "1", True, "x", [1], {"a": 1}, ""]
_INTEGER_TYPES: Values = [*_NUMBER_TYPES[:3], 1.0, *_NUMBER_TYPES[3:], 1.5]
_BOOLEAN: Values = [True, False, None, 1, "true", 0, "x", 2, [], {}]
_STRING_TYPES: Values = [None, 3, ["a"], {"a": "b"}, True]
_IDS: Values = [
    [1],
    [],
    [1024],
    [-1],
    None,
    [999],
    [1000],
    [1023],
    ["1"],
    [1.0],
    1,
    [2**32],
    [1, 1],
    [True],
    [None],
    "1",
]

SAMPLING: dict[str, Values] = {
    "temperature": [0.5, 0, 2, 2.5, -0.5, 1, 0.001, 1e-9, 100, *_NUMBER_TYPES],
    "top_p": [0.5, 1, 0, 1.5, -0.5, 1e-9, *_NUMBER_TYPES],
    "top_k": [5, 0, -1, -2, 1, 2000, 2**31, 2**32, 10**10, *_INTEGER_TYPES],
    "min_p": [0.5, 0, 1, 1.5, -0.5, *_NUMBER_TYPES],
    "frequency_penalty": [0.5, 0, 2, -2, 2.5, -2.5, *_NUMBER_TYPES],
    "presence_penalty": [0.5, 0, 2, -2, 2.5, -2.5, *_NUMBER_TYPES],
    "repetition_penalty": [1.5, 1, 2, 3, 0, -1, 0.1, 100, *_NUMBER_TYPES],
    "seed": [1, 0, -1, 2**31, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**70, *_INTEGER_TYPES],
    "max_tokens": [5, 0, 600, 1, -1, 505, 512, 513, 10**6, 2**31, 2**32, 2**63, 10**30, *_INTEGER_TYPES],
    "min_tokens": [1, 0, -1, 600, 505, 2**32, *_INTEGER_TYPES],
    "n": [1, 2, 0, -1, 5, 129, 10**6, *_INTEGER_TYPES],
    "stop": [["a"], "a", [], "", [""], ["a", "b", "c", "d"], ["a"] * 5, None, 3, [3], ["\n"], ["é"], [None], {}],
    "stop_token_ids": _IDS,
    "allowed_token_ids": _IDS,
    "bad_words": [["a"], [], [""], None, "a", [3], ["two words"], ["é"]],
    "logit_bias": [
        {"5": 1}, {"5": 100}, {"5": 101}, {"5": -101}, {}, None, {"1024": 1}, {"-1": 1}, {"x": 1}, {"5": "1"},
        {"1000": 1}, {"5": 0.5, "6": -0.5}, [1], "x", {"5": None}, {"4294967296": 1},
    ],
    "ignore_eos": _BOOLEAN,
    "skip_special_tokens": _BOOLEAN,
    "spaces_between_special_tokens": _BOOLEAN,
    "include_stop_str_in_output": _BOOLEAN,
    "prompt_logprobs": [1, 0, -1, -2, 20, 21, *_INTEGER_TYPES],
    "thinking_token_budget": [5, -1, -2, 0, *_INTEGER_TYPES],
}  # fmt: skip

SHARED: dict[str, Values] = {
    **SAMPLING,
    "stream": _BOOLEAN,
    "stream_options": [{}, {"include_usage": True}, None, [], "x"],
    "echo": _BOOLEAN,
    "return_token_ids": _BOOLEAN,
    "add_special_tokens": _BOOLEAN,
    "truncate_prompt_tokens": [3, -1, 512, 513, 0, -2, 1, *_INTEGER_TYPES],
    "model": ["gauge", "other", "", *_STRING_TYPES, "GAUGE", "gauge "],
    "user": ["u", "", *_STRING_TYPES],
    "request_id": ["abc", "", *_STRING_TYPES, "a/b", "é"],
    "priority": [1, -1, 0, 2**31, -(2**31) - 1, 2**63, *_INTEGER_TYPES],
    "cache_salt": ["salt", "", "x" * 129, "x" * 1025, "a/b", *_STRING_TYPES],
    "kv_transfer_params": [{"a": 1}, {}, None, [], "x"],
    "vllm_xargs": [{"a": 1}, {"a": "b"}, {"a": [1, "b"]}, {}, None, {"a": {"b": 1}}, {"a": None}, []],
    "response_format": [
        {"type": "text"}, {"type": "json_object"},
        {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
        {"type": "json_schema"}, {"type": "other"}, {}, None, "text", {"type": None},
    ],
    "structured_outputs": [
        {"regex": "a+"}, {"json": {"type": "object"}}, {"choice": ["a", "b"]}, {"grammar": 'root ::= "a"'},
        {"regex": "a", "choice": ["a"]}, {"choice": []}, {"regex": ""}, {}, None, [], {"json_object": True},
    ],
    "session_id": ["s", *_STRING_TYPES],
    "use_beam_search": [False, True, None],
    "length_penalty": [1.0, 2.0, None, "x"],
    "unheard_of": [1, None, {"a": [1]}, "x"],
    "best_of": [1, 2, None],
    "guided_regex": ["a"],
    "metadata": [{"a": "b"}],
    "service_tier": ["auto"],
}  # fmt: skip


def nested(depth: int) -> list[Any]:
    """Nest ``depth`` arrays."""
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


_FUNCTION: dict[str, Any] = {
    "name": "lookup",
    "description": "finds <a> & 'b'",
    "parameters": {"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "integer"}}},
}
TOOL: dict[str, Any] = {"type": "function", "function": _FUNCTION}
NAMED: dict[str, Any] = {"type": "function", "function": {"name": "lookup"}}


def _tool(**function: Any) -> Values:
    return [{"type": "function", "function": function}]


CHAT: dict[str, Values] = {
    **SHARED,
    "max_completion_tokens": [5, 0, 600, 1, -1, 505, 513, 2**32, *_INTEGER_TYPES],
    "logprobs": _BOOLEAN,
    "top_logprobs": [0, 1, 20, 21, -1, -2, *_INTEGER_TYPES],
    "add_generation_prompt": _BOOLEAN,
    "continue_final_message": [False, True, None],
    "include_reasoning": _BOOLEAN,
    "parallel_tool_calls": _BOOLEAN,
    "chat_template": ["{{ messages[0].content }}", "", None, 3],
    "chat_template_kwargs": [
        {"note": "a"}, {"note": {"b": 1, "a": "é<>&'\""}}, {"unused": 1}, {}, None, [], "x", {"note": None},
        {"note": [1.5, 1.0, 1e20, 1e-7, -0.0]}, {"note": 2**70}, {"note": True}, {"note": nested(100)},
        {"note": nested(130)}, {"add_generation_prompt": False}, {"bos_token": "x"}, {"messages": []},
        {"tools": []}, {"chat_template": "x"}, {"tokenize": True}, {"enable_thinking": False},
        {"note": "\u2028\x7f\x01"},
        {"note": ""}, {"note": [[], {}]}, {"note": {"a": {"b": [None, False]}}},
    ],
    "documents": [[{"title": "t", "text": "x"}], [], None, [{"title": 1}], ["x"], {}, [{"text": "é<"}]],
    "reasoning_effort": ["low", "none", "high", "max", None, "other", 3, ""],
    "tools": [
        [TOOL], [], None, _tool(name="f"), _tool(name="f", description=None, parameters=None),
        _tool(name="f", strict=True), _tool(parameters={"z": 1, "a": 2}, name="f", description="d"),
        _tool(name="f", description="d", parameters={}, more=1),
        [{**TOOL, "more": 2}], [{"function": _FUNCTION}], [{"function": _FUNCTION, "type": "function"}],
        [{"type": "custom", "custom": {"name": "f"}}], [{"type": "function"}], _tool(description="d"),
        _tool(name="f", description=3), _tool(name="f", description="d", parameters=[]), ["x"], "x", {}, [TOOL, TOOL],
        _tool(name="f", description="d", parameters={"a": [1.0, 1e20, 1e-7, 10**20], "b": "é\u2028</"}),
        _tool(name="", description="", parameters={}),
    ],
    "tool_choice": ["none", "auto", "required", None, "other", NAMED, {"type": "function"}, 3],
    "media_io_kwargs": [{}, None],
    "mm_processor_kwargs": [{}, None],
    "return_prompt_text": [False, True, None],
    "functions": [[{"name": "f"}]],
    "function_call": ["auto"],
    "modalities": [["text"], ["audio"]],
}  # fmt: skip

COMPLETIONS: dict[str, Values] = {
    **SHARED,
    "logprobs": [1, 0, 5, 20, 21, -1, -2, *_INTEGER_TYPES],
    "suffix": ["x", "", None],
    "prompt": [
        "Hello there", ["a"], ["a", "b"], [5, 6], [[5], [6, 7]], [1024], [-1], "", [], [""], [[]], ["a", ""],
        [[5, 6]], [0], [999], [1000], [1023], [2**31], [2**32], [2**63], [5, "a"], ["a", 5], [1.0], [1.5], [True],
        [None], None, 5, {"a": 1}, True, [[1], "a"], [[1], 2], [[-1]], [[1024]], ["5"], [5, "6"], [5] * 511,
        [5] * 512, [5] * 513, "<|bos|>a", " a", "a ", "\n", "é", "<|user|>x<|end|>", [{}], ["a"] * 20,
    ],
}  # fmt: skip

PAIRS: list[dict[str, Any]] = [
    {"min_tokens": 5, "max_tokens": 2},
    {"min_tokens": 5, "max_tokens": 5},
    {"max_tokens": 5, "max_completion_tokens": 7},
    {"max_tokens": 0, "max_completion_tokens": 7},
    {"logprobs": True, "top_logprobs": 5},
    {"logprobs": True, "top_logprobs": 0},
    {"logprobs": True, "top_logprobs": 21},
    {"logprobs": True, "top_logprobs": -1},
    {"logprobs": False, "top_logprobs": 1},
    {"n": 2, "temperature": 0.5},
    {"n": 2, "temperature": 0},
    {"temperature": 0, "top_p": 0.5},
    {"temperature": 0, "top_k": 5},
    {"stream": True, "stream_options": {"include_usage": True}},
    {"stream": True, "stream_options": {}},
    {"stream": True, "prompt_logprobs": 1},
    {"stream": False, "stream_options": {"include_usage": False}},
    {"add_generation_prompt": True, "continue_final_message": True},
    {"add_generation_prompt": False, "continue_final_message": False},
    {"tools": [TOOL], "tool_choice": "auto"},
    {"tools": [TOOL], "tool_choice": "required"},
    {"tools": [TOOL], "tool_choice": None},
    {"tools": [TOOL], "tool_choice": NAMED},
    {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "other"}}},
    {"tools": [TOOL], "tool_choice": "none", "parallel_tool_calls": False},
    {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}},
    {"add_generation_prompt": True, "chat_template_kwargs": {"add_generation_prompt": False}},
    {"truncate_prompt_tokens": 3, "truncation_side": "left"},
    {"truncate_prompt_tokens": 3, "truncation_side": "right"},
    {"truncate_prompt_tokens": 3, "truncation_side": "other"},
    {"truncation_side": "left"},
    {"truncate_prompt_tokens": 3, "max_tokens": 512},
    {"response_format": {"type": "text"}, "structured_outputs": {"regex": "a"}},
    {"echo": True, "max_tokens": 0},
    {"echo": True, "max_tokens": 5},
    {"ignore_eos": True, "min_tokens": 5},
    {"seed": 1, "temperature": 0},
]
"""Fields that only mean something together."""
CHAT_ONLY = frozenset(CHAT) - frozenset(SHARED)


def _calls(*calls: Any, content: Any = None, **more: Any) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": content, "tool_calls": list(calls), **more}]


def _call(arguments: Any, **more: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": arguments}, **more}


def _user(content: Any, **more: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content, **more}]


def _text(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text} for text in texts]


_HI = {"role": "user", "content": "Hi"}
ARGUMENTS: Values = [
    "{}", '{"b": 1, "a": "x"}', "", '{"a":', "[1]", "3", "null", '"x"', '{"a": NaN}', '{"a": 1, "a": 2}', {"a": 1},
    None, [1], '{"a": 123456789012345678901234567890}', '{"a": 1.0, "b": 1e20, "c": 1e-7}', '{"a": "\\u00e9<>&\'/"}',
    ' {"a" : 1 } ', '{"a": "\\ud800"}', '{"a": {"b": [1, {"c": null}]}}', "x", '{"a": true}', '{"a": -0.0}', '{"a":1}x',
    '{"": 1}', '{"a": "\\n\\t\\u0000"}',
]  # fmt: skip

MESSAGES: list[Any] = [
    _user(_text("a", "b")),
    [{"role": "developer", "content": "a"}],
    [{"role": "assistant", "content": None}],
    [{"role": "system", "content": "a"}, _HI],
    _user("a", name="bob"),
    _user(_text("a")),
    [{"role": "assistant"}],
    [{"role": "assistant", "content": ""}],
    [{"role": "assistant", "content": []}],
    _user(""),
    _user([]),
    _user(None),
    [{"role": "user"}],
    [_HI, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}],
    [_HI, {"role": "developer", "content": "b"}],
    [{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}, _HI],
    [{"role": "system", "content": "a"}, {"role": "system", "content": "b"}, _HI],
    [_HI, {"role": "system", "content": "b"}],
    [{"role": "tool", "content": "a", "tool_call_id": "x"}],
    [{"role": "tool", "content": "a"}],
    [{"role": "tool", "content": _text("a", "b"), "tool_call_id": "x"}],
    [{"role": "root", "content": "a"}],
    [{"role": "function", "content": "a", "name": "f"}],
    [{"role": "", "content": "a"}],
    [{"role": "USER", "content": "a"}],
    [{"role": None, "content": "a"}],
    [{"role": 3, "content": "a"}],
    [{"content": "a"}],
    *[_calls(_call(arguments), content="x") for arguments in ARGUMENTS],
    _calls(_call("{}")),
    _calls(_call("{}"), content=""),
    _calls(_call("{}"), _call('{"a": 1}')),
    [{"role": "assistant", "tool_calls": [_call("{}")]}],
    _calls({"type": "function", "function": {"name": "f", "arguments": "{}"}}, content="x"),
    _calls({"id": "c", "function": {"name": "f", "arguments": "{}"}}, content="x"),
    _calls({"id": "c", "type": "function", "function": {"arguments": "{}"}}, content="x"),
    _calls({"id": "c", "type": "function", "function": {"name": "f"}}, content="x"),
    _calls({"id": "c", "type": "custom", "custom": {"name": "f", "input": "z"}}, content="x"),
    _calls({"id": "c", "type": "function"}, content="x"),
    _calls("x", content="x"),
    _calls(_call("{}", index=0), content="x"),
    [{"role": "assistant", "content": "x", "tool_calls": []}],
    [{"role": "assistant", "content": "x", "tool_calls": None}],
    _user("x", tool_calls=[_call("{}")]),
    _user("x", name=None),
    _user("x", name=3),
    _user("x", name=""),
    [{"role": "system", "content": "x", "name": "bob"}],
    [{"role": "assistant", "content": "x", "name": "bob"}],
    [{"role": "tool", "content": "x", "name": "bob", "tool_call_id": "q"}],
    [{"role": "assistant", "content": "x", "reasoning": "r"}],
    [{"role": "assistant", "content": "x", "reasoning_content": "r"}],
    [{"role": "assistant", "content": None, "reasoning_content": "r"}],
    [{"role": "assistant", "content": "x", "reasoning": 3}],
    _user("x", reasoning_content="r"),
    [{"role": "assistant", "content": None, "refusal": "r"}],
    _user("x", more=1),
    _user(3),
    _user(True),
    _user({"type": "text", "text": "a"}),
    _user(["a"]),
    _user(_text("a", "", "b")),
    _user(_text("", "b")),
    _user(_text("a", "")),
    _user(_text("")),
    _user(_text("a", "b", "c")),
    _user([{"type": "text", "text": None}]),
    _user([{"type": "text", "text": 3}]),
    _user([{"type": "text"}]),
    _user([{"text": "a"}]),
    _user([{"type": "input_text", "text": "a"}]),
    _user([{"type": "output_text", "text": "a"}]),
    _user([{"type": "other", "text": "a"}]),
    _user([{"type": "refusal", "refusal": "a"}]),
    _user([{"type": "thinking", "thinking": "a"}]),
    [{"role": "assistant", "content": [{"type": "refusal", "refusal": "a"}]}],
    _user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]),
    _user([{"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}]),
    _user([{"type": "text", "text": "a", "more": 1}]),
    _user([None]),
    _user([[]]),
    [{"role": "system", "content": _text("a", "b")}, _HI],
    [{"role": "developer", "content": _text("a", "b")}],
    [_HI, {"role": "assistant", "content": _text("a", "b")}],
    [],
    None,
    "hi",
    {},
    ["hi"],
    [None],
    [_HI, _HI],
    [_HI, {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}],
    _user("a " * 600),
    _user("a " * 480),
    *[_user(pieces[0]) for pieces in texts.SPICE.values()],
]
"""Layouts of messages, each alone in an otherwise plain chat request."""

CONTINUED: list[Any] = [
    [_HI, {"role": "assistant", "content": "b"}],
    [_HI, {"role": "assistant", "content": " b "}],
    [_HI, {"role": "assistant", "content": _text("b", "c")}],
    [_HI, {"role": "assistant", "content": ""}],
    [_HI],
    [_HI, {"role": "tool", "content": "t", "tool_call_id": "x"}],
]
"""Messages whose last one is to be continued."""

BODIES: list[str] = [
    '{"model": "gauge", "messages": [{"role": "user", "content": "a"}],}',
    '{"model": "gauge", "messages": [{"role": "user", "content": "a"}], "n": 1, "n": 1}',
    '{"model": "gauge", "messages": [{"role": "user", "content": "a", "content": "b"}]}',
    '{"model": "gauge", "messages": [{"role": "user", "content": "a"}], "temperature": NaN}',
    '{"model": "gauge", "messages": [{"role": "user", "content": "a"}], "temperature": Infinity}',
    '{"model": "gauge", "messages": [{"role": "user", "content": "\\ud800"}]}',
    '{"model": "gauge", "messages": [{"role": "user", "content": "\\ud83d\\ude00"}]}',
    '\ufeff{"model": "gauge", "messages": [{"role": "user", "content": "a"}]}',
    '{"model": "gauge", "messages": [{"role": "user", "content": "a"}]} x',
    '{"model": "gauge", "messages": [{"role": "user", "content": "a\nb"}]}',
    "", "[]", "null", "3", '"x"', "{", "}", "x",
    '{"model": "gauge", "messages": [{"role": "user", "content": "a"}] /* x */}',
    "{'model': 'gauge', 'messages': []}",
    '{"model": "gauge", "messages": [{"role": "user", "content": "a"}], "n": 01}',
    '{"model": "gauge", "messages": [{"role": "user", "content": "a"}], "seed": -0}',
    '{"model": "gauge", "messages": [{"role": "user", "content": "a"}], "temperature": 1e400}',
    '{"model": "gauge", "messages": [{"role": "user", "content": "a"}], "temperature": .5}',
    '{"model": "gauge", "messages": [{"role": "user", "content": "a"}], "temperature": +1}',
    '{"model": "gauge", "messages": [{"role": "user", "content": "\\x41"}]}',
    '{"model": "gauge", "messages": [{"role": "user", "content": "\\u0000"}]}',
    ' \n\t{"model": "gauge", "messages": [{"role": "user", "content": "a"}]}\r\n ',
    '{"model": "gauge", "messages": [{"role": "user", "content": "\\/\\b\\f"}]}',
    '{"model": "gauge", "messages": [{"role": "user", "content": "a"}], "stream": True}',
    '{"mod\\u0065l": "gauge", "messages": [{"role": "user", "content": "a"}]}',
]  # fmt: skip
"""Bodies below the level of a JSON library."""
