"""The five stages in a row: plan, record, judge, report, gate; and judging a recorded run again."""

from __future__ import annotations

import json
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

import msgspec

from harness import __version__, expectations, report
from harness.environment import environment
from harness.findings import Cause, Collector, Note, Reduce, causes, findings, order, stale
from harness.gate import gate
from harness.journal import RunError, RunFolder, RunIncompleteError, write_atomic
from harness.judge import Tally, judge, judge_round, matrix, verdicts
from harness.minimise import Budget
from harness.outcome import Exit, Status
from harness.plan import Ask, PlanError, plan, select_suites, select_targets
from harness.provision import ProvisionError, provision
from harness.record import Opened, finish, opened, record
from harness.records import FORMAT, Finding, Header, SelfCheck, Summary, canonical, from_line
from harness.report.model import RunReport
from harness.rerun import Reducer
from harness.suite import Session, Suite, all_suites

MINIMISED = "minimised"
"""Name of the round that holds the smallest cases."""


class Options(msgspec.Struct, frozen=True):
    """What a run is asked to do. The names are those of the command line and of ``afere.toml``."""

    suite: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    cases: int | None = None
    seed: int = 0
    jobs: int = 2
    out: str = "reports/runs"
    expect: tuple[str, ...] = ()
    format: tuple[str, ...] = tuple(report.FORMATS)
    minimise: bool = True
    minimise_evaluations: int = 300
    minimise_seconds: float = 60.0
    provision: bool = True
    limits: dict[str, float] = {}


class Events(msgspec.Struct, frozen=True):
    """Who is told of progress."""

    stage: Callable[[str], None] = lambda _text: None
    observed: Callable[[str, int, int], None] = lambda _target, _done, _total: None


class Interrupted(Exception):  # noqa: N818 - not an error
    """Ctrl-C while recording. The run can be resumed; ``args[0]`` is its folder."""


class Judged(msgspec.Struct, frozen=True):
    """A run: its folder; once judged, the report and its files."""

    folder: Path
    report: RunReport | None
    reports: dict[str, Path]

    @property
    def summary(self) -> Summary | None:
        """What judging counted."""
        return None if self.report is None else self.report.summary

    @property
    def exit(self) -> Exit:
        """The exit status."""
        return Exit.OK if self.report is None else self.report.exit


def run(options: Options, events: Events = Events()) -> Judged:  # noqa: B008 - frozen
    """Do the five stages.

    :raises PlanError: the options name something that is not there
    :raises ExpectationError: an expectations file cannot be used
    :raises RunError: the run folder cannot be written or read
    :raises Interrupted: Ctrl-C while recording
    """
    return record_run(plan_run(options, events).path, events, judged=True)


def plan_run(options: Options, events: Events = Events()) -> RunFolder:  # noqa: B008 - frozen
    """Make a run folder with its plan. Nothing is started.

    :raises PlanError: the options name something that is not there
    :raises ExpectationError: an expectations file cannot be used
    """
    chosen = select_suites(all_suites(), options.suite)
    asks = select_targets(chosen, options.target)
    suites = _with_targets(chosen, asks, options)
    known = expectations.gather(suites, [Path(p) for p in options.expect])
    folder = RunFolder.create(Path(options.out) / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}")
    try:
        events.stage("planning")
        targets = [str(a.name) for a in asks if not a.kind.impossible(a.name)]
        first = expectations.witnesses(known, suites, targets, folder.blobs)
        plan(suites, options.cases, options.seed, folder.blobs, folder.round(), first)
        write_atomic(folder.path / "options.json", canonical(msgspec.to_builtins(options)) + b"\n")
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)  # a plan appears whole or not at all
        raise
    return folder


def record_run(path: Path, events: Events = Events(), *, judged: bool) -> Judged:  # noqa: B008 - frozen
    """Record what is missing of a planned run, and judge it where ``judged`` is true.

    :raises RunError: it is no planned run, it is complete, or another process is at work on it
    :raises Interrupted: Ctrl-C before the end
    """
    with RunFolder(path).locked():
        try:
            return _record_run(path, events, judged=judged)
        except KeyboardInterrupt:
            raise Interrupted(path) from None


def _record_run(path: Path, events: Events, *, judged: bool) -> Judged:
    folder = RunFolder.load(path) if (path / "header.json").exists() else RunFolder(path)
    options = _planned_options(path)
    # One that ended between its recording and its judgement goes on there: only now can its cases be made smaller.
    if folder.footer() is not None and not (judged and not (path / "summary.json").exists()):
        raise RunError(f"{path} is complete; judge it again with: afere judge {path}")
    asks = select_targets(select_suites(all_suites(), options.suite), options.target)
    failed = _provision(asks, events) if options.provision else {}
    events.stage("opening targets")
    with opened(asks, Session(folder.path.resolve(), options.limits), failed) as targets:
        if not (folder.path / "header.json").exists():
            folder.write_header(_header(folder, options, targets))
        _same_targets(folder.header(), targets)
        events.stage("recording")
        if not record(folder, folder.round(), targets, jobs=options.jobs, notify=events.observed):
            raise Interrupted(folder.path)
        finish(folder, targets)
        if not judged:
            return Judged(folder.path, None, {})
        reduce: Reduce | None = None
        if options.minimise:
            budget = Budget(options.minimise_evaluations, options.minimise_seconds)
            suites = {t.suite.name: t.suite for t in targets}
            reduce = Reducer(suites, targets, folder.blobs, budget, lambda text: events.stage(f"minimising {text}"))
        return _judge(folder, options, events, reduce, targets)


def _same_targets(header: Header, targets: Sequence[Opened]) -> None:
    """Refuse to go on with a run on other targets than it was begun with: the rest would pass for theirs.

    :raises RunIncompleteError: a target cannot be asked any more, or is another version now
    """
    begun = {(t.suite, t.name): t for t in header.targets}
    for t in targets:
        was = begun.get((t.suite.name, t.name))
        if was is None:
            raise RunIncompleteError(f"the run was begun without {t.name}; start a new run")
        if was.unsupported or was.unavailable:
            continue  # the header says so, and the run is judged by it
        if not t.ready:
            why = t.info.unsupported or t.info.unavailable
            raise RunIncompleteError(f"{t.name} cannot be asked any more: {why}; mend that and --resume again")
        for key in sorted({*was.reports, *t.info.reports}):
            before, now = was.reports.get(key), t.info.reports.get(key)
            if "version" in key and before != now:
                raise RunIncompleteError(
                    f"{t.name} is another one than when the run was begun ({key} {before} then, {now} now); "
                    "start a new run"
                )


def _planned_options(path: Path) -> Options:
    try:
        return msgspec.json.decode((path / "options.json").read_bytes(), type=Options)
    except FileNotFoundError:
        raise RunError(f"{path} is not a planned run: it has no options.json. Make one with: afere plan") from None
    except msgspec.MsgspecError as error:
        raise RunError(f"{path / 'options.json'} is damaged: {error}") from error


def _with_targets(chosen: Sequence[Suite], asks: Sequence[Ask], options: Options) -> list[Suite]:
    with_targets = [s for s in chosen if any(a.suite is s for a in asks)]
    lonely = [s.name for s in chosen if s not in with_targets]
    if lonely and options.suite:
        raise PlanError(f"no target was named for suite {lonely[0]!r}; see: afere targets list")
    return with_targets


def _provision(asks: Sequence[Ask], events: Events) -> dict[str, str]:
    """Make every target ready to start; target name -> why it could not be."""
    failed: dict[str, str] = {}
    for ask in asks:
        need = ask.kind.needs(ask.name)
        if need is None or ask.kind.impossible(ask.name):
            continue
        events.stage(f"provisioning {need.name}")
        try:
            provision(need.recipe, need.name, progress=events.stage)
        except ProvisionError as error:
            failed[str(ask.name)] = str(error)
    return failed


def _header(folder: RunFolder, options: Options, targets: Sequence[Opened]) -> Header:
    sizes = Counter(case.suite for case in folder.round().plan())
    return Header(
        run=folder.path.name,
        format=FORMAT,
        afere=__version__,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        options=msgspec.to_builtins(options),
        environment=environment(),
        targets=tuple(t.info for t in targets),
        planned=sizes.total(),
        pairs=sum(sizes[t.suite.name] for t in targets),
    )


def rejudge(path: Path, options: Options = Options(), events: Events = Events()) -> Judged:  # noqa: B008 - frozen
    """Judge a recorded run again, without any target.

    :raises RunError: it is no run, or it cannot be read
    """
    folder = RunFolder.load(path)
    with folder.locked():
        return _judge(folder, options, events, None, ())


def _judge(
    folder: RunFolder, options: Options, events: Events, reduce: Reduce | None, targets: Sequence[Opened]
) -> Judged:
    events.stage("judging")
    header = folder.header()
    installed = all_suites()
    suites = {t.suite: installed[t.suite] for t in header.targets if t.suite in installed}
    known = expectations.gather(suites.values(), [Path(p) for p in options.expect])
    collector = Collector(suites)
    tally = judge(folder, suites, [collector])
    if reduce is not None:
        _keep_minimised(folder, causes(collector, suites, known, reduce), targets, options)
    notes = _judge_minimised(folder, suites, collector, tally)
    found = causes(collector, suites, known, notes=notes)
    clauses = {c.id: suite.name for suite in suites.values() for c in suite.clauses()}
    folder.write_clauses(c for suite in suites.values() for c in suite.clauses())
    listed = findings(folder, found, suites, known)
    folder.write_findings(listed)
    old = stale(known, found, [t.name for t in header.targets if not t.unsupported], suites)
    summary = _summary(header, tally, clauses, listed, old)
    folder.write_summary(summary)
    events.stage("reporting")
    model = view(folder, tally.ratios)
    write_atomic(folder.path / "ratios.json", canonical(msgspec.to_builtins(model.ratios)) + b"\n")
    return Judged(folder.path, model, report.write(model, folder.path, options.format))


def _keep_minimised(folder: RunFolder, found: Sequence[Cause], targets: Sequence[Opened], options: Options) -> None:
    """Record the smallest case of every cause on all targets of its suite, as a round of its own."""
    small = {c.example.case.id: c.example.case for c in found}
    if not small:
        return
    round_ = folder.round(MINIMISED)
    shutil.rmtree(round_.path, ignore_errors=True)  # of a judgement that was itself interrupted
    round_.write_plan(small.values())
    notes = {c.example.case.id: Note(c.minimised, c.note) for c in found}
    write_atomic(round_.path / "notes.json", canonical(msgspec.to_builtins(notes)) + b"\n")
    if not record(folder, round_, targets, jobs=options.jobs):
        shutil.rmtree(round_.path, ignore_errors=True)
        raise KeyboardInterrupt


def _judge_minimised(
    folder: RunFolder, suites: Mapping[str, Suite], collector: Collector, tally: Tally
) -> dict[str, Note]:
    """Let the smallest cases speak for their causes. They count in no table: they were chosen because they fail."""
    round_ = folder.round(MINIMISED)
    if not (round_.path / "plan.ndjson").exists():
        return {}
    aside = Tally()
    judge_round(round_, suites, folder.header().targets, folder.blobs, aside, [collector])
    if aside.verdicts[Status.ERROR.value]:
        tally.problem(f"{aside.verdicts[Status.ERROR.value]} verdict(s) on minimised cases are errors of ours")
    return msgspec.json.decode((round_.path / "notes.json").read_bytes(), type=dict[str, Note])


def _summary(
    header: Header, tally: Tally, clauses: Mapping[str, str], listed: Sequence[Finding], old: Sequence[str]
) -> Summary:
    new = tuple(f.signature for f in listed if not f.known)
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for (clause, target), counter in sorted(tally.counts.items()):
        counts.setdefault(clause, {})[target] = dict(sorted(counter.items()))
    return Summary(
        run=header.run,
        valid=not tally.problems,
        problems=tuple(tally.problems),
        cases=tally.cases,
        observations=tally.observations,
        verdicts=dict(sorted(tally.verdicts.items())),
        decisions=tally.decisions,
        outcomes={name: dict(sorted(c.items())) for name, c in sorted(tally.outcomes.items())},
        matrix=matrix(tally, clauses, header.targets),
        counts=counts,
        new=new,
        known=tuple(f.signature for f in listed if f.known),
        stale=tuple(old),
        exit=int(gate(tally.problems, new)),
    )


def view(folder: RunFolder, sampled: Mapping[tuple[str, str], Sequence[float]]) -> RunReport:
    """The typed model that every report format is made from."""
    ratios: dict[str, dict[str, tuple[float, ...]]] = {}
    for (clause, target), values in sorted(sampled.items()):
        ratios.setdefault(target, {})[clause] = tuple(values)
    return _model(folder, ratios)


def _model(folder: RunFolder, ratios: dict[str, dict[str, tuple[float, ...]]]) -> RunReport:
    return RunReport(
        header=folder.header(),
        footer=folder.footer(),
        clauses=folder.clauses(),
        summary=folder.summary(),
        findings=tuple(sorted(folder.findings(), key=order)),
        selfcheck=scores(),
        ratios=ratios,
        verdicts=lambda: (v for v in verdicts(folder.path) if v.status is not Status.PASS),
    )


def load_report(path: Path) -> RunReport:
    """The typed model of a judged run.

    :raises RunError: it is no run, or it was not judged yet, or it was changed since
    """
    folder = RunFolder.load(path)
    _unchanged(folder)
    kept = folder.path / "ratios.json"
    # The standard library reads it because msgspec refuses a ratio that is infinite.
    raw = json.loads(kept.read_bytes()) if kept.exists() else {}
    ratios = msgspec.convert(raw, dict[str, dict[str, tuple[float, ...]]])
    return _model(folder, ratios)


def _unchanged(folder: RunFolder) -> None:
    """Refuse a judgement that does not go with the files beside it: its status would vouch for what is gone.

    :raises RunIncompleteError: with what does not fit
    """
    summary, footer, listed = folder.summary(), folder.footer(), folder.findings()
    wrong = ""
    if summary.valid and (footer is None or footer.observations != summary.observations):
        wrong = "its footer is not that of the recording that was judged"
    elif not (folder.path / "verdicts.ndjson").exists():
        wrong = "it has no verdicts.ndjson"
    elif {f.signature: bool(f.known) for f in listed} != {
        **dict.fromkeys(summary.new, False),
        **dict.fromkeys(summary.known, True),
    }:
        wrong = "its findings are not those that summary.json names"
    elif summary.valid == bool(summary.problems) or summary.exit != gate(summary.problems, summary.new):
        wrong = "summary.json contradicts itself"
    if wrong:
        raise RunIncompleteError(
            f"{folder.path} was changed since it was judged: {wrong}; judge it again: afere judge {folder.path}"
        )


def write_reports(path: Path, formats: Sequence[str]) -> dict[str, Path]:
    """Write the reports of a judged run.

    :raises RunError: it is no run, or it was not judged yet
    """
    return report.write(load_report(path), path, formats)


def scores() -> tuple[SelfCheck, ...]:
    """What the self-check last measured of the installed suites; it ships with them."""
    text = resources.files("reports").joinpath("selfcheck.ndjson")
    if not text.is_file():
        return ()
    return tuple(from_line(line, SelfCheck) for line in text.read_text(encoding="ascii").splitlines() if line)


def latest(out: Path) -> Path:
    """The newest run folder below ``out``.

    :raises RunError: there is none
    """
    # By the time of its first files and not by name: two runs may begin within a second, a merged one has any name.
    files = [path for name in ("options.json", "header.json") for path in out.glob(f"*/{name}")]
    if not files:
        raise RunError(f"there is no run below {out}; start one with: afere run")
    return max(files, key=lambda path: (path.stat().st_mtime_ns, path)).parent
