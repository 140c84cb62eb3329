"""The sweep's script in `up`: asked about its flags beside other steps, before anything is made."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from pathlib import Path
from typing import Any

from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.executors.base import Executor
from deployer.executors.checks import Check
from deployer.findings import Finding, right, unknown, warning
from deployer.launch.request import Request
from deployer.scripts.script_check import OF_WANDB, Report, Surroundings, check_script
from deployer.sweeps.examination import Finding as Complaint
from deployer.sweeps.examination import locate
from deployer.sweeps.metrics import metric_name
from deployer.sweeps.problem import Problem, doubt

LOG = logging.getLogger(__name__)

METRIC_PATH = ("metric", "name")
IN_IMAGE = "the code is in the image"


def begin_script_check(executor: Executor, request: Request) -> Future[Report]:
    """Begin to ask a sweep's script about its flags, in a thread."""
    future: Future[Report] = Future()

    def ask() -> None:
        try:
            future.set_result(ask_script(executor, request))
        except BaseException as error:
            future.set_exception(error)

    # Whoever ends before the script has answered does not wait for it.
    threading.Thread(target=ask, daemon=True).start()
    return future


def await_report(future: Future[Report], file: Path, patience: float = 1.0) -> Report:
    """Return what the script says; tell what is waited for if it takes long."""
    try:
        return future.result(timeout=patience)
    except FutureTimeout:
        LOG.info(f"{file}: checking the flags with its script")
    return future.result()


def check_script_first(executor: Executor, request: Request) -> None:
    """Ask a sweep's script about its flags, and tell; raises ConfigError for what fails."""
    tell_report(ask_script(executor, request), request)


def ask_script(executor: Executor, request: Request) -> Report:
    """Return what the script says of the sweep; nothing where it shall not be asked."""
    project = executor.project
    if not request.check_script:
        return Report()
    if not executor.has_folder:
        return Report(not_checked=IN_IMAGE)
    if any("${" in word for word in request.words):
        return Report(not_checked="${ in its command starts a macro in a sweep")
    around = Surroundings(project.code.folder, executor.run_environment, executor.runs_here)
    report = check_script(request.started, around)
    if not project.metrics.source:
        return report
    # The script itself logs nothing.
    kept = (p for p in report.problems if p.path != METRIC_PATH and p.hint not in OF_WANDB)
    return replace(report, problems=(*kept, *doubt_metrics(project, request.sweep.config)))


def doubt_metrics(project: Project, config: Mapping[str, Any]) -> Iterator[Problem]:
    """Warn of a sweep's metric that `metrics:` does not read."""
    metric, wanted = metric_name(config), project.metrics.wanted
    if metric and metric == project.metrics.step:
        said = f"metrics: in deployer.yaml has {metric} as its step, which is no metric then"
        yield doubt(METRIC_PATH, said, "name as step what counts the rows, such as epoch")
    if metric and wanted and metric not in wanted:
        said = f"metrics: in deployer.yaml reads {', '.join(wanted)}, and not {metric}"
        yield doubt(METRIC_PATH, said, f"let names: or the pattern's groups have {metric}")


def tell_report(report: Report, request: Request) -> None:
    """Tell what is doubtful, or why nobody was asked; raises ConfigError for what fails."""
    for one in list_findings(report, request, "warning"):
        LOG.warning(f"{one.place}: {one.message} ({one.hint})")
    if report.not_checked:
        LOG.info(f"{request.file}: the script was not checked: {report.not_checked}")
    if errors := list_errors(report, request):
        raise ConfigError.join(errors)


def list_errors(report: Report, request: Request) -> list[ConfigError]:
    """Return what would keep runs from their work, each at its line of the sweep file."""
    found = list_findings(report, request, "error")
    return [ConfigError(one.place, one.message, one.hint) for one in found]


def list_findings(report: Report, request: Request, severity: str) -> list[Complaint]:
    """Return errors or warnings in the order of the file."""
    chosen = [one for one in report.problems if one.severity == severity]
    located = [locate(request.looked_at.document, one) for one in chosen]
    return sorted(located, key=lambda one: (one.line, one.column))


def build_script_check(executor: Executor, request: Request) -> Check:
    """Return the same for `doctor`."""
    place = str(request.file)

    def ask() -> Iterable[Finding]:
        try:
            executor.describe_runs()
        except ConfigError:
            return  # the target's own examination says why there is no Python for it
        report = ask_script(executor, request)
        if errors := list_errors(report, request):
            raise ConfigError.join(errors)
        for one in list_findings(report, request, "warning"):
            yield warning("script", one.place, one.message, one.hint)
        if report.not_checked:
            yield unknown("script", place, f"the script was not checked: {report.not_checked}")
        elif report.script and not report.raised:
            yield right("script", place, f"{report.script} accepts the sweep's flags")

    return Check("script", place, ask)
