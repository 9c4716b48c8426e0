"""The report for programs: reading back what was written, refusing what is no report, and the schemas."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.outcome import Exit
from harness.records import Verdict, to_line
from harness.report import RunReport, ndjson, schema, write
from suites.selfcheck import sample_run
from suites.selfcheck.sample_run import (
    ANYTHING,
    JOIN,
    produce,
    sample,
)

replace = msgspec.structs.replace


def read_back(report: RunReport, folder: Path) -> RunReport:
    return ndjson.read(write(report, folder, ["ndjson"])["ndjson"])


def same(left: RunReport, right: RunReport) -> bool:
    fields = ("header", "footer", "clauses", "summary", "findings", "selfcheck")
    return all(getattr(left, f) == getattr(right, f) for f in fields) and list(left.verdicts()) == list(
        right.verdicts()
    )


def test_reading_back_is_the_identity(tmp_path: Path) -> None:
    back = read_back(sample(), tmp_path)
    assert same(back, sample())
    assert list(back.verdicts()) == list(back.verdicts()), "the verdicts can be read more than once"


@given(payload=ANYTHING, words=st.text(st.characters(exclude_categories=())))
def test_any_payload_survives_the_round_trip(
    payload: object, words: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    finding = replace(JOIN, expected=payload, got=payload, title=words, note=words)
    verdict = replace(sample_run.VERDICTS[0], got=payload, note=words)
    report = replace(sample(), findings=(finding, *sample().findings[1:]), verdicts=lambda: (verdict,))
    assert same(read_back(report, tmp_path_factory.mktemp("r")), report)


def test_reports_without_an_end_or_a_beginning_are_not_reports(tmp_path: Path) -> None:
    lines = produce(sample(), "ndjson").splitlines(keepends=True)
    path = tmp_path / "report.ndjson"
    path.write_bytes(b"".join(lines[:-1]))
    assert ndjson.read(path).exit is Exit.INVALID
    for broken, message in (
        (b"", "no header"),
        (b"".join(lines[1:]), "no header"),
        (b"".join(lines[:-2]), "no summary"),
        (b"".join([*lines, lines[1]]), "follows the footer"),
        (b"".join([*lines[:2], lines[1], *lines[2:]]), "a second clause R-JOIN-1"),
        (b"".join([lines[0], *lines]), "a second header"),
        (b"".join(lines)[:-20], "not a record"),
        (b'{"type":"case"}\n', "not a record"),
    ):
        path.write_bytes(broken)
        with pytest.raises(ndjson.ReportError, match=message):
            ndjson.read(path)


def test_verdicts_are_streamed() -> None:
    made = 0

    def many() -> Iterator[Verdict]:
        nonlocal made
        for _ in range(1_000):
            made += 1
            yield sample_run.VERDICTS[0]

    class Watch(io.RawIOBase):
        seen = 0

        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            self.seen += 1
            assert made <= self.seen, "a verdict was made before the one before it was written"
            return len(bytes(data))  # type: ignore[call-overload]

    out = Watch()
    ndjson.write(replace(sample(), verdicts=many), out)  # type: ignore[arg-type]
    assert made == 1_000


def test_every_line_validates_against_the_exported_schema(tmp_path: Path) -> None:
    schema.export(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {f"{name}.schema.json" for name in schema.TYPES}
    loaded = {name: json.loads((tmp_path / f"{name}.schema.json").read_text()) for name in schema.TYPES}
    for one in loaded.values():
        jsonschema.Draft202012Validator.check_schema(one)
    line_schema = jsonschema.Draft202012Validator(loaded["report-line"])
    lines = [json.loads(line) for line in produce(sample(), "ndjson").splitlines()]
    for line in lines:
        line_schema.validate(line)
        jsonschema.Draft202012Validator(loaded[line["type"]]).validate(line)
    assert {line["type"] for line in lines} == {
        "header",
        "clause",
        "verdict",
        "finding",
        "selfcheck",
        "summary",
        "footer",
    }
    for wrong in ({**lines[0], "planned": "many"}, {"type": "header"}, {**lines[0], "type": "other"}, {}):
        assert not line_schema.is_valid(wrong)


def test_stale_schemas_are_named(tmp_path: Path) -> None:
    schema.export(tmp_path)
    assert schema.stale(tmp_path) == []
    (tmp_path / "case.schema.json").write_text("{}")
    (tmp_path / "header.schema.json").unlink()
    assert schema.stale(tmp_path) == ["case.schema.json is out of date", "header.schema.json is missing"]


def test_records_in_a_line_stay_in_a_line() -> None:
    assert to_line(replace(sample_run.VERDICTS[0], note="a\nb\u2028c")).count(b"\n") == 1
