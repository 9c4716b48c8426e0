"""The command line. Thin: it reads options, calls one function, prints what came back, and sets the exit status."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness import __version__
from harness.outcome import Exit

if TYPE_CHECKING:
    from harness.run import Judged

# Modules that pull in numpy, rich or a suite are imported by the command that needs them: help answers at once.

app = typer.Typer(
    name="afere",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain text: rich costs every start a fifth of a second
    pretty_exceptions_enable=False,
    help=(
        "Conformance and differential testing of LLM inference stacks.\n\n"
        "Puts one case to every implementation and to an independent reference, and says per numbered clause who "
        "conforms. Start with `afere run`: it needs nothing but this package.\n\n"
        "Five stages, each a command of its own: `plan`, `record`, `judge`, `report`, `gate`; `run` is the five in a "
        "row.\n\n"
        "Exit status: 0 nothing unexpected, 1 unexpected findings, 2 the run is invalid or incomplete, 3 wrong use."
    ),
)

Suites = Annotated[
    list[str] | None, typer.Option("--suite", "-s", help="A subject: render, mla, grammar. Repeat it; default: all.")
]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", "-t", help="kind[@version][:variant], e.g. vllm-rs@0.33.0. Repeat it; default: embedded."),
]
Cases = Annotated[int | None, typer.Option("--cases", "-n", help="Cases per suite. Default: the suite's own.")]
Seed = Annotated[int | None, typer.Option(help="Seed of the generators.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Targets asked side by side.")]
Out = Annotated[str | None, typer.Option(help="Folder that holds the runs. Default: reports/runs.")]
Expect = Annotated[list[str] | None, typer.Option(help="A file of known findings, beside those that ship.")]
Format = Annotated[list[str] | None, typer.Option("--format", help="ndjson, junit, markdown, html. Default: all.")]
Limit = Annotated[
    list[str] | None, typer.Option("--limit", help="Per case, e.g. wall_s=5, cpu_s=5, memory_mb=1024, output_mb=16.")
]
Config = Annotated[Path | None, typer.Option(help="Options file. Default: afere.toml, if it is there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the verdict.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run folder, or LAST for the newest one.")]


_RESULTS: list[Any] = []
"""Where a JSON result goes while :func:`_aside` is in force: the standard output that was there before."""


def _options(config: Path | None, **given: Any) -> Any:
    from harness import config as configuration

    values = {key: value for key, value in given.items() if value is not None and value != []}
    if "limits" in values:
        values["limits"] = _limits(values["limits"])
    return configuration.load(config, values)


def _limits(texts: list[str]) -> dict[str, float]:
    from harness.config import ConfigError, check_limits

    limits = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            limits[name.strip()] = float(value)
        except ValueError:
            raise ConfigError(f"--limit {text!r} is not of the form name=number, e.g. wall_s=5") from None
    check_limits(limits)
    return limits


def _folder(name: str, out: str) -> Path:
    from harness.run import latest

    return latest(Path(out)) if name == "LAST" else Path(name)


def _print_json(value: Any) -> None:
    import json

    import msgspec

    typer.echo(
        json.dumps(msgspec.to_builtins(value), indent=2, sort_keys=True), file=_RESULTS[-1] if _RESULTS else sys.stdout
    )


def _show(judged: Judged, *, as_json: bool, quiet: bool) -> None:
    from harness.outputs import RunOutput
    from harness.report import console

    if as_json:
        paths = {name: str(path) for name, path in judged.reports.items()}
        findings = judged.report.findings if judged.report is not None else ()
        _print_json(RunOutput(str(judged.folder), judged.summary, findings, paths))
    elif judged.report is not None:
        console.show(judged.report, judged.reports, quiet=quiet)
    else:
        typer.echo(str(judged.folder))
    raise typer.Exit(judged.exit)


@app.command()
def run(
    suite: Suites = None,
    target: Targets = None,
    cases: Cases = None,
    seed: Seed = None,
    jobs: Jobs = None,
    out: Out = None,
    expect: Expect = None,
    format: Format = None,  # noqa: A002 - the name of the option
    limit: Limit = None,
    minimise: Annotated[bool | None, typer.Option(help="Look for the smallest case of each finding.")] = None,
    provision: Annotated[
        bool | None, typer.Option(help="Fetch targets that are not there yet, before any case.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Finish an interrupted run; LAST is the newest.")
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Plan, record, judge, report and gate in a row.

    With no option it runs every suite on its embedded targets. Example:

    `afere run --suite render --target vllm-rs@0.33.0 --target vllm-render@0.32.0 --cases 500`
    """
    from harness import run as stages
    from harness.progress import Reporter

    options = _options(
        config, suite=suite, target=target, cases=cases, seed=seed, jobs=jobs, out=out, expect=expect, format=format,
        limits=limit, minimise=minimise, provision=provision,
    )  # fmt: skip
    with Reporter(quiet=quiet or as_json) as reporter:
        if resume is not None:
            judged = stages.record_run(_folder(resume, options.out), reporter.events, judged=True)
        else:
            judged = stages.run(options, reporter.events)
    _show(judged, as_json=as_json, quiet=quiet)


@app.command()
def plan(
    suite: Suites = None, target: Targets = None, cases: Cases = None, seed: Seed = None, out: Out = None,
    expect: Expect = None, limit: Limit = None, config: Config = None,
) -> None:  # fmt: skip
    """Write the planned set of a new run: which cases, for which targets. Starts nothing."""
    from harness import run as stages

    options = _options(config, suite=suite, target=target, cases=cases, seed=seed, out=out, expect=expect, limits=limit)
    typer.echo(str(stages.plan_run(options).path))


@app.command()
def record(run: RunArgument = "LAST", out: Out = None, config: Config = None, quiet: Quiet = False) -> None:
    """Record what is missing of a planned run. Judges nothing: another machine can do that."""
    from harness import run as stages
    from harness.progress import Reporter

    with Reporter(quiet=quiet) as reporter:
        judged = stages.record_run(_folder(run, _options(config, out=out).out), reporter.events, judged=False)
    typer.echo(str(judged.folder))


@app.command()
def judge(
    run: RunArgument = "LAST", expect: Expect = None, format: Format = None, out: Out = None,  # noqa: A002
    config: Config = None, as_json: AsJson = False, quiet: Quiet = False,
) -> None:  # fmt: skip
    """Judge a recorded run again, without any target, and write its reports."""
    from harness import run as stages
    from harness.progress import Reporter

    options = _options(config, expect=expect, format=format, out=out)
    with Reporter(quiet=quiet or as_json) as reporter:
        judged = stages.rejudge(_folder(run, options.out), options, reporter.events)
    _show(judged, as_json=as_json, quiet=quiet)


@app.command()
def merge(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders: shards, or other machines'.")],
    into: Annotated[Path, typer.Option(metavar="FOLDER", help="The new run folder.")],
) -> None:
    """Put several recordings together as one run, to be judged with `afere judge`. Contradictions are refused."""
    from harness.merge import merge as put_together

    merged = put_together(runs, into)
    typer.echo(str(merged.path))
    if merged.footer() is None:
        typer.echo(
            "afere: the union is incomplete: a shard has no footer, or a target was not asked every case", err=True
        )
        raise typer.Exit(Exit.INVALID)


@app.command()
def report(
    run: RunArgument = "LAST", format: Format = None, out: Out = None, config: Config = None,  # noqa: A002
) -> None:  # fmt: skip
    """Write the reports of a judged run and print where they are."""
    from harness import run as stages

    options = _options(config, format=format, out=out)
    for path in stages.write_reports(_folder(run, options.out), options.format).values():
        typer.echo(str(path))


@app.command()
def gate(run: RunArgument = "LAST", out: Out = None, config: Config = None) -> None:
    """Exit with the status of a judged run; print nothing."""
    from harness import run as stages

    raise typer.Exit(stages.load_report(_folder(run, _options(config, out=out).out)).exit)


@app.command()
def replay(
    finding: Annotated[Path, typer.Argument(metavar="FINDING_FILE", help="RUN/findings/ID.json")],
    target: Targets = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Ask a finding's targets again about its smallest case. Exits 1 while the difference shows, 0 when it is gone."""
    from harness import replay as replaying
    from harness.outputs import ReplayOutput
    from harness.report.text import brief, one_line, visible

    done = replaying.replay(finding, target or (), _limits(limit or []))
    if as_json:
        answers = {name: o.outcome.value for name, o in done.observations.items()}
        _print_json(ReplayOutput(done.finding.signature, done.shows, answers))
    else:
        typer.echo(f"{done.finding.signature}  {one_line(done.finding.title)}")
        for name, observation in done.observations.items():
            said = done.unasked.get(name) or f"{observation.outcome.value}  {brief(observation.payload, 200)}"
            typer.echo(f"  {name}: {one_line(said, 400)}")
        for name, shows in done.shows.items():
            typer.echo(f"  {'still shows' if shows else 'does not show'} on {name}")
        typer.echo(visible(done.finding.script))
    if any(done.shows.values()):
        raise typer.Exit(Exit.UNEXPECTED)
    raise typer.Exit(Exit.INVALID if done.unasked or not done.shows else Exit.OK)


@app.command()
def selfcheck(
    suite: Suites = None,
    cases: Cases = None,
    seed: Annotated[int, typer.Option(help="Seed of the generators.")] = 0,
    write: Annotated[Path | None, typer.Option(help="Also write the scores to this file (NDJSON).")] = None,
    as_json: AsJson = False,
) -> None:
    """Put planted faults and honest variants to our own judges; print the matrix, kill rate and false-alarm rate."""
    from harness import selfcheck as checking
    from harness.outputs import SelfCheckOutput
    from harness.plan import select_suites
    from harness.progress import Reporter
    from harness.records import to_line
    from harness.report import checks
    from harness.suite import all_suites

    results = []
    with Reporter(quiet=as_json) as reporter:
        for one in select_suites(all_suites(), suite or ()):
            reporter.events.stage(f"checking {one.name}")
            results.append(checking.check(one, cases, seed, lambda _n, d, t, s=one.name: reporter.observed(s, d, t)))  # type: ignore[misc]
    good = all(checking.passed(result) for result in results)
    if write is not None:
        write.write_bytes(b"".join(map(to_line, results)))
    if as_json:
        _print_json(SelfCheckOutput(good, tuple(results)))
    else:
        checks.show(results)
    raise typer.Exit(Exit.OK if good else Exit.UNEXPECTED)


@app.command()
def bench(
    only: Annotated[list[str] | None, typer.Option(help="Measure only these, by name. Default: all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure speed and memory, as ratios of things run side by side. Judges nothing."""
    from harness import bench as measuring
    from harness.outputs import BenchOutput
    from harness.progress import Reporter

    with Reporter(quiet=as_json) as reporter:
        rows = measuring.bench(only or (), reporter.events.stage)
    if as_json:
        _print_json(BenchOutput(tuple(rows)))
    else:
        measuring.show(rows)


@app.command()
def schema(
    folder: Annotated[Path, typer.Argument(help="Where to write the JSON Schemas.")],
    check: Annotated[bool, typer.Option("--check", help="Only say what is out of date there.")] = False,
) -> None:
    """Export the JSON Schemas of everything that Afere reads and writes."""
    from harness import schemas

    if check:
        stale = schemas.stale(folder)
        for line in stale:
            typer.echo(line, err=True)
        raise typer.Exit(Exit.UNEXPECTED if stale else Exit.OK)
    for path in schemas.export(folder):
        typer.echo(str(path))


def _version(value: bool) -> None:  # noqa: FBT001 - typer's callback
    if value:
        typer.echo(f"afere {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@cache
def _plug() -> None:
    from harness.commands import targets

    app.add_typer(targets.app, name="targets")
    for entry in sorted(entry_points(group="afere.commands"), key=lambda e: e.name):
        try:
            command = entry.load()
        except (Exception, SystemExit) as error:  # a third party's command must not take the others with it
            typer.echo(f"afere: the command {entry.name!r} of {entry.value} cannot be loaded: {error}", err=True)
            continue
        app.command(name=entry.name)(command)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its status. A user's mistake gets one sentence, never a traceback."""
    argv = sys.argv[1:] if arguments is None else arguments
    # Targets run side by side on few cores. OpenMP threads that spin while they wait then cost each other minutes.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    _plug()
    before = _terminate_as_interrupt()
    if arguments is None and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a C locale must not end a run with an encoding error
    try:
        with _aside(argv):
            status = app(args=argv, standalone_mode=False, prog_name="afere")
    except KeyboardInterrupt:
        _fail("interrupted", Exit.INVALID, argv, abandon=arguments is None)
    except SystemExit as error:
        if _closed_pipe(error):
            _silence()
            sys.exit(Exit.INVALID)
        # Whoever ends the process from inside (a suite, a library) must not choose our status: 0 would be a pass.
        _fail(f"a suite or a library ended the command (status {error.code}); nothing is proven", Exit.INVALID, argv)
    except Exception as error:
        from harness.errors import explain

        told = explain(error)
        if told is None:
            # Python's own status for a traceback is 1, which here means findings.
            traceback.print_exc()
            told = f"a defect of Afere or of a suite: {type(error).__name__}: {error}", Exit.INVALID
        _fail(*told, argv, abandon=arguments is None)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
    if status == 130:  # what typer makes of a Ctrl-C
        _fail("interrupted", Exit.INVALID, argv, abandon=arguments is None)
    sys.exit(status if isinstance(status, int) else 0)


@contextlib.contextmanager
def _aside(argv: list[str]) -> Iterator[None]:
    """Under ``--json``, send to standard error what a suite or a target in this process prints."""
    if "--json" not in argv:
        yield
        return
    _RESULTS.append(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _RESULTS.pop()


def _closed_pipe(error: SystemExit) -> bool:
    """Whether the reader of our output went away: typer then ends the process with status 1."""
    return isinstance(error.__context__, BrokenPipeError)


def _silence() -> None:
    """Let the interpreter's last flush go nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _terminate_as_interrupt() -> Any:
    """Let SIGTERM end a run as Ctrl-C does: targets closed, the run resumable. Returns the handler to put back."""
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(signal.SIGTERM, signal.default_int_handler)


def _fail(message: str, status: Exit, argv: list[str], *, abandon: bool = False) -> None:
    if "--json" in argv:
        from harness.outputs import ErrorOutput

        _print_json(ErrorOutput(message, int(status)))
    else:
        from harness.report.text import visible

        typer.echo(f"afere: {visible(message)}", err=True)
    if abandon and any(
        not t.daemon and t.is_alive() for t in threading.enumerate() if t is not threading.main_thread()
    ):
        # An in-process target that never returns would keep the interpreter from ending; no one can stop its thread.
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
    sys.exit(status)
