"""`deployer sweep check`: what is wrong with sweep files, for editors and CI."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from deployer.cli.output.render import say
from deployer.cli.shell.call import Call
from deployer.cli.shell.options import NoCheckOption, RunCapOption
from deployer.errors import ExitCode
from deployer.launch.script import check_file
from deployer.sweeps.sweep_file import Complaint
from deployer.text import format_count

FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILE", help="W&B sweep files (YAML).")
]


def check(
    call: Call,
    files: FilesArgument,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")] = False,
    run_cap: RunCapOption = None,
    no_check: NoCheckOption = False,
) -> None:
    """Report all errors and warnings about sweep files; contacts no server.

    Prints one line each: FILE:LINE:COLUMN: error|warning: PATH: what (hint). Exits with 2 if a
    file has errors. Like `up`, it finds scripts relative to the current folder and starts them to
    read their flags, so their import-time code runs.
    """
    project = call.read()
    findings: list[Complaint] = []
    for file in files:
        checked = check_file(file, project, run_cap, ask=not no_check)
        findings += checked.findings
        if checked.not_checked:
            say(f"{file}: the script was not checked: {checked.not_checked}")
    call.emit(findings, *map(format_finding, findings))
    counts = Counter(one.severity for one in findings)
    said = f"{format_count(counts['error'], 'error')}, {format_count(counts['warning'], 'warning')}"
    say(f"{format_count(len(files), 'file')}: {said}")
    if counts["error"] or (strict and findings):
        raise typer.Exit(ExitCode.WRONG_INPUT)


def format_finding(found: Complaint) -> str:
    """Return a complaint as editors read it; what is missing stands in the first line."""
    place = f"{found.file}:{max(1, found.line)}:{max(1, found.column)}"
    path = f"{found.path}: " if found.path else ""
    hint = f" ({found.hint})" if found.hint else ""
    return f"{place}: {found.severity}: {path}{found.message}{hint}"
