"""What ``afere bench`` measures of this suite: cases a second beside Schemathesis on the same server, and judging."""

from __future__ import annotations

import contextlib
import itertools
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from harness import bench
from harness.outputs import BenchRow
from harness.provision import Venv, provision
from harness.run import Events, Options, run
from harness.sandbox import Limits, run_once
from harness.suite import Session, TargetName
from suites.render.setups import LEDGER, fixtures
from suites.render.targets import KINDS, Renderers

TARGET = "vllm-rs@0.33.0"
SCHEMATHESIS = "schemathesis==4.32.5"
_CASES = re.compile(r"^\s*(\d+) generated", re.MULTILINE)
_SECONDS = re.compile(r" in ([0-9.]+)s =")


def judging(notify: bench.Notify) -> Iterator[BenchRow]:
    """Verdicts a second, and memory, on a stored run of this suite."""
    return bench.judging(notify, "render")


def _ours(notify: bench.Notify, cases: int) -> float:
    """Cases a second from generating to judging; starting the server is not counted."""
    marks: list[tuple[str, float]] = []

    def stage(text: str) -> None:
        notify(text)
        marks.append((text, time.perf_counter()))

    with tempfile.TemporaryDirectory(prefix="afere-bench-") as folder:
        options = Options(suite=("render",), target=(TARGET,), cases=cases, out=folder, minimise=False, format=())
        run(options, Events(stage))
    marks.append(("", time.perf_counter()))
    spent = sum(
        after - before
        for (text, before), (_, after) in itertools.pairwise(marks)
        if text in {"planning", "recording", "judging"}
    )
    return cases / spent


@contextlib.contextmanager
def _server(folder: Path, notify: bench.Notify) -> Iterator[str]:
    """Start the target's first server and yield its address."""
    name = TargetName.parse(TARGET)
    kind = next(kind for kind in KINDS if kind.name == name.kind)
    need = kind.needs(name)
    assert need is not None
    provision(need.recipe, need.name, progress=notify)
    target = kind.build(name, Session(folder, {}))
    assert isinstance(target, Renderers)
    try:
        target.open()
        yield target.address(LEDGER)
    finally:
        target.close()


def _schemathesis(notify: bench.Notify, examples: int) -> float:
    """Cases a second by Schemathesis's own count and clock, against the same server with the same kind of request."""
    notify("provisioning schemathesis")
    environment = provision(Venv(requirements=(SCHEMATHESIS,)), SCHEMATHESIS.replace("==", "@"), progress=notify)
    with (
        tempfile.TemporaryDirectory(prefix="afere-bench-") as folder,
        _server(Path(folder), notify) as url,
    ):
        notify("schemathesis")
        schema = fixtures() / "openapi" / "chat-render.json"
        lines: list[str] = []
        argv = [
            environment.script("schemathesis"), "run", str(schema), "--url", url, "--phases", "coverage,fuzzing",
            "--max-examples", str(examples), "--continue-on-failure", "--seed", "1",
        ]  # fmt: skip
        run_once(argv, name="schemathesis", logs=Path(folder), limits=Limits(wall_s=600.0), on_line=lines.append)
    text = "\n".join(lines)
    cases, seconds = _CASES.search(text), _SECONDS.search(text)
    if cases is None or seconds is None:
        raise RuntimeError(f"schemathesis printed no count of cases; its last lines: {lines[-5:]}")
    return int(cases[1]) / float(seconds[1])


def throughput(notify: bench.Notify) -> Iterator[BenchRow]:
    """The same route of the same server, one after the other."""
    theirs = _schemathesis(notify, 150)
    _ours(notify, 50)  # Schemathesis's clock starts after its imports; so does ours
    ours = _ours(notify, 3000)
    yield BenchRow("render cases", ours, "1/s", theirs, SCHEMATHESIS, ours / theirs, wanted=8.0,
                   note="generation and judging included")  # fmt: skip
