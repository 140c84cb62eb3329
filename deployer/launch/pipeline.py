"""The pipeline of `up`: resolve, check, provision, create, plan, apply, watch.

The command line, `agents up` and the Python API call the same one. It prints nothing, and logs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from deployer.config.project import Project
from deployer.errors import ScriptRaised
from deployer.executors.base import Executor
from deployer.executors.registry import find_target, list_names
from deployer.executors.target import Target
from deployer.launch.agents.one_run_per_job import count_wanted, takes_one_run
from deployer.launch.agents.planning import (
    AgentStarter,
    build_draft,
    get_left,
)
from deployer.launch.backend_revival import ask_patiently
from deployer.launch.checks.check import (
    build_limits,
    check,
    check_program_here,
)
from deployer.launch.checks.ended import check_not_ended
from deployer.launch.checks.runs import describe_runs
from deployer.launch.checks.script import await_report, begin_script_check, tell_report
from deployer.launch.code import settle_code
from deployer.launch.packing.decision import prepare_packing
from deployer.launch.packing.packer import Packer
from deployer.launch.remains import describe_others
from deployer.launch.request import Request
from deployer.launch.server import connect
from deployer.launch.starting import Launch, Start, start_agents, start_asked
from deployer.model import Agent, Sweep, SweepPath
from deployer.sweeps.creation import MadeSweep, find_newest, goes_on, is_edited, make_sweep
from deployer.sweeps.records import Records
from deployer.waiting import COMMAND
from deployer.wandb_api.operations import get_sweep
from deployer.wandb_api.server import NOT_GUARANTEED, Server
from deployer.watch.pending_timeout import PendingTimeout
from deployer.watch.reconciliation import Reconciler
from deployer.watch.status import Status, watch_status

LOG = logging.getLogger(__name__)


def up(project: Project, request: Request, start: Start = start_asked) -> Launch:
    """Create or continue a sweep and start its agents; everything but watching.

    `start` is the last step. What can be refused is refused before anything is made or paid for.
    Raises DeployerError.
    """
    for warning in request.sweep.warnings:
        LOG.warning(warning)
    project = prepare_packing(settle_code(project), request.packing)
    script = begin_script_check(project, request)
    project, server = resolve(project, request)
    target = find_target(project)
    if server:
        check_not_ended(project, server, request)
    check(project, target, request, server)
    report = await_report(script, request.file)
    tell_report(report, request)
    if report.raised and request.asks and target.runs_here:
        raise ScriptRaised(str(request.file), "the trial start of its script has raised an error")
    for line in describe_runs(project, target):
        LOG.info(line)
    _warn(project, target, server.url if server else target.backend_url)
    target.provision(build_limits(project, request))
    executor = target.open()
    server = _reach(project, target, executor, server, request)
    path = _make(project, server, request)
    for line in () if request.words else describe_others(project, path, request.file):
        LOG.info(line)
    return start(project, server, executor, path, request)


def resolve(project: Project, request: Request) -> tuple[Project, Server | None]:
    """Find the server, and where a sweep that goes on has its agents, unless somebody said where.

    The server is None where it is in a cluster, which is made or reached later.
    """
    hosting = find_target(project, project.backend_on)
    if project.embedded and hosting.hosts_backend:
        return project, None
    server = connect(project)
    if request.continued and not project.explicit_on:
        found = find_newest(server, request.sweep, project, request.file, request.draws)
        if found and goes_on(request.sweep, found[1]) and found[0].on in list_names():
            project = replace(project, on=found[0].on)
    return project, server


def add_agents(
    project: Project,
    server: Server,
    path: SweepPath,
    *,
    one_run: bool = False,
    max_seconds: float | None = None,
) -> Launch:
    """Start agents of a sweep that is there; none if it has ended."""
    project = settle_code(project, str(path))
    target = find_target(project)
    executor = target.open()
    info = get_sweep(server.client, path)
    if info.ended:
        mend = f"deployer heal {path} runs what is missing, if anything is"
        LOG.info(f"{path} is {info.state}: no agent is started; {mend}")
        return Launch(project, target, server, executor, path, ())
    for line in _describe_file(project, info):
        LOG.info(line)
    check_program_here(target, info.config, project.code, str(path))
    target.check_data()
    for line in describe_runs(project, target):
        LOG.info(line)
    _warn(project, target, server.url)
    return start_agents(project, server, executor, info, one_run=one_run, max_seconds=max_seconds)


def _warn(project: Project, target: Target, base_url: str) -> None:
    for warning in target.list_warnings(build_draft(project, base_url, own_keys=True)):
        LOG.warning(warning)


def _describe_file(project: Project, sweep: Sweep) -> Iterator[str]:
    """Yield that a sweep's file was edited since its creation, and its other sweeps' agents."""
    record = next(iter(Records.load().of(str(sweep.path))), None)
    if record is None:
        return
    file = Path(record.folder, record.file)
    if is_edited(sweep, file):
        said = f"{file.name} was edited since {sweep.path} was created, which runs as it was"
        yield f"{said}; a sweep of the edited file: deployer up {record.file}"
    yield from describe_others(project, sweep.path, file)


def watch_sweep(
    server: Server,
    executor: Executor,
    path: SweepPath,
    folder: Path,
    *,
    wanted: int | None = None,
    expected: int | None = None,
    timeout_seconds: float | None = None,
    pending_seconds: float | None = None,
    packer: Packer | None = None,
    sleep: Callable[[float], None] = time.sleep,
    every: bool = False,
) -> Iterator[Status]:
    """Yield the status whenever it changes, or `every` time it is read, until the sweep is over.

    Agents that die are replaced until `wanted` work again; if it is None, those that were not
    dismissed. `packer` counts more. Raises WatchTimeout; StartFailed if no agent has started after
    `pending_seconds`, or none can.
    """
    COMMAND.begin_watching()
    if wanted is None:
        wanted = count_wanted(executor.list_agents(str(path)))
    timeout = PendingTimeout(pending_seconds)
    starter = AgentStarter(server, executor, path, folder)
    reconciler = Reconciler(server, executor, path, wanted, starter, expected, timeout, packer)
    return watch_status(
        reconciler.read,
        time.time,
        sleep,
        timeout_seconds,
        reconciler.reconcile,
        quick=server.extended,
        every=every,
    )


def count_later(server: Server, path: SweepPath, agents: Sequence[Agent]) -> int | None:
    """Return how many runs begin only while somebody watches: 0 for none, None without end."""
    if not any(map(takes_one_run, agents)):
        return 0
    left = get_left(server, path)
    return None if left is None else max(0, left - len(agents))


def _reach(
    project: Project,
    target: Target,
    executor: Executor,
    server: Server | None,
    request: Request,
) -> Server:
    """Ask whether agents would be taken, then return the server, made in the target if need be."""
    url = server.url if server else target.backend_url
    executor.check(build_draft(project, url, server.extended if server else True))
    if server is None:
        server = connect(project, bayes=request.is_bayes)
        check_not_ended(project, server, request)
    LOG.info(f"using {server.describe()}")
    if not server.extended:
        LOG.info(NOT_GUARANTEED)
    return server


def _make(project: Project, server: Server, request: Request) -> SweepPath:
    """Make or continue the sweep; tell each in a line."""

    def make() -> MadeSweep:
        return make_sweep(
            server,
            request.sweep,
            project,
            file=request.file,
            continued=request.continued,
            draws=request.draws,
            now=time.time(),
        )

    made = ask_patiently(server, make)
    for warning in made.warnings:
        LOG.warning(warning)
    LOG.info(f"{'created' if made.created else 'continuing'} sweep {made.path}")
    for line in server.page_lines(made.path):
        LOG.info(line)
    return made.path
