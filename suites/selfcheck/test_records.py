"""Records: ids that are equal on every machine, reading back what was written, schemas that describe every file."""

from __future__ import annotations

import enum
import functools
import hashlib
import json
import types
import typing
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import schemas
from harness.outputs import OUTPUTS
from harness.records import ArrayRef, Case, Observation, Record, Verdict, canonical, digest, from_line, to_line
from suites.selfcheck.conftest import REPOSITORY, Afere

RECORDS: tuple[type[msgspec.Struct], ...] = typing.get_args(Record)

# Surrogates too, except a pair: in JSON that is the same text as the character that the pair stands for.
texts = st.text(st.characters(exclude_categories=()), max_size=8).map(
    lambda s: s.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@functools.cache
def of(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's type."""
    simple: dict[Any, st.SearchStrategy[Any]] = {
        str: texts,
        bool: st.booleans(),
        int: st.integers(-(2**63), 2**63 - 1),
        float: st.floats(),
        type(None): st.none(),
        Any: values,
    }
    if kind in simple:
        return simple[kind]
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return st.lists(of(inside[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(texts, of(inside[1]), max_size=3)
    if origin in (types.UnionType, typing.Union):
        return st.one_of(*map(of, inside))
    if issubclass(kind, enum.Enum):
        return st.sampled_from(kind)
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{field: of(hints[field]) for field in kind.__struct_fields__})


def plain(value: Any) -> str:
    """Text that is equal for equal values: the order of keys is no part of JSON, and a NaN is not equal to itself."""
    if isinstance(value, dict):
        return repr(sorted((repr(key), plain(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}{[plain(item) for item in value]}"
    if isinstance(value, msgspec.Struct):
        return f"{type(value).__name__}{plain(msgspec.structs.asdict(value))}"
    return repr(value)


def shuffled(value: Any, draw: st.DrawFn) -> Any:
    if isinstance(value, dict):
        return {key: shuffled(value[key], draw) for key in draw(st.permutations(list(value)))}
    return [shuffled(item, draw) for item in value] if isinstance(value, list) else value


@st.composite
def two_orders(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    value = draw(st.dictionaries(texts, values, max_size=4))
    return value, shuffled(value, draw)


# --- ids


@given(two_orders())
def test_the_order_of_keys_does_not_change_an_id(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    one, other = Case.make("s", "o", pair[0]), Case.make("s", "o", pair[1])
    assert one.id == other.id
    # A template may print a mapping in its order, so one id must not stand for two orders.
    assert json.dumps(one.input) == json.dumps(other.input) == json.dumps(from_line(to_line(one), Case).input)


def test_an_id_is_the_same_on_every_machine() -> None:
    assert Case.make("toy", "add", {"numbers": [1, 2, 3]}).id == "7d55305e4b757a116992"
    text = b'["toy","add",{"b":"\\u00e9\\ud83d\\ude00\\ud800","n":[1,-2,1.5,true,null]},{"k":["ff","float16",[2,3]]}]'
    case = Case.make(
        "toy",
        "add",
        {"n": [1, -2, 1.5, True, None], "b": "\u00e9\U0001f600\ud800"},
        {"k": ArrayRef("ff", "float16", (2, 3))},
    )
    assert case.id == hashlib.sha256(text).hexdigest()[:20]


def test_what_differs_has_different_ids() -> None:
    inputs: list[Any] = [1, 1.0, True, "1", [1], None, {}, [], "", "\u00e9", "e\u0301", -0.0, 0.0, 0]
    cases = [Case.make("s", "o", {"x": value}) for value in inputs]
    cases += [Case.make("s", "p", {"x": 1}), Case.make("t", "o", {"x": 1}), Case.make("s", "o", {"y": 1})]
    cases += [Case.make("s", "o", {"x": 1}, {"a": ArrayRef("ff", "float16", (n,))}) for n in (1, 2)]
    assert len({case.id for case in cases}) == len(cases)


# --- reading back


@pytest.mark.parametrize("kind", RECORDS, ids=lambda k: k.__name__)
@settings(max_examples=40)
@given(data=st.data())
def test_reading_back_what_was_written_is_the_identity(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    record = data.draw(of(kind))
    line = to_line(record)
    back = from_line(line, kind)
    assert type(back) is kind
    assert plain(msgspec.structs.asdict(back)) == plain(msgspec.structs.asdict(record))
    assert to_line(back) == line


@given(values)
def test_a_record_is_one_line_of_plain_ascii(value: Any) -> None:
    line = to_line(Observation("c", "t", "answered", value))  # type: ignore[arg-type]
    assert line.isascii()
    assert line.endswith(b"\n")
    assert len(line.splitlines()) == 1


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 10**80, "\ud800", "\udfff\x00\x1b", float("inf"), -0.0, 5e-324])
def test_odd_values_survive(value: Any) -> None:
    seen = Observation("c", "t", "answered", {"v": [value]})  # type: ignore[arg-type]
    back = from_line(to_line(seen), Observation).payload["v"][0]
    assert (repr(back), type(back)) == (repr(value), type(value))


def test_a_record_of_another_type_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        from_line(to_line(Case.make("s", "o", {})), Verdict)


@given(values)
def test_canonical_text_is_json_and_a_fixed_point(value: Any) -> None:
    text = canonical(value)
    assert canonical(json.loads(text)) == text
    assert digest(json.loads(text)) == digest(value)


# --- schemas


def validator(name: str) -> jsonschema.Draft202012Validator:
    checked_in = json.loads((REPOSITORY / "reports" / "schema" / f"{name}.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(checked_in)
    return jsonschema.Draft202012Validator(checked_in)


def schema_of(path: Path, folder: Path) -> str | None:
    names = [name for pattern, name in schemas.FILES.items() if path.relative_to(folder).match(pattern)]
    nested = [name for pattern, name in schemas.FILES.items() if path in set(folder.glob(pattern))]
    return nested[0] if nested and nested[0] in names else None


def check_folder(folder: Path) -> set[str]:
    """Validate every file of a run folder; returns the schemas that were used."""
    used = set()
    reports = {"report.md", "report.html", "junit.xml"}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        relative = path.relative_to(folder)
        if relative.parts[0] in {"blobs", "logs"} or str(relative) in reports:
            continue
        name = schema_of(path, folder)
        assert name is not None, f"{relative} is accounted for by no schema"
        check = validator(name)
        text = path.read_text("ascii")
        for line in text.splitlines() if path.suffix == ".ndjson" else [text]:
            check.validate(json.loads(line))
        used.add(name)
    return used


def test_every_file_that_a_run_writes_validates(afere: Afere) -> None:
    ran = afere("run", "-t", "toy-honest", "-t", "toy-drops-last", "-t", "toy-refuses-negative", "--json")
    assert ran.status == 1
    used = check_folder(Path(ran.json["folder"]))
    assert used == set(schemas.FILES.values())


def test_every_file_that_the_single_stages_write_validates(afere: Afere) -> None:
    folder = Path(afere("plan", "-t", "toy-honest").out.strip())
    assert check_folder(folder) == {"options", "case"}
    afere("record", folder)
    assert check_folder(folder) == {"options", "case", "header", "observation", "footer"}
    afere("judge", folder)
    check_folder(folder)


def test_the_checked_in_schemas_are_current() -> None:
    folder = REPOSITORY / "reports" / "schema"
    assert schemas.stale(folder) == [], "export them anew: afere schema reports/schema"


def test_no_schema_is_left_over() -> None:
    found = {path.name for path in (REPOSITORY / "reports" / "schema").glob("*.schema.json")}
    assert {f"{name}.schema.json" for name in schemas.TYPES} <= found
    assert set(OUTPUTS) <= set(schemas.TYPES)


def test_a_schema_refuses_what_is_not_of_it() -> None:
    line = json.loads(to_line(Observation("c", "t", "answered")))  # type: ignore[arg-type]
    check = validator("observation")
    assert check.is_valid(line)
    assert not check.is_valid({**line, "outcome": "splendid"})
    assert not check.is_valid({k: v for k, v in line.items() if k != "case"})


def test_the_schema_command_says_what_is_out_of_date(afere: Afere, tmp_path: Path) -> None:
    folder = tmp_path / "schemas"
    assert afere("schema", folder).status == 0
    assert afere("schema", "--check", folder).status == 0
    (folder / "case.schema.json").write_text("{}")
    (folder / "footer.schema.json").unlink()
    ran = afere("schema", "--check", folder)
    assert ran.status == 1
    assert "case.schema.json is out of date" in ran.err
    assert "footer.schema.json is missing" in ran.err
