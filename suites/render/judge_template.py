"""Judge template cases: a template of snippets, rendered and tokenised, against Jinja2 as transformers sets it up."""

from __future__ import annotations

from collections.abc import Mapping

from harness.outcome import Outcome, Status
from harness.records import Case, Json, Observation
from reference.render import template, tokenise
from reference.render.records import Normalised
from suites.render import snippets
from suites.render.ordered import unpack
from suites.render.setups import plain_format
from suites.render.verdicts import Sheet

PREFIXES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("R-TMPL-5", ("tojson",)),
    ("R-TMPL-2", ("print", "concat", "string", "boolean-words", "method-split-print")),
    ("R-TMPL-6", ("trim-blocks", "lstrip-blocks", "minus", "plus", "comment", "line-end", "trailing-newline")),
    ("R-TMPL-7", ("method-", "filter-", "length", "default", "is-", "dict-")),
    ("R-TMPL-8", ("special-tokens", "strftime", "given")),
)
"""Clauses on parts of the language, and how the names of their snippets begin. Other snippets: R-TMPL-1."""


def source_of(given: dict[str, Json]) -> str:
    """The template of a case: its snippets in a row."""
    return "".join(given["snippets"])


def clause_of(given: dict[str, Json]) -> str:
    """The clause that a template's snippets are about; R-TMPL-1 where they are about several."""
    names = [snippets.NAMES.get(source, "") for source in given["snippets"]]
    found = {_topic(name) for name in names if name != "plain"}
    return found.pop() if len(found) == 1 else "R-TMPL-1"


def _topic(name: str) -> str:
    return next((clause for clause, starts in PREFIXES if name.startswith(starts)), "R-TMPL-1")


def normalised(given: dict[str, Json]) -> Normalised:
    """What the template of a case is given."""
    return Normalised(
        [{"role": m["role"], "content": m["content"]} for m in given["messages"]],
        given.get("tools"), given.get("documents"), given["variables"],
        given.get("add_generation_prompt", True), continue_final_message=False,
    )  # fmt: skip


def template_verdicts(sheet: Sheet, case: Case, observations: Mapping[str, Observation]) -> None:
    """Judge one template case."""
    setup = plain_format(case.input["setup"])
    clause = clause_of(case.input)
    try:
        text = template.apply(setup, normalised(unpack(case.input)), source_of(case.input))
        ids = tokenise.encode(setup, text, special=False)
    except (template.TemplateRefused, UnicodeEncodeError) as error:
        _refusals(sheet, case, observations, str(error))
        return
    for name, seen in observations.items():
        if not ids or len(ids) >= setup.max_model_len:
            sheet.add(clause, name, Status.SKIPPED, note="the template gives no text, or more than the context holds")
        elif seen.outcome is Outcome.REFUSED:
            sheet.fail(clause, name, ("template", "", "refused"), text, _message(seen))
        else:
            _compare(sheet, clause, name, text, ids, answer_of(seen))


def answer_of(seen: Observation) -> dict[str, Json]:
    """Text (where the target gives it) and token ids of an answer."""
    payload = seen.payload if isinstance(seen.payload, dict) else {}
    body = payload.get("json", payload)
    return body if isinstance(body, dict) else {}


def _compare(sheet: Sheet, clause: str, name: str, text: str, ids: tuple[int, ...], answer: dict[str, Json]) -> None:
    got = answer.get("token_ids")
    if not isinstance(got, list):
        sheet.fail("R-ANSWER-1", name, ("answer", "(body)", "malformed"), "token ids", str(answer)[:300])
        return
    shown = answer.get("text")
    if tuple(got) == ids and shown in (None, text):
        sheet.passed(clause, name)
        sheet.passed("R-TOKEN-1", name)
        return
    setup = plain_format("open")
    decoded = shown if isinstance(shown, str) else tokenise.decode(setup, tuple(got))
    if decoded in (text, tokenise.decode(setup, ids)):
        sheet.fail("R-TOKEN-1", name, ("tokenise", "token_ids", "value"), list(ids), got)
    else:
        sheet.fail(clause, name, ("template", "text", "value"), text, decoded)


def _refusals(sheet: Sheet, case: Case, observations: Mapping[str, Observation], why: str) -> None:
    """R-TMPL-3 where the template raised on purpose, else R-TMPL-4: what Jinja2 refuses is refused."""
    raised = any(snippets.NAMES.get(source) == "raise" for source in case.input["snippets"])
    clause = "R-TMPL-3" if raised else "R-TMPL-4"
    for name, seen in observations.items():
        if seen.outcome is Outcome.REFUSED:
            sheet.passed(clause, name, decision=True)
        else:
            answer = answer_of(seen)
            got = answer.get("text") or tokenise.decode(plain_format("open"), tuple(answer.get("token_ids") or ()))
            sheet.fail(clause, name, ("template", "", "answered"), f"a refusal: {why}", got)


def _message(seen: Observation) -> Json:
    body = answer_of(seen)
    error = body.get("error")
    return str(error.get("message"))[:300] if isinstance(error, dict) else (seen.detail or str(body))[:300]
