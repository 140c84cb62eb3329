"""`deployer doctor`: check everything that `up` needs, and suggest fixes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from deployer.cli.output.render import emit, warn
from deployer.cli.shell.call import App, Call
from deployer.cli.shell.options import NoCheckOption, OneRunOption, ReplicasOption, RunCapOption
from deployer.errors import ExitCode, Finding, Severity
from deployer.launch.doctor import diagnose
from deployer.launch.pipeline import resolve_project_code
from deployer.launch.request import SweepRequest
from deployer.sweeps.sweep_file import load_sweep
from deployer.waiting import COMMAND

SIGNS = {Severity.OK: "✓", Severity.ERROR: "✗", Severity.WARNING: "!", Severity.UNKNOWN: "?"}
VERDICTS = {
    Severity.OK: "right",
    Severity.ERROR: "wrong",
    Severity.WARNING: "doubtful",
    Severity.UNKNOWN: "unknown",
}

app = App()


@app.command()
def doctor(
    call: Call,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Also check what this sweep file needs."),
    ] = None,
    replicas: ReplicasOption = None,
    run_cap: RunCapOption = None,
    one_run_per_job: OneRunOption = False,
    no_check: NoCheckOption = False,
) -> None:
    """Check everything that `up` needs, and suggest fixes; nothing is changed.

    Exits with 1 if a check fails (✗), which would stop `up`, else with 0. After a warning (!),
    agents would probably wait.
    """
    COMMAND.begin_examination()
    config = resolve_project_code(call.read(replicas=replicas))
    request = None
    if file is not None:
        request = SweepRequest(
            file, load_sweep(file, run_cap), one_run=one_run_per_job, check_script=not no_check
        )
        for warning in request.sweep.warnings:
            warn(warning)
    findings = diagnose(config, request)
    show_findings(findings, call.output)
    if any(one.is_error for one in findings):
        raise typer.Exit(ExitCode.REFUSED)


def show_findings(findings: Sequence[Finding], output: str) -> None:
    """Print the findings on stdout, then how many there are of each kind."""
    plain = [
        {
            "code": one.code,
            "subject": one.subject,
            "verdict": VERDICTS[one.severity],
            "sentence": one.message,
            "remedy": one.fix,
        }
        for one in findings
    ]
    lines = []
    for one in _join(findings):
        lines.append(f"{SIGNS[one.severity]} {one.subject}: {one.message}")
        if one.fix and one.severity is not Severity.OK:
            lines.append(f"    {one.fix}")
    emit({"findings": plain}, output, *lines, _summarise(findings))


def _join(findings: Sequence[Finding]) -> list[Finding]:
    joined: list[Finding] = []
    for one in findings:
        last = joined[-1] if joined else one
        both = {last.severity, one.severity} == {Severity.OK} and last.subject == one.subject
        if joined and both:
            joined[-1] = replace(last, message=f"{last.message}; {one.message}")
        else:
            joined.append(one)
    return joined


def _summarise(findings: Sequence[Finding]) -> str:
    """Return the last line: whether agents can start, if known."""
    counts = Counter(VERDICTS[one.severity] for one in findings)
    shown = [one for one in VERDICTS.values() if one != "doubtful" or counts[one]]
    return ", ".join(f"{counts[one]} {one}" for one in shown)
