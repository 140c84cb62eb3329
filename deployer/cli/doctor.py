"""`deployer doctor`: everything that `up` needs, checked, with what to do about what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deployer.cli.output.findings import build_findings, show_findings
from deployer.cli.output.render import show_json, warn
from deployer.cli.shell.command_group import make_app
from deployer.cli.shell.options import (
    NoCheckOption,
    OneRunOption,
    OnOption,
    Output,
    OutputOption,
    ProfileOption,
    ReplicasOption,
    RunCapOption,
    WandbOption,
    read_config,
)
from deployer.config.project import Flags
from deployer.errors import ExitCode
from deployer.launch.checks.doctor import diagnose, mend
from deployer.launch.code import settle_code
from deployer.launch.request import Request
from deployer.sweeps.sweep_file import load_sweep
from deployer.waiting import COMMAND

app = make_app()


@app.command()
def doctor(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A sweep file that shall run; left out: any."),
    ] = None,
    replicas: ReplicasOption = None,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Make what is missing where that is safe, and say so."),
    ] = False,
    run_cap: RunCapOption = None,
    one_run_per_job: OneRunOption = False,
    no_check: NoCheckOption = False,
    on: OnOption = None,
    profile: ProfileOption = None,
    wandb: WandbOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check everything that `up` needs, and say how to mend it; without --fix it changes nothing.

    Exit code 1 if something is wrong (✗), so that `up` stops; else 0. Doubtful (!) is what agents
    would probably wait for.
    """
    COMMAND.begin_examination()
    config = settle_code(read_config(Flags(wandb=wandb, replicas=replicas, on=on, profile=profile)))
    request = None
    if file is not None:
        request = Request(
            file, load_sweep(file, run_cap), one_run=one_run_per_job, check_script=not no_check
        )
        for warning in request.sweep.warnings:
            warn(warning)
    findings = diagnose(config, request)
    if fix and mend(config, findings):
        findings = diagnose(config, request)
    if output == "json":
        show_json({"findings": build_findings(findings)})
    else:
        show_findings(findings)
    if any(one.is_error for one in findings):
        raise typer.Exit(ExitCode.REFUSED)
