"""Speed and memory, measured as ratios of things that run side by side in one go. Judges nothing, asserts nothing.

Suites add measurements of their own through the entry-point group ``afere.bench``: a callable that takes ``notify`` and
yields :class:`harness.outputs.BenchRow`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from harness.journal import RunFolder
from harness.outputs import BenchRow
from harness.plan import nearest
from harness.records import Footer

Notify = Callable[[str], None]
Bench = Callable[[Notify], Iterable[BenchRow]]

OBSERVATIONS = 100_000


def _seconds(argv: Sequence[str], repeats: int) -> float:
    """The median wall clock of a command."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run(argv, check=False, capture_output=True)
        times.append(time.perf_counter() - start)
    return sorted(times)[repeats // 2]


def startup(notify: Notify) -> Iterator[BenchRow]:
    """Commands that should answer at once, against a bare interpreter."""
    bare = _seconds([sys.executable, "-c", "pass"], 5)
    for words in (["--help"], ["targets", "list"]):
        notify(f"afere {' '.join(words)}")
        took = _seconds([sys.executable, "-m", "harness", *words], 5)
        yield BenchRow(f"afere {' '.join(words)}", took, "s", bare, "python -c pass", took / bare, note="wanted: 0.5 s")


def embedded(notify: Notify) -> Iterator[BenchRow]:
    """The first run that a newcomer makes."""
    notify("afere run")
    with tempfile.TemporaryDirectory(prefix="afere-bench-") as folder:
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "harness", "run", "--quiet", "--out", folder], check=False, capture_output=True
        )
        took = time.perf_counter() - start
    yield BenchRow("embedded afere run", took, "s", wanted=180.0, note=f"exit status {done.returncode}")


_JUDGE = """
import sys, time, resource
from pathlib import Path
from harness import run
start = time.perf_counter()
judged = run.rejudge(Path(sys.argv[1]), run.Options(format=()))
took = time.perf_counter() - start
print(sum(judged.summary.verdicts.values()), took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def judging(notify: Notify, suite: str) -> Iterator[BenchRow]:
    """Judge a stored run of 100,000 observations, and one of a tenth of that: verdicts a second, and peak memory.

    The run is real as far as it goes: the embedded targets of ``suite`` are asked once, and what they did is stored
    under as many names as it takes. Suites whose targets answer fast register this under a name of their own.
    """
    from harness import run

    with tempfile.TemporaryDirectory(prefix="afere-bench-") as folder:
        sizes = {}
        for total in (OBSERVATIONS // 10, OBSERVATIONS):
            notify(f"judging {total} observations")
            options = run.Options(suite=(suite,), cases=total // 20, out=f"{folder}/{total}", minimise=False, format=())
            stored = run.record_run(run.plan_run(options).path, judged=False)
            _multiply(RunFolder.load(stored.folder), 20)
            done = subprocess.run(
                [sys.executable, "-c", _JUDGE, str(stored.folder)], check=True, capture_output=True, text=True
            )
            verdicts, took, peak = (float(word) for word in done.stdout.split())
            sizes[total] = (verdicts / took, peak * (1 if sys.platform == "darwin" else 1024))
        small, large = sizes[OBSERVATIONS // 10], sizes[OBSERVATIONS]
    yield BenchRow("verdicts judged", large[0], "1/s", wanted=5000.0, note=f"{OBSERVATIONS} observations")
    yield BenchRow("peak memory of judging", large[1] / 1e6, "MB", small[1] / 1e6, "a tenth of the run",
                   large[1] / small[1], note="wanted: near 1")  # fmt: skip


def _multiply(folder: RunFolder, copies: int) -> None:
    """Store what the targets of a run did under ``copies`` names in all."""
    header, footer, round_ = folder.header(), folder.footer(), folder.round()
    assert footer is not None
    infos = [msgspec.structs.replace(t, name=f"copy@{i}") for i, t in enumerate(header.targets * copies)][:copies]
    for number, info in enumerate(infos):
        original = header.targets[number % len(header.targets)]
        with round_.appender(info.suite, info.name) as file:
            for row in round_.observations(original.suite, original.name):
                file.append(msgspec.structs.replace(row, target=info.name))
    for original in header.targets:
        round_.observations_path(original.suite, original.name).unlink()
    seen = header.planned * copies
    folder.write_header(msgspec.structs.replace(header, targets=tuple(infos), pairs=seen))
    folder.write_footer(Footer(footer.run, footer.ended, seen, footer.outcomes))


OURS: Mapping[str, Bench] = {"startup": startup, "embedded": embedded}


class BenchError(Exception):
    """There is no such measurement."""


def bench(only: Sequence[str], notify: Notify) -> list[BenchRow]:
    """Take the measurements of these names, all of them where none is named.

    :raises BenchError: a name is not one of ours nor of a suite
    """
    table = dict(OURS)
    table.update({entry.name: entry.load() for entry in entry_points(group="afere.bench")})
    for name in only:
        if name not in table:
            raise BenchError(f"no measurement {name!r}{nearest(name, list(table))}")
    return [
        row for name, measure in table.items() if not only or name in only for row in _measured(name, measure, notify)
    ]


def _measured(name: str, measure: Bench, notify: Notify) -> list[BenchRow]:
    """The rows of one measurement. One that breaks says so in its row and costs the others nothing."""
    try:
        return list(measure(notify))
    except Exception as error:
        return [BenchRow(name, None, "", note=f"not measured: {type(error).__name__}: {error}")]


def show(rows: Sequence[BenchRow], console: Console | None = None) -> None:
    """Print the measurements as a table."""
    out = console or Console(highlight=False)
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("what", "value", "beside it", "ratio", "wanted", "note"):
        table.add_column(name, overflow="fold")
    for row in rows:
        beside = "" if row.baseline is None else f"{row.baseline:,.3g} {row.unit} ({row.baseline_name})"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        wanted = "" if row.wanted is None else f"{row.wanted:,.3g}"
        table.add_row(
            row.name, "-" if row.value is None else f"{row.value:,.3g} {row.unit}", beside, ratio, wanted, row.note
        )
    out.print(table)
