"""Everything that is wrong or doubtful about a sweep file and its script, none of it raised."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deployer.config.document.yaml_document import UnreadableYaml
from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.executors.registry import find_executor
from deployer.launch.checks.check import find_unserved
from deployer.launch.checks.script import ask_script
from deployer.launch.request import Request
from deployer.sweeps.examination import Examination, Finding, examine_sweep, locate
from deployer.sweeps.program import find_missing_scripts
from deployer.sweeps.sweep_file import load_text, parse_sweep

FROM_GIT = "its code is in git, and this command contacts no server"


@dataclass(frozen=True)
class FileCheck:
    """What was found, in the order of the file; `not_checked` says why no script was asked."""

    findings: tuple[Finding, ...]
    not_checked: str = ""


def check_file(
    path: Path, project: Project, run_cap: int | None = None, ask: bool = True
) -> FileCheck:
    """Return what is found about a file; where it can run and with `ask`, its script is asked.

    Contacts nothing: of code from git only the file is looked at.
    """
    try:
        text = load_text(path)
        examined = examine_sweep(text, str(path), run_cap)
    except UnreadableYaml as error:
        return FileCheck((_refuse(path, error.said, error.hint, error.line, error.column),))
    except ConfigError as error:
        return FileCheck((_refuse(path, error.findings[0].message, error.hint),))
    if any(one.severity == "error" for one in examined.findings):
        return FileCheck(examined.findings)
    if project.code_from_git and not project.resolved_code:
        return FileCheck(examined.findings, FROM_GIT)
    request = Request(path, parse_sweep(text, str(path), run_cap), check_script=ask)
    return _check_script(project, examined, request)


def _check_script(project: Project, examined: Examination, request: Request) -> FileCheck:
    executor = find_executor(project)
    folder = project.code.folder
    archived = not executor.runs_here
    refused = list(find_unserved(project, examined.config))
    if executor.has_folder:
        refused += find_missing_scripts(examined.config, folder, archived=archived)
    if located := [locate(examined.document, one) for one in refused]:
        return FileCheck((*located, *examined.findings))
    report = ask_script(executor, request)
    asked = (locate(examined.document, one) for one in report.problems)
    found = sorted((*examined.findings, *asked), key=lambda one: (one.line, one.column))
    return FileCheck(tuple(found), report.not_checked)


def _refuse(path: Path, said: str, hint: str, line: int = 0, column: int = 0) -> Finding:
    return Finding(str(path), line, column, "error", "", said, hint)
