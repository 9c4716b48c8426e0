"""The questions that ``tools`` and ``tool_choice`` of a chat request raise (OpenAI API reference, chat/create)."""

from __future__ import annotations

from collections.abc import Iterator

from reference.render.records import Json, Question


def tool_questions(body: dict[str, Json]) -> Iterator[Question]:
    """Yield the questions of tools and tool choice."""
    tools = body.get("tools")
    yield from _tools(tools)
    names = _names(tools)
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        yield from _named(choice, names)
    elif choice in ("auto", "required") or ("tool_choice" not in body and names):
        if names:
            # It takes a parser for the model's tool calls, which a renderer may or may not have been given.
            yield Question("R-TOOL-3", "tool_choice", "tool_choice:needs-parser")
        elif not tools:
            yield Question("R-TOOL-2", "tool_choice", "tool_choice:without-tools", must=True)
    elif choice is None and "tool_choice" in body and names:
        yield Question("R-TOOL-3", "tool_choice", "tool_choice:null-with-tools")
    elif choice not in (None, "none"):
        yield Question("R-TOOL-2", "tool_choice", "tool_choice:unknown", must=True)


def _names(tools: Json) -> list[str]:
    if not isinstance(tools, list):
        return []
    found = [tool["function"].get("name") for tool in tools if isinstance(tool, dict) and _function(tool)]
    return [name for name in found if isinstance(name, str)]


def _function(tool: dict[str, Json]) -> bool:
    return isinstance(tool.get("function"), dict)


def _tools(tools: Json) -> Iterator[Question]:
    if tools is None:
        return
    if not isinstance(tools, list):
        yield Question("R-TYPE-1", "tools", "type:not-array", must=True)
        return
    if not tools:
        yield Question("R-TOOL-5", "tools", "tools:empty")
    for tool in tools:
        if not isinstance(tool, dict):
            yield Question("R-TOOL-6", "tools", "tool:not-object", must=True)
        elif tool.get("type", "function") != "function":
            yield Question("R-TOOL-5", "tools", "tool:not-function")
        elif not _function(tool) or not isinstance(tool["function"].get("name"), str):
            yield Question("R-TOOL-6", "tools", "tool:no-function-name", must=True)
        else:
            yield from _definition(tool)


def _definition(tool: dict[str, Json]) -> Iterator[Question]:
    function = tool["function"]
    if "type" not in tool:
        yield Question("R-TOOL-5", "tools", "tool:no-type")
    if function.get("description") is not None and not isinstance(function["description"], str):
        yield Question("R-TOOL-6", "tools", "tool:description-not-string", must=True)
    if function.get("parameters") is not None and not isinstance(function["parameters"], dict):
        yield Question("R-TOOL-5", "tools", "tool:parameters-not-object")


def _named(choice: dict[str, Json], names: list[str]) -> Iterator[Question]:
    function = choice.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or name not in names:
        yield Question("R-TOOL-2", "tool_choice", "tool_choice:unknown-function", must=True)
    else:
        yield Question("R-TOOL-3", "tool_choice", "tool_choice:needs-parser")
