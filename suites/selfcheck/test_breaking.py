"""What an attacker or an unlucky user may try: none of it ends green, and none of it ends without a sentence."""

from __future__ import annotations

import errno
import json
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from harness import suite as suite_module
from harness.blobs import BlobStore
from harness.journal import Appender, RunError, RunFolder, read_lines
from harness.outcome import Outcome
from harness.record import NESTING, ask, open_one
from harness.records import Case, Observation
from harness.suite import Session, TargetKind, TargetName
from harness.targets.base import Hello, InProcess, TargetUnavailable
from suites.selfcheck.conftest import REPOSITORY, Afere, Install
from suites.selfcheck.drive import gated, observe, the_run, toy_cases, toy_run, write_run
from suites.selfcheck.test_accident import With, odd
from suites.selfcheck.toy import Toy, honest

# --- a process that ends itself with status 0


def leave(*_arguments: Any, **_named: Any) -> Any:
    sys.exit(0)


class Opens(InProcess):
    """Ends the process when it is opened."""

    open = leave


class Runs(InProcess):
    """Ends the process when it is asked."""

    run = leave


def method(name: str) -> Toy:
    one = Toy()
    setattr(one, name, leave)
    return one


LEAVING: dict[str, Callable[[], tuple[Toy, list[str]]]] = {
    "cases": lambda: (method("cases"), []),
    "judge": lambda: (method("judge"), []),
    "needs": lambda: (method("needs"), []),
    "opening": lambda: (With(lambda name, _session: Opens(str(name), {})), ["--target", "odd"]),
    "running": lambda: (With(lambda name, _session: Runs(str(name), {"add": honest})), ["--target", "odd"]),
}


@pytest.mark.parametrize("where", LEAVING)
def test_who_ends_the_process_does_not_choose_its_status(install: Install, afere: Afere, where: str) -> None:
    one, words = LEAVING[where]()
    install(one)
    assert afere("run", *words, "--format", "ndjson").status == 2


# --- suites that cannot be loaded


def entries(**values: str) -> tuple[EntryPoint, ...]:
    return tuple(EntryPoint(name.rstrip("_"), value, "afere.suites") for name, value in values.items())


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[tuple[EntryPoint, ...]], dict[str, str]]]:
    suite_module._load.cache_clear()

    def broken(found: tuple[EntryPoint, ...]) -> dict[str, str]:
        monkeypatch.setattr(suite_module, "entry_points", lambda group: found)
        return suite_module.broken_suites()

    yield broken
    suite_module._load.cache_clear()


LEAVES, TOY = "suites.selfcheck.test_breaking:method_leaves.name", "suites.selfcheck.toy:SUITE"


class _Leaves:
    name = property(leave)


method_leaves = _Leaves()


@pytest.mark.parametrize(
    ("found", "name", "says"),
    [
        (entries(bad=LEAVES), "bad", "SystemExit"),
        (entries(other=TOY), "other", "calls itself 'toy'"),
        (entries(toy=TOY, toy_=TOY), "toy", "two packages"),
    ],
    ids=["ends the process", "another name", "named twice"],
)
def test_a_suite_that_cannot_be_trusted_to_load_is_broken(
    fresh: Callable[..., dict[str, str]], found: tuple[EntryPoint, ...], name: str, says: str
) -> None:
    assert says in fresh(found)[name]


# --- a run folder that was changed


def drop(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def edit_summary(**changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "summary.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}) + "\n")

    return edit


CHANGES: dict[str, Callable[[Path], None]] = {
    "no footer": drop("footer.json"),
    "no verdicts": drop("verdicts.ndjson"),
    "no findings": lambda folder: shutil.rmtree(folder / "findings"),
    "another status": edit_summary(exit=0),
    "invalid without a reason": edit_summary(valid=False),
    "nothing new": edit_summary(new=[], exit=0),
}


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("command", ["gate", "report"])
def test_a_judgement_that_does_not_fit_its_files_is_refused(
    afere: Afere, tmp_path: Path, change: str, command: str
) -> None:
    folder = toy_run(tmp_path / "run", ["toy-drops-last"]).path
    assert afere("judge", folder).status == 1
    assert afere("gate", folder).status == 1
    CHANGES[change](folder)
    ran = afere(command, folder)
    assert ran.status == 2
    assert "was changed since it was judged" in ran.err


@pytest.mark.usefixtures("toy")
def test_observations_of_another_target_do_not_count(afere: Afere, tmp_path: Path) -> None:
    cases = toy_cases(6)
    rows = [observe(case, "toy-honest") for case in cases]
    folder = write_run(tmp_path / "run", cases, {"toy-honest": rows, "toy-drops-last": rows})
    ran = afere("judge", folder.path, "--json")
    assert ran.status == 2
    assert any("that is of toy-honest" in problem for problem in ran.json["summary"]["problems"])


# --- resuming


def changing(**now: Any) -> With:
    """A target that is another one when it is opened for the second time."""
    count = iter(range(9))

    class Changes(InProcess):
        def open(self) -> Hello:
            if next(count) == 0:
                return Hello(("add",), {"version": "1"})
            if "gone" in now:
                raise TargetUnavailable("it went away")
            return Hello(("add",), {"version": "2"})

        def run(self, case: Case, blobs: Any) -> Any:
            if len(case.input["numbers"]) == 3 and not now.get("resumed"):
                now["resumed"] = True
                raise KeyboardInterrupt
            return super().run(case, blobs)

    return With(lambda name, _session: Changes(str(name), {"add": honest}))


@pytest.mark.parametrize(("now", "says"), [({"gone": True}, "it went away"), ({}, "version 1 then, 2 now")])
def test_a_run_is_not_finished_on_another_target(
    install: Install, afere: Afere, now: dict[str, Any], says: str
) -> None:
    install(changing(**now))
    assert afere("run", "--target", "odd").status == 2
    ran = afere("run", "--resume", "LAST")
    assert ran.status == 2
    assert says in ran.err
    assert not (the_run(Path("reports/runs")) / "footer.json").exists()


def test_a_run_is_recorded_by_one_process_at_a_time(tmp_path: Path, afere: Afere) -> None:
    with gated(["run", "--out", "runs"], tmp_path, at=3) as run:
        run.until_there()
        folder = the_run(tmp_path / "runs")
        for words in (["run", "--resume", folder], ["record", folder], ["judge", folder]):
            ran = afere(*words)
            assert ran.status == 3
            assert "is in use: another afere" in ran.err
        status, _, err = run.ended()
    assert status == 0, err
    with RunFolder(folder).locked():
        pass


def test_a_run_that_ended_before_it_was_judged_goes_on_there(afere: Afere, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_arguments: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("harness.rerun.Reducer.__call__", interrupt)
        ran = afere("run", "-t", "toy-drops-last")
    assert ran.status == 2
    assert "afere run --resume" in ran.err
    ran = afere("run", "--resume", "LAST", "--json")
    assert ran.status == 1
    assert [f["minimised"] for f in ran.json["findings"]] == [True]
    assert afere("run", "--resume", "LAST").status == 3


def test_a_target_that_never_returns_does_not_hold_the_process(
    tmp_path: Path,
) -> None:
    with gated(["run", "--out", "runs"], tmp_path, at=3) as run:
        run.until_there()
        run.process.send_signal(signal.SIGINT)
        status = run.process.wait()  # the gate stays shut
    assert status == 2


# --- files


class Slow:
    """Takes three bytes a write, then none."""

    def __init__(self, room: int) -> None:
        self.room, self.data = room, b""

    def write(self, data: memoryview) -> int:
        if len(self.data) >= self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.data += bytes(data[:3])
        return len(data[:3])

    def close(self) -> None: ...


def test_a_write_that_takes_a_part_is_continued(tmp_path: Path) -> None:
    case = toy_cases(1)[0]
    row = observe(case, "toy-honest")
    with Appender(tmp_path / "rows.ndjson") as file:
        file._file.close()
        slow = Slow(10**6)
        file._file = slow  # type: ignore[assignment]
        file.append(row)
        (tmp_path / "rows.ndjson").write_bytes(slow.data)
        assert list(read_lines(tmp_path / "rows.ndjson", Observation)) == [row]
        file._file = Slow(6)  # type: ignore[assignment]
        with pytest.raises(OSError, match="No space left"):
            file.append(row)


def test_a_full_disk_gets_a_sentence_and_2(afere: Afere, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Appender, "append", full)
    ran = afere("run")
    assert ran.status == 2
    assert ran.err.splitlines()[-1].startswith("afere: No space left on device: make room")


def test_a_replay_line_can_be_pasted(afere: Afere) -> None:
    ran = afere("run", "-t", "toy-drops-last", "--out", "my runs; echo é", "--json")
    (finding,) = ran.json["findings"]
    folder = the_run(Path("my runs; echo é"))
    assert finding["replay"] == f"afere replay '{folder / 'findings' / finding['signature']}.json'"


# --- output


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("levels", "outcome"),
    [(0, Outcome.ANSWERED), (NESTING, Outcome.ANSWERED), (NESTING + 1, Outcome.FAILED), (980, Outcome.FAILED)],
)
def test_what_is_recorded_can_be_read_back(tmp_path: Path, levels: int, outcome: Outcome) -> None:
    target = open_one(Toy(), "odd", InProcess("odd", {"add": lambda _input, _arrays: nested(levels)}))
    with Appender(tmp_path / "rows.ndjson") as file:
        file.append(ask(target, toy_cases(3)[2], BlobStore(tmp_path)))
    (row,) = read_lines(tmp_path / "rows.ndjson", Observation)
    assert row.outcome is outcome


def test_what_a_target_prints_stays_out_of_the_json(install: Install, afere: Afere) -> None:
    def loud(input: Any, arrays: Any) -> Any:  # noqa: A002
        print("hello")
        return honest(input, arrays)

    install(odd(loud))
    ran = afere("run", "--target", "odd", "--json")
    assert ran.json["summary"]["exit"] == ran.status == 0
    assert "hello" in ran.err


def test_a_message_cannot_speak_to_the_terminal(afere: Afere) -> None:
    ran = afere("judge", "\x1b[31mred\u202e")
    assert ran.status == 3
    assert "\\u001b[31mred\\u202e" in ran.err


def test_a_kind_that_is_known_by_its_address_is_listed(install: Install, afere: Afere) -> None:
    kind = TargetKind("at", "by address", lambda name, _session: InProcess(str(name), {}), address="HOST:PORT")
    install(type("Addressed", (Toy,), {"kinds": lambda _self: {"at": kind}})())
    ran = afere("targets", "list")
    assert ran.status == 0, ran.err
    assert "by address" in ran.out


@pytest.mark.usefixtures("toy")
def test_a_missing_folder_is_no_lock(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "gone").locked():
        assert not (tmp_path / "gone").exists()
    with pytest.raises(RunError), RunFolder(tmp_path).locked(), RunFolder(tmp_path).locked():
        pass


# --- replaying


@pytest.fixture
def finding(afere: Afere) -> Path:
    afere("run", "-t", "toy-drops-last", "--format", "ndjson")
    (path,) = the_run(Path("reports/runs")).glob("findings/*.json")
    return path


EDITS: dict[str, tuple[dict[str, Any], int, str]] = {
    "no target": ({"targets": []}, 3, "names no target"),
    "a target that is its own peer": ({"peers": ["toy-drops-last"]}, 1, "still shows"),
    "an operation that no target has": ({"witness": {"op": "zap"}}, 2, "outside its capabilities"),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_finding_that_was_edited_does_not_read_as_gone(afere: Afere, finding: Path, name: str) -> None:
    changes, status, says = EDITS[name]
    kept = json.loads(finding.read_text())
    for key, value in changes.items():
        kept[key] = {**kept[key], **value} if isinstance(value, dict) else value
    finding.write_text(json.dumps(kept) + "\n")
    ran = afere("replay", finding)
    assert ran.status == status, ran.out
    assert says in ran.out + ran.err


def test_a_difference_that_cannot_be_judged_is_not_gone(afere: Afere, install: Install, finding: Path) -> None:
    install(method("judge"))
    ran = afere("replay", finding)
    assert ran.status == 2
    assert "raised SystemExit" in ran.out


def test_a_difference_is_not_gone_where_its_target_is_away(afere: Afere, install: Install, finding: Path) -> None:
    class Away(InProcess):
        def open(self) -> Hello:
            raise TargetUnavailable("it is away")

    install(With(lambda name, _session: Away(str(name), {})))
    ran = afere("replay", finding, "-t", "toy-honest", "-t", "odd")
    assert ran.status == 2
    assert "it is away" in ran.out


def test_a_finding_file_without_an_end_is_one_sentence(afere: Afere, finding: Path) -> None:
    finding.write_text("[" * 100_000)
    ran = afere("replay", finding)
    assert ran.status == 3
    assert "is not the file of a finding" in ran.err


@pytest.mark.parametrize("error", [TargetUnavailable("it was never built"), ZeroDivisionError(), SystemExit(0)])
def test_a_target_that_cannot_be_made_costs_itself_and_no_pass(
    install: Install, afere: Afere, error: BaseException
) -> None:
    def build(_name: Any, _session: Any) -> Any:
        raise error

    install(With(build))
    ran = afere("run", "-t", "odd", "-t", "toy-honest", "--json")
    assert ran.status == 2
    assert any("odd could not be asked" in problem for problem in ran.json["summary"]["problems"])


def test_the_targets_in_the_docs_can_be_made(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs/targets.md").read_text(encoding="utf-8")
    blocks = [b for b in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "KIND =" in b]
    assert len(blocks) == 3
    made = set()
    for block in blocks:
        names: dict[str, Any] = {"__file__": str(tmp_path / "targets.py")}
        exec(block, names)
        kind = names["KIND"]
        name = TargetName(kind.name, "".join(kind.versions[:1]), "http://127.0.0.1:9" if kind.address else "")
        try:
            made.add(kind.build(name, Session(tmp_path, {})).transport)
        except TargetUnavailable:  # it is in no cache
            made.add("worker")
        if kind.address:
            sent = names["request"](Case.make("render", "chat", {"body": {"n": 1}}))
            assert (sent.body, sent.headers) == (b'{"n": 1}', {"content-type": "application/json"})
    assert made == {"in-process", "http", "worker"}
