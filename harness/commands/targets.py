"""``afere targets``: what can be asked, and provisioning it."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.outcome import Exit

app = typer.Typer(no_args_is_help=True, help="List, add, check and remove the implementations under test.")

Name = Annotated[str, typer.Argument(metavar="NAME@VERSION", help="For example vllm-rs@0.33.0.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Show every kind of target and every provisioned environment with the disk space that it takes."""
    from harness import provision
    from harness.outputs import EnvironmentRow, TargetRow, TargetsOutput
    from harness.plan import complete
    from harness.suite import TargetName, all_suites

    rows = [
        TargetRow(
            kind.name, suite.name, kind.summary, kind.embedded, kind.versions, kind.variants,
            # One that is known by its address has no default to ask about.
            "" if kind.address else kind.impossible(complete(kind, TargetName(kind.name))),
        )
        for suite in all_suites().values()
        for kind in suite.kinds().values()
    ]  # fmt: skip
    kept = [EnvironmentRow(e.name, e.bytes) for e in provision.installed()]
    if as_json:
        from harness.cli import _print_json

        _print_json(TargetsOutput(tuple(rows), tuple(kept)))
        return
    for row in rows:
        names = ", ".join(f"@{v}" for v in row.versions) or ("embedded" if row.embedded else "")
        variants = " ".join(f":{v}" for v in row.variants)
        typer.echo(f"{row.kind:<20} {row.suite:<8} {row.summary}")
        typer.echo("".join(f"{'':<29} {line}\n" for line in (names, variants, row.unsupported) if line), nl=False)
    typer.echo("\nProvisioned environments:" if kept else "\nNo environment is provisioned yet.")
    for environment in kept:
        typer.echo(f"  {environment.name:<30} {size(environment.bytes)}")
    if kept:
        typer.echo(f"  {'total':<30} {size(sum(e.bytes for e in kept))}  in {provision.root()}")


@app.command()
def add(name: Name) -> None:
    """Fetch a target into an environment of its own, so that a run can start at once."""
    from harness import provision
    from harness.plan import select_targets
    from harness.suite import all_suites

    for ask in select_targets(list(all_suites().values()), [name]):
        impossible = ask.kind.impossible(ask.name)
        if impossible:
            typer.echo(f"{ask.name} is not supported on this machine: {impossible}")
            raise typer.Exit(Exit.USAGE)
        need = ask.kind.needs(ask.name)
        if need is None:
            typer.echo(f"{ask.name} is embedded: there is nothing to add")
            continue
        environment = provision.provision(need.recipe, need.name, progress=lambda text: typer.echo(text, err=True))
        typer.echo(f"{ask.name} is ready ({size(environment.bytes)} on disk)")


@app.command()
def check(name: Name) -> None:
    """Start a target, ask what it is and what it can do, and end it."""
    import tempfile
    from pathlib import Path

    from harness.plan import select_targets
    from harness.record import opened
    from harness.suite import Session, all_suites

    asks = select_targets(list(all_suites().values()), [name])
    good = True
    with (
        tempfile.TemporaryDirectory(prefix="afere-check-") as folder,
        opened(asks, Session(Path(folder), {})) as targets,
    ):
        for target in targets:
            info = target.info
            why = info.unsupported or info.unavailable
            good = good and not why
            typer.echo(f"{info.name}: {why or 'ready'}")
            if not why:
                typer.echo(f"  over {info.transport}; can do: {', '.join(info.capabilities)}")
                for key, value in {**info.reports, **{f"limit {k}": v for k, v in info.limits.items()}}.items():
                    typer.echo(f"  {key}: {value}")
    raise typer.Exit(Exit.OK if good else Exit.INVALID)


@app.command()
def remove(name: Name) -> None:
    """Delete the environment of a target. Other targets that share it lose it too."""
    from harness import provision
    from harness.plan import PlanError, select_targets
    from harness.suite import all_suites

    try:
        needs = [ask.kind.needs(ask.name) for ask in select_targets(list(all_suites().values()), [name])]
        names = {need.name for need in needs if need is not None}
    except PlanError:
        names = {name}  # an environment may outlive the kind that made it
    for environment in names:
        typer.echo(f"removed {environment}, {size(provision.remove(environment))} freed")


def size(count: int) -> str:
    """Bytes for a person."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
