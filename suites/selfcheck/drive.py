"""What several tests of the harness do: plan and record a toy run in this process, drive a gated one in another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from harness.blobs import BlobStore
from harness.journal import RunFolder, read_lines
from harness.outcome import Outcome
from harness.records import FORMAT, Case, Footer, Header, Observation, Summary, TargetInfo
from harness.run import rejudge
from suites.selfcheck.toy import TARGETS, Toy

REPOSITORY = Path(__file__).resolve().parents[2]


def info(name: str, **changes: Any) -> TargetInfo:
    """A target as it stands in a header."""
    plain = TargetInfo(name, "toy", "in-process", ("add",), {}, {"wall": "none"})
    return msgspec.structs.replace(plain, **changes)


def observe(case: Case, target: str, **changes: Any) -> Observation:
    """What a toy target does with a case."""
    numbers = case.input["numbers"]
    outcome = Outcome.ANSWERED if numbers else Outcome.REFUSED
    payload = TARGETS[target](case.input, {}) if numbers else None
    return msgspec.structs.replace(Observation(case.id, target, outcome, payload), **changes)


def write_run(
    path: Path,
    cases: Sequence[Case],
    rows: dict[str, Sequence[Observation]],
    *,
    footer: bool = True,
    header: dict[str, Any] | None = None,
    infos: Sequence[TargetInfo] | None = None,
) -> RunFolder:
    """A recorded run with exactly these observations; header and footer count what is there unless told otherwise."""
    folder = RunFolder.create(path)
    folder.round().write_plan(cases)
    targets = tuple(info(name) for name in rows) if infos is None else tuple(infos)
    plain = Header(
        path.name, FORMAT, "0", "2026-01-01T00:00:00+00:00", {}, {"machine": "m"}, targets, len(cases),
        len(cases) * len(targets),
    )  # fmt: skip
    folder.write_header(msgspec.structs.replace(plain, **(header or {})))
    for name, observations in rows.items():
        with folder.round().appender("toy", name) as file:
            for row in observations:
                file.append(row)
    if footer:
        count = sum(map(len, rows.values()))
        folder.write_footer(Footer(path.name, "2026-01-01T00:00:01+00:00", count, {"answered": count}))
    return folder


def toy_cases(count: int = 12, seed: int = 0) -> list[Case]:
    """Cases of the toy suite."""
    return list(Toy().cases(count, seed, BlobStore(Path("unused"))))  # the toy has no arrays


def toy_run(path: Path, targets: Sequence[str] = ("toy-honest",), count: int = 12, **options: Any) -> RunFolder:
    """A complete, honest recording of toy targets."""
    cases = toy_cases(count)
    return write_run(path, cases, {name: [observe(case, name) for case in cases] for name in targets}, **options)


def judged(folder: RunFolder) -> Summary:
    """Judge a recorded run of the (installed) toy suite."""
    summary = rejudge(folder.path).summary
    assert summary is not None
    return summary


def contents(folder: Path, names: Sequence[str] = ("plan.ndjson", "observations", "footer.json")) -> dict[str, Any]:
    """What a recording says, without what depends on the clock."""
    found: dict[str, Any] = {}
    for name in names:
        place = folder / name
        for path in sorted(p for p in ([place] if place.is_file() else place.rglob("*")) if p.is_file()):
            lines = [json.loads(line) for line in path.read_bytes().splitlines()]
            for line in lines:
                for field in ("ended", "run", "cost"):
                    line.pop(field, None)
            found[str(path.relative_to(folder))] = lines
    return found


class Gated:
    """A run in another process that stops at a case and waits."""

    def __init__(self, words: Sequence[str], cwd: Path, at: int) -> None:
        told, tell = os.pipe()
        wait, self._open = os.pipe()
        env = {
            **os.environ,
            "AFERE_GATE": f"{at}:{tell}:{wait}",
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "suites.selfcheck.gated", *words],
            cwd=cwd,
            env=env,
            pass_fds=(tell, wait),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(tell)
        os.close(wait)
        self._told = told

    def until_there(self) -> None:
        """Block until the run is at the case; fail with what it said if it ended before."""
        if os.read(self._told, 1) != b".":
            out, err = self.process.communicate()
            raise AssertionError(f"the run ended with {self.process.returncode} before its gate\n{out}\n{err}")

    def release(self) -> None:
        """Let the waiting target answer."""
        if self._open >= 0:
            os.close(self._open)
            self._open = -1

    def ended(self) -> tuple[int, str, str]:
        """Wait for the end: status, standard output, standard error."""
        self.release()
        out, err = self.process.communicate()
        return self.process.returncode, out, err

    def close(self) -> None:
        """Leave nothing behind."""
        self.release()
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        os.close(self._told)


@contextmanager
def gated(words: Sequence[str], cwd: Path, at: int = 10**9) -> Iterator[Gated]:
    """Start the toy's command line elsewhere; it stops at the target's case ``at``."""
    run = Gated(words, cwd, at)
    try:
        yield run
    finally:
        run.close()


def finished(words: Sequence[str], cwd: Path) -> tuple[int, str, str]:
    """Run the toy's command line in another process to its end."""
    with gated(words, cwd) as run:
        return run.ended()


def the_run(out: Path) -> Path:
    """The only run below ``out``."""
    (found,) = out.iterdir()
    return found


def on_disk(folder: Path, target: str) -> int:
    """How many whole observations a run holds of a target."""
    return sum(1 for _ in read_lines(folder / "observations" / f"toy-{target}.ndjson", Observation))
