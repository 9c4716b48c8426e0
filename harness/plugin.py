"""pytest plugin: a suite's clauses as test items, one for each clause and target.

    pytest suites/render --target vllm-rs@0.33.0 --cases 200

A test that takes the fixture ``verdict`` and whose module holds a ``SUITE`` is run once for each clause and target. The
run behind it is made once, by whichever pytest-xdist worker needs it first, and shared.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.outcome import Status

if TYPE_CHECKING:
    from harness.plan import Ask
    from harness.report.model import Cell
    from harness.suite import Suite


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of a run that make sense here."""
    group = parser.getgroup("afere", "conformance of targets (afere)")
    group.addoption(
        "--target",
        action="append",
        default=[],
        metavar="NAME",
        help="a target to ask, kind[@version][:variant]; repeat it",
    )
    group.addoption("--cases", type=int, default=None, metavar="N", help="cases per suite (default: the suite's own)")
    group.addoption("--afere-seed", type=int, default=0, metavar="N", help="seed of the generators (default: 0)")


def _asks(suite: Suite, config: pytest.Config) -> Sequence[Ask]:
    from harness.plan import PlanError, select_targets
    from harness.suite import TargetName, all_suites

    names = config.getoption("--target")
    everywhere = {kind for other in all_suites().values() for kind in other.kinds()}
    try:
        mine = [
            n for n in names if TargetName.parse(n).kind in suite.kinds() or TargetName.parse(n).kind not in everywhere
        ]
        return select_targets([suite], mine) if mine or not names else []
    except (PlanError, ValueError) as error:
        raise pytest.UsageError(str(error)) from error


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One item for each clause and target."""
    if "verdict" not in metafunc.fixturenames:
        return
    suite: Suite = metafunc.module.SUITE
    pairs = [(clause.id, str(ask.name)) for ask in _asks(suite, metafunc.config) for clause in suite.clauses()]
    metafunc.parametrize("verdict", pairs, indirect=True, ids=[f"{clause}-{target}" for clause, target in pairs])


class Verdict:
    """The judgement of one clause on one target."""

    def __init__(self, cell: Cell | None, problems: Sequence[str], folder: Path) -> None:
        self._cell = cell
        self._problems = problems
        self._folder = folder

    def check(self) -> None:
        """Fail, skip or pass the test. A known finding is an expected failure; what was not judged is no pass."""
        if self._problems:
            pytest.fail(f"the run in {self._folder} vouches for nothing: {'; '.join(self._problems)}", pytrace=False)
        if self._cell is None or self._cell.status is None:
            pytest.fail("the clause was not judged on this target", pytrace=False)
        cell, status = self._cell, self._cell.status
        if status in {Status.UNSUPPORTED, Status.SKIPPED}:
            pytest.skip(f"{status.value}: {cell.counts}")
        if status is Status.UNKNOWN and not cell.counts:
            pytest.skip("no planned case is about this clause on this target; try more --cases")
        if cell.known:
            pytest.xfail(f"known: {cell.known}")
        if status is not Status.PASS:
            lines = [f"{status.value}: {cell.counts}"]
            for finding in cell.findings:
                lines.append(f"{finding.title}\n  expected {finding.expected!r}\n  got      {finding.got!r}")
                lines.append(f"  {finding.replay}")
            pytest.fail("\n".join(lines), pytrace=False)


def _shared_folder(suite: Suite, config: pytest.Config, base: Path) -> Path:
    """The run of a suite, made by the first worker that asks for it."""
    from filelock import FileLock

    from harness import run as stages

    done = base / f"afere-{suite.name}.json"
    with FileLock(f"{done}.lock"):
        if not done.exists():
            options = stages.Options(
                suite=(suite.name,),
                target=tuple(str(ask.name) for ask in _asks(suite, config)),
                cases=config.getoption("--cases"),
                seed=config.getoption("--afere-seed"),
                out=str(base / "afere-runs"),
                format=("ndjson",),
            )
            done.write_text(json.dumps(str(stages.run(options).folder)), encoding="utf-8")
    return Path(json.loads(done.read_text(encoding="utf-8")))


@pytest.fixture(name="verdict")
def _verdict(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    from harness.run import load_report

    clause, target = request.param
    base = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        base = base.parent  # each xdist worker has a folder of its own below the shared one
    module: Any = request.module
    folder = _shared_folder(module.SUITE, request.config, base)
    report = load_report(folder)
    return Verdict(report.cells().get((clause, target)), report.problems, folder)
