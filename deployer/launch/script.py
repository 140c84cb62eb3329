"""Checks the flags of a sweep's script: for `up`, `sweep check` and `init`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from deployer.config.document import UnreadableYaml
from deployer.config.project import Project
from deployer.errors import ConfigError, Finding, Severity, right, unknown, warning
from deployer.executors.base import Check, Executor
from deployer.executors.registry import find_executor
from deployer.launch.check import find_unserved
from deployer.launch.request import SweepRequest
from deployer.scripts.script_check import (
    OF_WANDB,
    Report,
    Surroundings,
    Unseen,
    check_script,
    read_script,
)
from deployer.scripts.sweep_draft import Draft, Flag, Start, draft_sweep, read_value, write_by_hand
from deployer.sweeps.keys import CODE, doubt
from deployer.sweeps.program import find_missing_scripts
from deployer.sweeps.results import metric_name
from deployer.sweeps.sweep_file import (
    Examination,
    examine_sweep,
    load_text,
    locate,
    parse_sweep,
)

LOG = logging.getLogger(__name__)

METRIC_PATH = ("metric", "name")
IN_IMAGE = "the code is in the image"
FROM_GIT = "its code is in git, and this command contacts no server"
NO_FLAGS = "its parser lists no flags"
NOTHING_TO_TRY = "none of its flags looks like a hyperparameter"


def begin_script_check(executor: Executor, request: SweepRequest) -> Future[Report]:
    """Start the check of a sweep's script in a thread."""
    future: Future[Report] = Future()

    def ask() -> None:
        try:
            future.set_result(ask_script(executor, request))
        except BaseException as error:
            future.set_exception(error)

    # A process that ends earlier does not wait for the script.
    threading.Thread(target=ask, daemon=True).start()
    return future


def await_report(future: Future[Report], file: Path, patience: float = 1.0) -> Report:
    """Return the result of the check; report the wait if it is long."""
    try:
        return future.result(timeout=patience)
    except FutureTimeout:
        LOG.info(f"{file}: checking the flags with its script")
    return future.result()


def check_script_first(executor: Executor, request: SweepRequest) -> None:
    """Check a sweep's script and log the result; raises ConfigError for errors."""
    log_report(ask_script(executor, request), request)


def ask_script(executor: Executor, request: SweepRequest) -> Report:
    """Return the result of the check; empty if the script must not be started."""
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
    kept = (p for p in report.problems if p.path != METRIC_PATH and p.fix not in OF_WANDB)
    return replace(report, problems=(*kept, *doubt_metrics(project, request.sweep.config)))


def doubt_metrics(project: Project, config: Mapping[str, Any]) -> Iterator[Finding]:
    """Warn about a sweep's metric that `metrics:` does not read."""
    metric, wanted = metric_name(config), project.metrics.wanted
    if metric and metric == project.metrics.step:
        said = f"metrics: in deployer.yaml uses {metric} as its step, so it is not a metric"
        yield doubt(METRIC_PATH, said, "set step to the value that counts the rows, such as epoch")
    if metric and wanted and metric not in wanted:
        said = f"metrics: in deployer.yaml reads {', '.join(wanted)}, but not {metric}"
        yield doubt(METRIC_PATH, said, f"add {metric} to names: or to the pattern's groups")


def log_report(report: Report, request: SweepRequest) -> None:
    """Log warnings, or why the script was not checked; raises ConfigError for errors."""
    for one in list_findings(report, request, Severity.WARNING):
        LOG.warning(f"{one.place}: {one.message} ({one.fix})")
    if report.not_checked:
        LOG.info(f"{request.file}: the script was not checked: {report.not_checked}")
    if errors := list_errors(report, request):
        raise ConfigError.join(errors)


def list_errors(report: Report, request: SweepRequest) -> list[ConfigError]:
    """Return the errors that would stop runs, each with its line in the sweep file."""
    found = list_findings(report, request, Severity.ERROR)
    return [ConfigError(one.place, one.message, one.fix) for one in found]


def list_findings(report: Report, request: SweepRequest, severity: Severity) -> list[Finding]:
    """Return errors or warnings in the order of the file."""
    chosen = [one for one in report.problems if one.severity == severity]
    located = [locate(request.looked_at.document, one) for one in chosen]
    return sorted(located, key=lambda one: one.position)


def build_script_check(executor: Executor, request: SweepRequest) -> Check:
    place = str(request.file)

    def ask() -> Iterable[Finding]:
        try:
            report = ask_script(executor, request)
        except ConfigError:
            return  # the check of the target reports it
        if errors := list_errors(report, request):
            raise ConfigError.join(errors)
        for one in list_findings(report, request, Severity.WARNING):
            yield warning("script", one.place, one.message, one.fix)
        if report.not_checked:
            yield unknown("script", place, f"the script was not checked: {report.not_checked}")
        elif report.script and not report.raised:
            yield right("script", place, f"{report.script} accepts the sweep's flags")

    return Check("script", place, ask)


@dataclass(frozen=True)
class FileCheck:
    """The findings in file order; `not_checked` says why no script was checked."""

    findings: tuple[Finding, ...]
    not_checked: str = ""


def check_file(
    path: Path, project: Project, run_cap: int | None = None, ask: bool = True
) -> FileCheck:
    """Return the findings about a file; with `ask`, also check its script if the file can run.

    Contacts nothing: for code from git only the file is checked.
    """
    try:
        text = load_text(path)
        examined = examine_sweep(text, str(path), run_cap)
    except UnreadableYaml as error:
        return FileCheck((_refuse(path, error.said, error.hint, error.line, error.column),))
    except ConfigError as error:
        return FileCheck((_refuse(path, error.findings[0].message, error.hint),))
    if any(one.is_error for one in examined.findings):
        return FileCheck(examined.findings)
    if project.code_from_git and not project.resolved_code:
        return FileCheck(examined.findings, FROM_GIT)
    request = SweepRequest(path, parse_sweep(text, str(path), run_cap), check_script=ask)
    return _check_script(project, examined, request)


def _check_script(project: Project, examined: Examination, request: SweepRequest) -> FileCheck:
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
    found = sorted((*examined.findings, *asked), key=lambda one: one.position)
    return FileCheck(tuple(found), report.not_checked)


def _refuse(path: Path, said: str, hint: str, line: int = 0, column: int = 0) -> Finding:
    return Finding(CODE, str(path), said, hint, position=(line, column))


class NotDrafted(ConfigError):
    """No draft can be written for a script; `lines` are those of a sweep file to copy."""

    def __init__(self, script: str, said: str, start: Start) -> None:
        super().__init__(script, said, "copy the lines above into sweep.yaml, with your own flags")
        self.lines = write_by_hand(start)


def draft_for_script(
    project: Project, script: str, given: Mapping[str, str], words: Sequence[str] = ()
) -> Draft:
    """Return the sweep file for a script of the folder, a package or a module.

    `given` are values of flags by name; `words` come before the flags, such as a subcommand. The
    script's parser accepts the draft. Raises ConfigError if the flags cannot be read.
    """
    start = find_start(project.folder, script, tuple(words))
    around = Surroundings(project.folder, find_executor(project).run_environment)
    config = {"program": start.program, "parameters": {}, "command": start.build_command()}
    try:
        read = read_script(config, around)
    except Unseen as unseen:
        raise NotDrafted(script, str(unseen), start) from unseen
    if read.subcommands and not set(read.subcommands) & set(words):
        return Draft("", (), 0, read.subcommands)
    start = replace(start, style=read.style)
    _check_given(script, given, read.flags)
    draft = draft_sweep(start, read.flags, read.logged, given)
    if draft.needed:
        return draft
    report = _check(draft, around)
    refused = {one.path[1] for one in report.problems if one.is_error and one.path[1:]}
    if refused:
        draft = draft_sweep(start, read.flags, read.logged, given, tuple(refused))
        report = _check(draft, around)
    if not draft.tried:
        raise NotDrafted(script, NOTHING_TO_TRY if read.flags else NO_FLAGS, start)
    for one in report.problems:
        if one.is_error:
            raise NotDrafted(script, one.message, start)
    return draft


def _check(draft: Draft, around: Surroundings) -> Report:
    if not draft.tried:
        return Report()
    return check_script(parse_sweep(draft.text, "the draft").config, around)


def _check_given(script: str, given: Mapping[str, str], flags: Sequence[Flag]) -> None:
    known = {flag.name: flag for flag in flags}
    for name, text in given.items():
        if name not in known:
            raise ConfigError("--set", f"{script} has no flag --{name}", f"one of: {[*known]}")
        flag, value = known[name], read_value(text)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if flag.type in ("int", "float") and not number:
            said = f"--{name} takes {flag.type}, not '{text}'"
            raise ConfigError("--set", said, f"--set {name}={flag.default or 1}")


def find_start(folder: Path, script: str, words: tuple[str, ...] = ()) -> Start:
    """Return how to start a script, a package with `__main__.py` or a module such as pkg.train.

    Raises ConfigError if the file does not exist.
    """
    if (folder / script).is_file():
        return Start(script, words=words)
    module = script.strip("/").replace("/", ".")
    base = folder / Path(*module.split("."))
    for file in (base / "__main__.py", base.with_name(base.name + ".py")):
        if file.is_file():
            return Start(str(file.relative_to(folder)), ("-m", module), words)
    hint = "name a Python file of this folder, or a package such as pkg or pkg.train"
    raise ConfigError(script, "script not found", hint)
