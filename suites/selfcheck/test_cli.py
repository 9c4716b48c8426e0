"""The command line: exit statuses, one sentence for every mistake, clean output, and an orderly end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer.main

from harness import __version__, cli, schemas
from harness import record as record_module
from harness.journal import Round, RunFolder
from harness.records import FORMAT, Finding, from_line
from harness.report.schema import schemas as texts_of
from harness.run import latest
from suites.selfcheck.conftest import REPOSITORY, Afere, Install
from suites.selfcheck.drive import contents, finished, gated, on_disk, the_run, toy_run
from suites.selfcheck.toy import Toy

ANSI = re.compile(r"\x1b")


def commands() -> list[list[str]]:
    cli._plug()
    root = typer.main.get_command(cli.app)
    found: list[list[str]] = [[]]
    for name, command in sorted(root.commands.items()):  # type: ignore[attr-defined]
        found.append([name])
        found += [[name, inner] for inner in sorted(getattr(command, "commands", ()))]
    return found


def schema(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(texts_of(schemas.TYPES)[f"{name}.schema.json"]))


# --- help


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["targets", "add", "--help"]], ids=" ".join)
def test_help_is_there(afere: Afere, words: list[str]) -> None:
    ran = afere(*words)
    assert (ran.status, ran.err) == (0, "")
    assert "Usage:" in ran.out


def test_every_command_has_help_that_says_what_it_is_for(afere: Afere) -> None:
    every = commands()
    assert ["judge"] in every
    assert ["targets", "list"] in every
    for words in every:
        ran = afere(*words, "--help")
        assert ran.status == 0, words
        assert len(ran.out.splitlines()) > 5, words


def test_the_version(afere: Afere) -> None:
    assert afere("--version").out == f"afere {__version__}\n"


# --- exit statuses


def test_0_nothing_unexpected(afere: Afere) -> None:
    assert afere("run").status == 0
    assert afere("judge").status == 0
    assert afere("report").status == 0
    assert afere("gate").status == 0


def test_1_unexpected_findings(afere: Afere) -> None:
    assert afere("run", "-t", "toy-takes-empty").status == 1
    assert afere("gate", "LAST").status == 1


def test_2_an_invalid_run(afere: Afere, tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run", footer=False).path
    ran = afere("judge", folder)
    assert ran.status == 2
    assert "it has no footer" in ran.out
    assert afere("gate", folder).status == 2


def test_the_stages_one_by_one_are_the_run(afere: Afere) -> None:
    words = ("-t", "toy-honest", "-t", "toy-drops-last", "--cases", "30")
    whole = Path(afere("run", "--no-minimise", "--json", "--out", "whole", *words).json["folder"])
    assert afere("plan", "--out", "parts", *words).status == 0
    assert afere("record", "--out", "parts", "--quiet").status == 0
    assert afere("judge", "--out", "parts").status == 1
    assert afere("report", "--out", "parts").status == 0
    assert afere("gate", "--out", "parts").status == 1
    names = ("plan.ndjson", "observations", "footer.json", "verdicts.ndjson", "summary.json")
    assert contents(the_run(Path("parts")), names) == contents(whole, names)


# --- mistakes

BAD = {
    "no such command": (["rum"], "No such command 'rum'"),
    "no such option": (["run", "--case", "3"], "No such option"),
    "a value that is no number": (["run", "--cases", "many"], "Invalid value for '--cases'"),
    "an option without its value": (["run", "--cases"], "requires an argument"),
    "unknown suite": (["run", "--suite", "toi"], "no suite 'toi'; did you mean 'toy'?"),
    "unknown suite to check": (["selfcheck", "--suite", "toi"], "no suite 'toi'; did you mean 'toy'?"),
    "unknown target": (["run", "-t", "toy-honesty"], "no target kind 'toy-honesty' in the chosen suites; did you mean"),
    "a target that is no name": (["run", "-t", "Toy!"], "target name 'Toy!' is not of the form"),
    "a version of an embedded target": (["run", "-t", "toy-honest@2"], "toy-honest takes no version"),
    "unknown variant": (["run", "-t", "toy-honest:fast"], "toy-honest has no variants"),
    "a target twice": (["run", "-t", "toy-honest", "-t", "toy-honest"], "target toy-honest is named twice"),
    "unknown format": (["run", "--format", "pdf"], "unknown report format 'pdf'; known are: html, junit"),
    "a limit without a number": (["run", "--limit", "wall_s"], "--limit 'wall_s' is not of the form name=number"),
    "a limit that is no number": (["run", "--limit", "wall_s=long"], "--limit 'wall_s=long' is not of the form"),
    "unknown limit": (["run", "--limit", "wal_s=3"], "unknown limit 'wal_s'; did you mean 'wall_s'?"),
    "a negative limit": (["run", "--limit", "cpu_s=-1"], "limit cpu_s is -1.0; it must be above 0"),
    "a limit of nothing": (["run", "--limit", "cpu_s=nan"], "limit cpu_s is nan"),
    "no cases": (["run", "--cases", "0"], "cases is 0; it must be at least 1"),
    "no jobs": (["run", "--jobs", "0"], "jobs is 0; it must be at least 1"),
    "no options file": (["run", "--config", "gone.toml"], "configuration file gone.toml does not exist"),
    "a broken options file": (["run", "--config", "broken.toml"], "configuration file broken.toml cannot be read"),
    "an unknown key": (["run", "--config", "key.toml"], "key.toml: unknown key 'case'; did you mean 'cases'?"),
    "no run yet": (["judge"], "there is no run below reports/runs; start one with: afere run"),
    "no run to resume": (["run", "--resume", "LAST"], "there is no run below reports/runs"),
    "no such folder": (["judge", "gone"], "gone is not a run folder: it has no header.json"),
    "not a planned run": (["record", "gone"], "gone is not a planned run: it has no options.json"),
    "a file as a run": (["judge", "key.toml"], "key.toml"),
    "a run that was not judged": (["report", "recorded"], "recorded has no summary.json"),
    "a run of a newer version": (["judge", "newer"], f"newer is of a newer Afere (format {FORMAT + 1}"),
    "a damaged plan": (["judge", "damaged"], "plan.ndjson, line 2 is damaged"),
    "no such finding": (["replay", "gone.json"], "finding file gone.json does not exist"),
    "a folder as a finding": (["replay", "recorded"], "recorded is a folder; give the file of one finding"),
    "no finding": (["replay", "key.toml"], "key.toml is not the file of a finding"),
    "an unknown limit to replay": (["replay", "gone.json", "--limit", "wal_s=3"], "unknown limit 'wal_s'"),
    "unknown target to add": (["targets", "add", "toy-honesty"], "no target kind 'toy-honesty'"),
    "unknown target to check": (["targets", "check", "toy-honesty"], "no target kind 'toy-honesty'"),
    "an out folder that is a file": (["run", "--out", "key.toml"], "key.toml"),
}


@pytest.fixture
def litter(here: Path) -> Path:
    """Files to stumble over."""
    (here / "key.toml").write_text("case = 3\n")
    (here / "broken.toml").write_text("cases = \n")
    toy_run(here / "recorded", count=4)
    newer = toy_run(here / "newer", count=4).path / "header.json"
    newer.write_text(json.dumps({**json.loads(newer.read_text()), "format": FORMAT + 1}))
    damaged = toy_run(here / "damaged", count=4).path / "plan.ndjson"
    lines = damaged.read_bytes().splitlines(keepends=True)
    damaged.write_bytes(b"".join([lines[0], b"{\n", *lines[2:]]))
    return here


@pytest.mark.usefixtures("litter")
@pytest.mark.parametrize("name", BAD)
def test_a_mistake_gets_one_sentence_and_3(afere: Afere, name: str) -> None:
    words, says = BAD[name]
    ran = afere(*words)
    assert (ran.status, ran.out) == (3, "")
    *progress, sentence = ran.err.splitlines()
    assert sentence.startswith("afere: ")
    assert says in sentence
    assert progress in ([], ["judging"]), ran.err
    assert not Path("reports").exists(), "a mistake leaves no run behind"


@pytest.mark.usefixtures("litter")
@pytest.mark.parametrize("name", ["unknown suite", "no run yet", "a run of a newer version", "no such option"])
def test_a_mistake_under_json_is_json(afere: Afere, name: str) -> None:
    words, says = BAD[name]
    ran = afere(*words, "--json")
    assert (ran.status, ran.err) == (3, "")
    schema("output-error").validate(ran.json)
    assert says in ran.json["error"]
    assert ran.json["exit"] == 3


def test_a_file_that_may_not_be_read_is_named(afere: Afere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = toy_run(tmp_path / "run").path
    real = Path.open

    def guarded(self: Path, *args: Any, **named: Any) -> Any:  # root, as in a container, may read everything
        if self.name == "plan.ndjson":
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, *args, **named)

    monkeypatch.setattr(Path, "open", guarded)
    ran = afere("judge", folder)
    assert ran.status == 3
    assert ran.err.splitlines()[-1].endswith("plan.ndjson: Permission denied")


def test_a_file_that_is_a_folder_is_named(afere: Afere, tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run").path
    (folder / "plan.ndjson").unlink()
    (folder / "plan.ndjson").mkdir()
    ran = afere("judge", folder)
    assert ran.status == 3
    assert ran.err.splitlines()[-1].endswith("plan.ndjson: Is a directory")


def test_a_defect_of_ours_keeps_its_traceback_and_is_no_finding(afere: Afere, install: Install) -> None:
    class Defect(Toy):
        def clauses(self) -> Any:
            raise ZeroDivisionError

    install(Defect())
    ran = afere("run")
    assert ran.status == 2, "Python's own status for a traceback would read as unexpected findings"
    assert "Traceback" in ran.err
    assert ran.err.splitlines()[-1].startswith("afere: a defect of Afere or of a suite: ZeroDivisionError")
    ran = afere("run", "--json")
    assert (ran.status, ran.json["exit"]) == (2, 2)
    assert afere("--version").status == 0


# --- JSON


@pytest.mark.parametrize("target", ["toy-honest", "toy-drops-last"])
def test_json_output_is_one_value_of_its_schema(afere: Afere, target: str) -> None:
    ran = afere("run", "-t", target, "--json")
    assert ran.err == ""
    schema("output-run").validate(ran.json)
    ran = afere("judge", "LAST", "--json")
    assert ran.err == ""
    schema("output-run").validate(ran.json)
    ran = afere("selfcheck", "--json")
    schema("output-selfcheck").validate(ran.json)
    ran = afere("targets", "list", "--json")
    schema("output-targets").validate(ran.json)
    assert {row["kind"] for row in ran.json["targets"]} == set(Toy().kinds())


def test_replay_speaks_json_too(afere: Afere) -> None:
    folder = Path(afere("run", "-t", "toy-drops-last", "--json").json["folder"])
    (file,) = (folder / "findings").iterdir()
    ran = afere("replay", file, "--json")
    schema("output-replay").validate(ran.json)
    assert ran.json["finding"] == from_line(file.read_bytes(), Finding).signature == file.stem
    ran = afere("replay", file, "-t", "toy-folded", "--json")
    assert (ran.status, ran.json["shows"]) == (0, {"toy-folded": False})


# --- output


@pytest.mark.parametrize("words", [["run"], ["run", "-t", "toy-drops-last"], ["selfcheck"], ["targets", "list"]])
def test_no_colour_and_no_bar_where_it_is_piped(tmp_path: Path, words: list[str]) -> None:
    status, out, err = finished(words, tmp_path)
    assert status in {0, 1}, err
    assert out
    assert not ANSI.search(out + err)
    assert "\r" not in out + err


def test_quiet_says_the_verdict_alone(afere: Afere) -> None:
    loud, quiet = afere("run"), afere("run", "--quiet")
    assert quiet.err == ""
    assert 0 < len(quiet.out.splitlines()) < len(loud.out.splitlines())
    assert quiet.status == 0


def test_planning_prints_the_folder_and_nothing_else(afere: Afere) -> None:
    ran = afere("plan")
    assert (ran.status, ran.err) == (0, "")
    assert Path(ran.out.strip()).is_dir()
    assert ran.out.count("\n") == 1


# --- an orderly end


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_an_interrupted_run_can_be_resumed(tmp_path: Path, number: signal.Signals) -> None:
    with gated(["run", "--out", "runs"], tmp_path, at=5) as run:
        run.until_there()
        run.process.send_signal(number)
        status, out, err = run.ended()
    assert status == 2, err
    assert out == ""
    assert "Traceback" not in err
    folder = the_run(tmp_path / "runs")
    assert f"interrupted; nothing is lost. Go on with: afere run --resume runs/{folder.name}" in err
    assert not (folder / "footer.json").exists()
    assert on_disk(folder, "toy-gated") >= 5
    status, _, err = finished(["run", "--resume", "LAST", "--out", "runs"], tmp_path)
    assert status == 0, err
    assert on_disk(folder, "toy-gated") == 40
    assert not [row for row in contents(folder)["observations/toy-toy-gated.ndjson"] if row["outcome"] == "crashed"]


def test_an_interrupted_run_says_so_in_json(tmp_path: Path) -> None:
    with gated(["run", "--json"], tmp_path, at=3) as run:
        run.until_there()
        run.process.send_signal(signal.SIGINT)
        status, out, err = run.ended()
    assert (status, err) == (2, "")
    schema("output-error").validate(json.loads(out))
    assert "interrupted" in json.loads(out)["error"]


def test_an_interrupt_while_the_smallest_cases_are_recorded_leaves_nothing_half_done(
    afere: Afere, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = record_module.record

    def record(folder: RunFolder, round_: Round, targets: Any, **named: Any) -> bool:
        done = real(folder, round_, targets, **named)
        return done and round_.path.name != "minimised"

    monkeypatch.setattr("harness.run.record", record)
    ran = afere("run", "-t", "toy-drops-last")
    assert ran.status == 2
    assert "interrupted" in ran.err
    folder = the_run(Path("reports/runs"))
    assert not (folder / "minimised").exists()
    assert afere("judge", folder).status == 1


def test_the_last_run_is_the_newest_whatever_its_name(here: Path) -> None:
    for number, name in enumerate(["b", "a", "20990101-000000-ffff", "20260101-000000-0000"]):
        (here / name).mkdir()
        for file in ("options.json", "header.json"):
            (here / name / file).write_text("{}")
            os.utime(here / name / file, ns=(0, 10**18 + number))
    assert latest(here).name == "20260101-000000-0000"


# --- other people's suites


def test_a_suite_of_another_distribution_is_found_by_its_entry_point(tmp_path: Path) -> None:
    found = tmp_path / "site" / "someones_suite-1.0.dist-info"
    found.mkdir(parents=True)
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: someones-suite\nVersion: 1.0\n")
    (found / "entry_points.txt").write_text("[afere.suites]\ntoy = suites.selfcheck.toy:SUITE\n")
    ran = subprocess.run(
        [sys.executable, "-m", "harness", "run", "--suite", "toy", "--json", "--format", "ndjson"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(tmp_path / "site")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["summary"]["cases"] == 40
