"""Judge answers: their form, their tokens, and the engine request that they are.

A server's answer is an engine request. A library in this process gives text and token ids, and nothing else is asked of
it; choices are compared among servers and among libraries, for these are not renderers of one product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.outcome import Status
from harness.records import Json, Observation
from reference.render.lower import TOP_LEVEL, lower, observed
from reference.render.records import Choice, Evaluation, Param, Refusal, Rendering, Setup
from reference.render.template import special_tokens
from reference.render.tokenise import decode, encode
from reference.render.wire import PREFIX
from suites.render.verdicts import Sheet

Answers = Mapping[str, list[dict[str, Json]]]
"""Target -> its engine requests (or renderings), one for each prompt."""


def is_library(seen: Observation) -> bool:
    """Whether an observation is that of a library in this process, not of a server."""
    return isinstance(seen.payload, dict) and "rendered" in seen.payload


TOPICS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("R-TOOL-1", ("tools:set",)),
    ("R-CALL-1", ("calls:set",)),
    ("R-KWARGS-1", ("chat_template_kwargs:set",)),
    ("R-DOC-1", ("documents:set",)),
    ("R-SPECIAL-1", ("text:special-token",)),
    ("R-UNI-1", ("text:non-ascii", "text:combining", "text:beyond-bmp", "text:separator")),
    (
        "R-TEXT-2",
        ("text:markup", "text:backslash", "text:jinja", "text:control", "text:carriage-return", "text:blanks"),
    ),
    ("R-JOIN-2", ("content:one-part",)),
    ("R-CONT-1", ("continue_final_message:set", "continue:generation-prompt-by-default")),
    ("R-GEN-1", ("add_generation_prompt:set",)),
    ("R-BOS-1", ("add_special_tokens:set",)),
    ("R-PROMPT-1", ("prompt:ids",)),
    ("R-TRUNC-1", ("truncate_prompt_tokens:set",)),
    ("R-EXTRA-1", ("field:unknown", "message:unknown-field", "part:unknown-field")),
    ("R-MSG-3", ("messages:several",)),
)
"""Clauses on the tokens, and the features of a case that bring each into play."""


def answer_verdicts(
    sheet: Sheet, setup: Setup, found: Evaluation, tags: frozenset[str], headers: Mapping[str, str],
    seen: Mapping[str, Observation],
) -> None:  # fmt: skip
    """Judge the answered observations of a request that may be answered."""
    answers = _well_formed(sheet, found, seen)
    servers = [name for name in answers if not is_library(seen[name])]
    for name in servers:
        _identities(sheet, found, headers, name, answers[name])
    why = found.unrendered
    if not all(any(isinstance(one, Rendering) for one in made) for made in found.results):
        why = "a prompt that leaves no room, or comes to nothing"
    if why:
        for name in answers:
            sheet.add("R-TEXT-1", name, Status.SKIPPED, note=f"the reference does not render {why}")
        return
    right = {name: r for name, r in answers.items() if _right_count(sheet, found, name, r)}
    explained: dict[str, list[tuple[int, ...]]] = {}
    for name, requests in right.items():
        matches = [_match(setup, found, index, request) for index, request in enumerate(requests)]
        _tokens(sheet, setup, found, tags, name, matches)
        if all(isinstance(match, tuple) for match in matches):
            explained[name] = [match for match in matches if isinstance(match, tuple)]
    for group in (servers, [name for name in answers if name not in servers]):
        _choices(sheet, found, {name: matches for name, matches in explained.items() if name in group})
    _parameters(sheet, setup, found, {name: requests for name, requests in right.items() if name in servers})


def _well_formed(sheet: Sheet, found: Evaluation, seen: Mapping[str, Observation]) -> dict[str, list[dict[str, Json]]]:
    """R-ANSWER-1: a chat gives one engine request, a completion a list of them; each has token ids and an id."""
    answers: dict[str, list[dict[str, Json]]] = {}
    for name, observation in seen.items():
        if is_library(observation):
            rendered = observation.payload["rendered"]
            if isinstance(rendered, list) and all(_rendering(one) for one in rendered):
                answers[name] = rendered
            else:
                shape = ("answer", "(body)", "malformed")
                sheet.fail("R-ANSWER-1", name, shape, "text and token ids", str(rendered)[:300])
            continue
        body = observation.payload.get("json") if isinstance(observation.payload, dict) else None
        listed = [body] if found.checked.route == "chat" else body
        good = isinstance(listed, list) and all(_engine_request(one) for one in listed)
        if isinstance(listed, list) and good:
            sheet.passed("R-ANSWER-1", name)
            answers[name] = listed
        else:
            shape = ("answer", "(body)", "malformed")
            sheet.fail("R-ANSWER-1", name, shape, "engine requests", str(body)[:300])
    return answers


def _engine_request(one: Json) -> bool:
    return isinstance(one, dict) and isinstance(one.get("request_id"), str) and _ids(one.get("token_ids"))


def _rendering(one: Json) -> bool:
    return isinstance(one, dict) and isinstance(one.get("text"), str) and _ids(one.get("token_ids"))


def _ids(ids: Json) -> bool:
    return isinstance(ids, list) and all(isinstance(i, int) and not isinstance(i, bool) for i in ids)


def _identities(
    sheet: Sheet, found: Evaluation, headers: Mapping[str, str], name: str, requests: Sequence[dict[str, Json]]
) -> None:
    """R-ID-1: the id begins with the route's prefix; R-ID-2: it carries the header's, R-ID-3: else the body's."""
    prefix = PREFIX[found.checked.route]
    given = headers.get("x-request-id")
    clause = "R-ID-2" if given else "R-ID-3"
    wanted = given or found.checked.taken.get("request_id") or ""
    for request in requests:
        identity = request["request_id"]
        if identity.startswith(prefix):
            sheet.passed("R-ID-1", name)
        else:
            sheet.fail("R-ID-1", name, ("answer", "request_id", "prefix"), prefix, identity)
        if wanted and wanted in identity:
            sheet.passed(clause, name)
        elif wanted:
            sheet.fail(clause, name, ("answer", "request_id", "value"), prefix + wanted, identity)


def _right_count(sheet: Sheet, found: Evaluation, name: str, requests: Sequence[dict[str, Json]]) -> bool:
    if len(requests) == len(found.results):
        if len(found.results) > 1:
            sheet.passed("R-PROMPT-7", name)
        return True
    sheet.fail("R-PROMPT-7", name, ("answer", "(results)", "count"), len(found.results), len(requests))
    return False


def _match(setup: Setup, found: Evaluation, index: int, request: dict[str, Json]) -> tuple[int, ...] | list[Json]:
    """The combinations of choices that explain an answer; a list (stage, expected, got) where none does.

    The stage is the first one that differs. Where the target tells its text, that says so. Where it does not, its
    tokens are read: those of a right text, under whatever treatment a tokeniser gives it, have gone astray there.
    """
    ids, shown = tuple(request["token_ids"]), request.get("text")
    made = found.results[index]
    right = [i for i, one in enumerate(made) if isinstance(one, Rendering) and shown in (None, one.text)]
    fitting = tuple(i for i in right if _rendered(made[i]).token_ids == ids)
    if fitting:
        return fitting
    renderings = [one for one in made if isinstance(one, Rendering)]
    told = isinstance(shown, str)
    same = [_rendered(made[i]) for i in right] if told else [r for r in renderings if _from(setup, found, r, ids)]
    if same:
        return ["tokenise", list(same[0].token_ids), list(ids)]
    first = renderings[0]
    if told or first.text is None:
        return ["template", first.text, shown] if told else ["tokenise", list(first.token_ids), list(ids)]
    return ["template", decode(setup, first.token_ids), decode(setup, ids)]


def _rendered(one: Rendering | Refusal) -> Rendering:
    assert isinstance(one, Rendering)
    return one


def _from(setup: Setup, found: Evaluation, made: Rendering, ids: tuple[int, ...]) -> bool:
    """Whether ids are another tokenisation of a rendering's text: other merges, BOS or none, cut somewhere else."""
    if made.text is None:
        return True
    text = decode(setup, ids)
    forms = [encode(setup, made.text, special=special) for special in (True, False)]
    bos = special_tokens(setup.folder).get("bos_token", "")
    if any(text in (decode(setup, form), bos + decode(setup, form)) for form in (made.token_ids, *forms)):
        return True
    cut = found.checked.taken.get("truncate_prompt_tokens") is not None and len(ids) > 0
    return cut and any(text in decode(setup, form) for form in forms)


def _tokens(
    sheet: Sheet, setup: Setup, found: Evaluation, tags: frozenset[str], name: str,
    matches: Sequence[tuple[int, ...] | list[Json]],
) -> None:  # fmt: skip
    """R-TEXT-1 and the clauses on its topics: the tokens are those of an admissible rendering."""
    topics = [clause for clause, needed in TOPICS if any(tag in tags for tag in needed)]
    if setup.bos and found.checked.route == "completions" and "prompt:ids" not in tags:
        topics.append("R-BOS-2")
    wrong = next((match for match in matches if isinstance(match, list)), None)
    if wrong is None:
        for clause in ("R-TEXT-1", "R-TOKEN-1", *topics):
            sheet.passed(clause, name)
        return
    stage, expected, got = wrong
    clause = "R-TOKEN-1" if stage == "tokenise" and found.results[0] else "R-TEXT-1"
    if len(topics) == 1:
        clause = topics[0]
    sheet.fail(clause, name, (stage, "text" if stage == "template" else "token_ids", "value"), expected, got)
    for topic in topics:
        if topic != clause:
            sheet.add(topic, name, Status.BLOCKED, note="the tokens are wrong, and the request has several topics")


def _choices(sheet: Sheet, found: Evaluation, explained: Mapping[str, list[tuple[int, ...]]]) -> None:
    """The clause of each choice: the targets choose alike."""
    if len(explained) < 2:
        for choice in found.choices:
            for name in explained:
                sheet.add(choice.clause, name, Status.SKIPPED, note="no other answer to compare with")
        return
    for choice in found.choices:
        says = {name: _options(found, choice, matches) for name, matches in explained.items()}
        if set.intersection(*(set(options) for options in says.values())):
            for name in explained:
                sheet.passed(choice.clause, name)
        else:
            shape = ("normalise", choice.name, "differs")
            sheet.disagree(choice.clause, shape, {name: " or ".join(sorted(o)) for name, o in says.items()})


def _options(found: Evaluation, choice: Choice, matches: Sequence[tuple[int, ...]]) -> set[str]:
    return {
        made.choices[choice.name]
        for combinations, fitting in zip(found.results, matches, strict=True)
        for made in (combinations[i] for i in fitting)
        if isinstance(made, Rendering)
    }


def _parameters(sheet: Sheet, setup: Setup, found: Evaluation, answers: Answers) -> None:
    """R-PARAM and the clauses on single fields: what the engine request carries."""
    chosen: dict[str, dict[str, tuple[Param, int]]] = {}
    for name, requests in answers.items():
        if not isinstance(requests[0].get("sampling_params"), dict):
            sheet.fail("R-PARAM-1", name, ("lower", "sampling_params", "missing"), {}, None)
            continue
        carried = observed(requests[0])
        for param in lower(setup, found.checked, len(requests[0]["token_ids"])):
            got = carried.get(param.name)
            index = next((i for i, value in enumerate(param.values) if _same(value, got)), None)
            if index is not None:
                sheet.passed(param.clause, name)
                chosen.setdefault(param.name, {})[name] = (param, index)
            else:
                change = "missing" if got is None else "added" if param.values == (None,) else "value"
                sheet.fail(param.clause, name, ("lower", _path(param.name), change), param.values[0], got)
    for field, indexes in chosen.items():
        _alike(sheet, field, indexes)


def _same(one: Json, other: Json) -> bool:
    """Equality in which true is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _path(name: str) -> str:
    return name if name in TOP_LEVEL else f"sampling_params.{name}"


def _alike(sheet: Sheet, field: str, indexes: Mapping[str, tuple[Param, int]]) -> None:
    if len(indexes) < 2:
        return
    param = next(iter(indexes.values()))[0]
    if len({index for _, index in indexes.values()}) == 1:
        if len(param.values) > 1 or param.given:
            for name in indexes:
                sheet.passed(param.agree, name)
        return
    filled = any(one.values[index] is None for one, index in indexes.values())
    shape = ("lower", _path(field), "filled or missing" if filled and not param.given else "differs")
    sheet.disagree(param.agree, shape, {name: one.values[index] for name, (one, index) in indexes.items()})
