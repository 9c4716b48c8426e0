"""The journal: whatever moment a run is killed at, at most the case in flight is lost, and the rest can be done."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.journal import Appender, RunError, RunFolder, read_lines, slug, write_atomic
from harness.outcome import Outcome
from harness.records import FORMAT, Observation, to_line
from suites.selfcheck.conftest import Afere
from suites.selfcheck.drive import contents, finished, gated, on_disk, the_run, toy_cases, toy_run

ROWS = [Observation(f"case-{i}", "t", Outcome.ANSWERED, {"text": "\u00e9\ud800" * i}) for i in range(3)]


# --- torn lines


def test_a_line_torn_at_any_byte_is_dropped_and_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "o.ndjson"
    whole = b"".join(map(to_line, ROWS))
    ends = [0, *(len(b"".join(map(to_line, ROWS[: n + 1]))) for n in range(len(ROWS)))]
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        kept = ROWS[: sum(end <= length for end in ends) - 1]
        assert list(read_lines(path, Observation)) == kept
        with Appender(path) as file:
            file.append(ROWS[0])
        assert list(read_lines(path, Observation)) == [*kept, ROWS[0]]


@pytest.mark.parametrize("size", [65535, 65536, 65537, 200_000])
def test_a_torn_line_longer_than_a_read_is_cut_off(tmp_path: Path, size: int) -> None:
    path = tmp_path / "o.ndjson"
    path.write_bytes(to_line(ROWS[0]) + b"x" * size)
    with Appender(path) as file:
        file.append(ROWS[1])
    assert list(read_lines(path, Observation)) == ROWS[:2]


def test_a_damaged_line_in_the_middle_is_named_and_not_skipped(tmp_path: Path) -> None:
    path = tmp_path / "o.ndjson"
    path.write_bytes(to_line(ROWS[0]) + b'{"type":"observation"\n' + to_line(ROWS[2]))
    with pytest.raises(RunError, match=r"o\.ndjson, line 2 is damaged"):
        list(read_lines(path, Observation))


def test_each_observation_is_on_disk_before_the_next_begins(tmp_path: Path) -> None:
    path = tmp_path / "o.ndjson"
    with Appender(path) as file:
        for count, row in enumerate(ROWS, 1):
            file.append(row)
            assert list(read_lines(path, Observation)) == ROWS[:count]


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "footer.json"
    write_atomic(path, b"one")

    def broken(self: Path, _target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, b"two")
    assert [p.name for p in tmp_path.iterdir()] == ["footer.json"]
    assert path.read_bytes() == b"one"


@given(st.text(max_size=30), st.text(max_size=30))
def test_different_targets_have_different_files(one: str, other: str) -> None:
    assert "/" not in slug(one)
    assert (slug(one) == slug(other)) == (one == other)


# --- killed and resumed


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("straight")
    status, _, err = finished(["run", "--out", "runs", "--quiet"], folder)
    assert status == 0, err
    return the_run(folder / "runs")


@pytest.mark.parametrize("at", [0, 7, 39])
def test_a_killed_run_loses_the_case_in_flight_at_most(tmp_path: Path, straight: Path, at: int) -> None:
    with gated(["run", "--out", "runs", "--quiet"], tmp_path, at) as run:
        run.until_there()
        run.process.send_signal(signal.SIGKILL)
        assert run.process.wait() == -signal.SIGKILL
    folder = the_run(tmp_path / "runs")
    assert on_disk(folder, "toy-gated") == at
    assert not (folder / "footer.json").exists()
    status, _, err = finished(["run", "--resume", "LAST", "--out", "runs", "--quiet"], tmp_path)
    assert status == 0, err
    names = ("plan.ndjson", "observations", "footer.json", "verdicts.ndjson", "summary.json")
    assert contents(folder, names) == contents(straight, names)
    assert not list(folder.glob("*.pending"))


def test_a_case_that_kills_us_three_times_is_filed_as_a_crash(tmp_path: Path) -> None:
    words = ["run", "--out", "runs", "--quiet"]
    for _ in range(2):
        # each time the run gets to the same case, the fourth; a resumed one counts from where it begins
        at = 3 if words[1] == "--out" else 0
        with gated(words, tmp_path, at) as run:
            run.until_there()
            run.process.kill()
            run.process.wait()
        words = ["run", "--resume", "LAST", "--out", "runs", "--quiet"]
    folder = the_run(tmp_path / "runs")
    assert on_disk(folder, "toy-gated") == 3
    finished(words, tmp_path)
    rows = list(RunFolder(folder).round().observations("toy", "toy-gated"))
    assert [row.outcome for row in rows].count(Outcome.CRASHED) == 1
    assert rows[3].outcome is Outcome.CRASHED
    assert "died twice" in rows[3].detail
    assert len(rows) == 40


def test_a_complete_run_is_not_resumed(afere: Afere) -> None:
    folder = afere("run", "--json").json["folder"]
    ran = afere("run", "--resume", folder)
    assert ran.status == 3
    assert "is complete; judge it again with: afere judge" in ran.err


def test_observations_that_do_not_follow_the_plan_are_not_resumed(afere: Afere) -> None:
    folder = Path(afere("plan", "-t", "toy-honest").out.strip())
    other = toy_cases(3, seed=99)[-1]
    with RunFolder(folder).round().appender("toy", "toy-honest") as file:
        file.append(Observation(other.id, "toy-honest", Outcome.ANSWERED))
    ran = afere("run", "--resume", folder)
    assert ran.status == 3
    assert "does not follow the plan" in ran.err


# --- headers


def _edit(folder: Path, **changes: Any) -> None:
    path = folder / "header.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("words", [["judge"], ["report"], ["gate"], ["run", "--resume"], ["record"]])
def test_a_run_of_a_newer_version_is_refused(afere: Afere, tmp_path: Path, words: list[str]) -> None:
    folder = toy_run(tmp_path / "run", footer=False).path
    (folder / "options.json").write_text("{}")
    _edit(folder, format=FORMAT + 1, something_new={"a": 1})
    ran = afere(*words, folder)
    assert ran.status == 3
    assert f"of a newer Afere (format {FORMAT + 1}; this one reads up to {FORMAT}): upgrade" in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (b"", "not JSON"),
        (b'{"type":"header"', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "damaged"),
        (b"{}", "damaged"),
        (b'{"type":"footer","format":1}', "damaged"),
    ],
)
def test_a_damaged_header_is_one_sentence(afere: Afere, tmp_path: Path, header: bytes, says: str) -> None:
    folder = toy_run(tmp_path / "run").path
    (folder / "header.json").write_bytes(header)
    ran = afere("judge", folder)
    assert ran.status == 3
    assert says in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_run_goes_into_an_empty_folder_only(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="not empty"):
        RunFolder.create(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
