"""The suite ``render``: chat and completion requests put to renderers, and templates put to template engines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from harness.records import Case, Clause, Json, Observation, Verdict
from harness.suite import Fault, TargetKind
from harness.targets.base import Blobs
from reference.contract import load
from suites.render import ordered, snippets
from suites.render.setups import LEDGER, setups

# What a method alone needs is imported there: commands that only list or explain must answer at once.

LARGEST = 200_000
"""Bytes of an input that minimising may propose."""


class RenderSuite:
    """See :class:`harness.suite.Suite`."""

    name = "render"
    summary = "requests to engine requests: validation, chat templates, tokens, parameters"
    default_cases = 1200
    default_targets: tuple[str, ...] = ("transformers", "minijinja")

    def clauses(self) -> tuple[Clause, ...]:
        """The clauses of ``reference/contract/render.toml``."""
        return tuple(Clause(c.id, c.level, c.text, c.source, c.since) for c in load("render").values())

    def kinds(self) -> Mapping[str, TargetKind]:
        """The renderers."""
        from suites.render import targets

        return targets.kinds()

    def cases(self, count: int, seed: int, blobs: Blobs) -> Iterator[Case]:  # noqa: ARG002 - no arrays here
        """Edges among drawn ones."""
        from suites.render import cases

        return cases.generate(count, seed)

    def needs(self, case: Case) -> frozenset[str]:
        """The set-up that the case goes to, and the operation, or what of it a library can do: see ``plain.py``."""
        from suites.render import plain, requests

        return plain.needed(case) | {f"setup:{requests.setup_of(case)}"}

    def judge(self, case: Case, observations: Mapping[str, Observation], blobs: Blobs) -> Iterable[Verdict]:  # noqa: ARG002
        """See :mod:`suites.render.judge`."""
        from suites.render import judge

        return judge.judge(case, observations)

    def features(self, case: Case) -> frozenset[str]:
        """See :mod:`suites.render.features`."""
        from suites.render.features import features

        return features(case)

    def plainest(self, case: Case) -> dict[str, Json]:
        """The plainest input of the same operation."""
        from suites.render import cases

        if case.op == "template":
            return cases.plain_template()
        if case.op in ("chat", "completions"):
            return {"setup": LEDGER, "body": cases.plain_chat() if case.op == "chat" else cases.plain_completion()}
        if case.op == "repeat":
            body = cases.plain_chat() if case.input["route"] == "chat" else cases.plain_completion()
            return {"setup": LEDGER, "route": case.input["route"], "body": body}
        if case.op == "text":
            return {"setup": LEDGER, "text": json.dumps(cases.plain_chat())}
        return {**case.input, "setup": LEDGER}

    def rebuild(self, op: str, input: dict[str, Json], blobs: Blobs) -> Case | None:  # noqa: A002, ARG002
        """Check an input that minimising proposes."""
        return Case.make(self.name, op, input) if sensible(op, input) else None

    def script(self, case: Case, target: str) -> str:
        """A ``curl`` line, or a short Python script for an embedded target."""
        from suites.render import requests

        return requests.script(case, target)

    def faults(self) -> tuple[Fault, ...]:
        """Planted faults and honest variants."""
        from suites.render import faults

        return faults.FAULTS

    def expectations(self) -> Path | None:
        """Known findings of the embedded targets."""
        path = Path(__file__).with_name("expectations.toml")
        return path if path.is_file() else None


def sensible(op: str, given: dict[str, Json]) -> bool:
    """Whether an input is one that the generators could have made, up to its values."""
    try:
        given = ordered.unpack(given)
    except ValueError:
        return False
    if given.get("setup") not in setups() or len(json.dumps(given)) > LARGEST:
        return False
    headers = given.get("headers", {})
    if not isinstance(headers, dict) or not all(isinstance(v, str) and v and v.isascii() for v in headers.values()):
        return False
    if set(headers) - {"x-request-id", "content-type"}:
        return False
    if op == "template":
        return _sensible_template(given)
    if op == "text":
        return isinstance(given.get("text"), str) ^ isinstance(given.get("hex"), str) and _is_hex(given.get("hex", ""))
    if op in ("chat", "completions"):
        return set(given) <= {"setup", "body", "headers"} and "body" in given
    if op == "repeat":
        return given.get("route") in ("chat", "completions") and "body" in given
    return op in ("models", "health")


def _is_hex(text: str) -> bool:
    try:
        bytes.fromhex(text)
    except ValueError:
        return False
    return True


def _sensible_template(given: dict[str, Json]) -> bool:
    listed, messages = given.get("snippets"), given.get("messages")
    if not isinstance(listed, list) or not listed or not all(source in snippets.NAMES for source in listed):
        return False
    if not isinstance(messages, list) or not messages or not isinstance(given.get("variables"), dict):
        return False
    if set(given["variables"]) - {"v"} or not isinstance(given.get("add_generation_prompt", True), bool):
        return False
    plain = all(
        isinstance(m, dict) and set(m) == {"role", "content"} and m["role"] in ("user", "assistant")
        and isinstance(m["content"], str)
        for m in messages
    )  # fmt: skip
    return plain and given.get("tools", [{}]) != [] and given.get("documents", [{}]) != []
