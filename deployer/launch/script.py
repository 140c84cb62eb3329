"""The sweep's script in `up`: asked about its flags beside other steps, before anything is made."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from deployer.config import paths
from deployer.config.project import Project
from deployer.errors import ConfigError, ConfigErrors
from deployer.executors.findings import Finding, Question, right, unknown
from deployer.executors.registry import find_target
from deployer.executors.target import Target, Tell
from deployer.launch.request import Request
from deployer.scripts.script_check import Report, Surroundings, check_script
from deployer.sweeps.parameters.parse import Problem
from deployer.sweeps.sweep_file import Sweep

IN_IMAGE = "its code is in the image"


def begin_script_check(project: Project, request: Request) -> Future[Report]:
    """Begin to ask a sweep's script about its flags, in a thread."""
    pool = ThreadPoolExecutor(max_workers=1)
    future = pool.submit(ask_script, project, find_target(project), request)
    pool.shutdown(wait=False)
    return future


def check_script_first(project: Project, request: Request, tell: Tell) -> None:
    """Ask a sweep's script about its flags, and tell; raises ConfigErrors for what fails."""
    tell_report(ask_script(project, find_target(project), request), request, tell)


def ask_script(project: Project, target: Target, request: Request) -> Report:
    """Return what the script says of the sweep; nothing where it shall not be asked."""
    if not request.check_script:
        return Report()
    if not target.has_folder:
        return Report(not_checked=IN_IMAGE)
    around = Surroundings(project.code.folder, target.run_environment, target.runs_here)
    return check_script(request.sweep.config, around, paths.checks_folder())


def tell_report(report: Report, request: Request, tell: Tell) -> None:
    """Tell what is doubtful, or why nobody was asked; raises ConfigErrors for what fails."""
    sweep, place = request.sweep, str(request.file)
    for warning in list_warnings(report, sweep, place):
        tell(f"warning: {warning}")
    if report.not_checked:
        tell(f"{place}: the script is not checked: {report.not_checked}")
    errors = list_errors(report, sweep, place)
    if errors:
        raise ConfigErrors(errors)


def list_errors(report: Report, sweep: Sweep, place: str) -> list[ConfigError]:
    """Return what would keep runs from their work, each at its line of the sweep file."""
    return [
        ConfigError(sweep.place_of(one.path, place), one.message, one.hint)
        for one in _sort(report, sweep)
        if one.severity == "error"
    ]


def list_warnings(report: Report, sweep: Sweep, place: str) -> list[str]:
    """Return what is doubtful, as sentences."""
    return [
        f"{sweep.place_of(one.path, place)}: {one.message} ({one.hint})"
        for one in _sort(report, sweep)
        if one.severity == "warning"
    ]


def _sort(report: Report, sweep: Sweep) -> list[Problem]:
    """Return the problems in the order of the file."""
    document = sweep.document
    lines = (document.line_of(one.path) if document else 0 for one in report.problems)
    return [one for _, one in sorted(zip(lines, report.problems, strict=True), key=lambda p: p[0])]


def ask_about_script(project: Project, target: Target, request: Request) -> Question:
    """Return the same as a question of `doctor`."""
    place = str(request.file)

    def ask() -> Iterable[Finding]:
        report = ask_script(project, target, request)
        for warning in list_warnings(report, request.sweep, place):
            yield unknown("script", place, warning)
        if errors := list_errors(report, request.sweep, place):
            raise ConfigErrors(errors)
        if report.not_checked:
            yield unknown("script", place, f"the script is not checked: {report.not_checked}")
        elif report.script:
            yield right("script", place, f"{report.script} takes the sweep's flags")

    return Question("script", place, ask)
