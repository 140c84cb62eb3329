"""The pipeline of `up`: resolve, check, provision, create, plan, apply, watch.

The command line, `agents up` and the Python API call the same one. It prints nothing, and logs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from deployer.config.project import Project
from deployer.errors import ScriptRaised
from deployer.executors.base import Executor, KeepsData, find_backend_url
from deployer.executors.checks import run_checks
from deployer.executors.registry import find_executor
from deployer.launch.agents.one_run_per_job import takes_one_run
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
from deployer.launch.provision import note_cluster
from deployer.launch.remains import describe_others
from deployer.launch.request import Request
from deployer.launch.resolution import go_where_agents_are
from deployer.launch.server import connect, find_host
from deployer.launch.session import Session
from deployer.launch.starting import Launch, prepare_packing, start_agents, start_asked
from deployer.model import Agent, Sweep, SweepPath
from deployer.sweeps.creation import find_newest, goes_on, is_edited, make_sweep
from deployer.sweeps.records import Records
from deployer.waiting import COMMAND
from deployer.wandb_api.operations import get_sweep
from deployer.wandb_api.server import NOT_GUARANTEED, Server
from deployer.watch.pending_timeout import PendingTimeout
from deployer.watch.reconciliation import Reconciler
from deployer.watch.status import Status, watch_status

LOG = logging.getLogger(__name__)


def up(project: Project, request: Request) -> Launch:
    """Create or continue a sweep and start its agents; everything but watching.

    What can be refused is refused before anything is made or paid for. Raises DeployerError.
    """
    for warning in request.sweep.warnings:
        LOG.warning(warning)
    executor = find_executor(prepare_packing(settle_code(project), request.packing))
    script = begin_script_check(executor, request)
    executor, server = resolve(executor, request)
    if server:
        check_not_ended(executor.project, server, request)
    check(executor, request, server)
    report = await_report(script, request.file)
    tell_report(report, request)
    if report.raised and request.asks and executor.runs_here:
        raise ScriptRaised(str(request.file), "its script failed in the check")
    _tell_about_agents(executor, server)
    note_cluster(executor)
    executor.provision(build_limits(executor.project, request))
    server = _reach(executor, server, request)
    session = Session(executor.project, executor, server, _make(executor, server, request))
    for line in () if request.words else describe_others(session, request.file):
        LOG.info(line)
    return start_asked(session, request)


def resolve(executor: Executor, request: Request) -> tuple[Executor, Server | None]:
    """Find the server, and where a sweep that goes on has its agents; what was said counts more.

    The server is None where it is in a cluster, which is made or reached later.
    """
    project = executor.project
    if find_host(project, executor):
        return executor, None
    server = connect(project, executor)
    pinned = any(record.pinned for record in Records.load().made_from(request.file))
    if request.continued and (pinned or not project.explicit_on):
        found = find_newest(server, request.sweep, project, request.file, request.draws)
        if found and goes_on(request.sweep, found[1]):
            placed = go_where_agents_are(project, found[0])
            if placed.named_cluster != project.named_cluster:
                LOG.info(f"{found[1].path} continues where it was started:{found[0].place_options}")
            executor = find_executor(placed)
    return executor, server


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
    session = Session(project, find_executor(project), server, path)
    executor, info = session.executor, get_sweep(server.client, path)
    if info.ended:
        mend = f"deployer heal {path} runs missing configurations"
        LOG.info(f"{path} is {info.state}: started no agent; {mend}")
        return Launch(**vars(session))
    for line in _describe_file(session, info):
        LOG.info(line)
    check_program_here(executor, info.config, project.code, str(path))
    if isinstance(executor, KeepsData):
        executor.check_data()
    _tell_about_agents(executor, server)
    return start_agents(session, info, one_run=one_run, max_seconds=max_seconds)


def _tell_about_agents(executor: Executor, server: Server | None) -> None:
    """Say what users must know of the runs, and what is doubtful about the agents."""
    for line in describe_runs(executor):
        LOG.info(line)
    url = server.url if server else find_backend_url(executor)
    for warning in executor.list_warnings(build_draft(executor.project, url, own_keys=True)):
        LOG.warning(warning)


def _describe_file(session: Session, sweep: Sweep) -> Iterator[str]:
    """Yield that a sweep's file was edited since its creation, and its other sweeps' agents."""
    record = next(iter(Records.load().of(str(sweep.path))), None)
    if record is None:
        return
    file = Path(record.folder, record.file)
    if is_edited(sweep, file):
        said = f"{file.name} was edited after {sweep.path} was created, which stays as it was"
        yield f"{said}; a sweep of the edited file: deployer up {record.file}"
    yield from describe_others(session, file)


def watch_sweep(
    launch: Launch,
    *,
    timeout_seconds: float | None = None,
    pending_seconds: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
    every: bool = False,
) -> Iterator[Status]:
    """Yield the status whenever it changes, or `every` time it is read, until the sweep is over.

    Agents that die are replaced until as many as are wanted work again. Raises WatchTimeout;
    StartFailed if no agent has started after `pending_seconds`, or none can.
    """
    COMMAND.begin_watching()
    server, executor, path = launch.server, launch.executor, launch.path
    timeout = PendingTimeout(pending_seconds)
    starter = AgentStarter(server, executor, path, launch.project.code.folder)
    reconciler = Reconciler(server, executor, path, starter, launch.expected, timeout)
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


def _reach(executor: Executor, server: Server | None, request: Request) -> Server:
    """Ask whether agents would be taken, then return the server, made in a cluster if need be."""
    project = executor.project
    url = server.url if server else find_backend_url(executor)
    own_keys = server.extended if server else True
    run_checks(executor.list_checks(build_draft(project, url, own_keys)))
    if server is None:
        server = connect(project, executor)
        check_not_ended(project, server, request)
    LOG.info(f"using {server.describe()}")
    if not server.extended:
        LOG.info(NOT_GUARANTEED)
    return server


def _make(executor: Executor, server: Server, request: Request) -> SweepPath:
    """Make or continue the sweep; tell each in a line."""
    file, draws = request.file, request.draws
    made = ask_patiently(
        server,
        lambda: make_sweep(
            server,
            request.sweep,
            executor.project,
            file=file,
            continued=request.continued,
            draws=draws,
            now=time.time(),
            whole=request.whole,
        ),
    )
    for warning in made.warnings:
        LOG.warning(warning)
    LOG.info(f"{'created' if made.created else 'continuing'} sweep {made.path}")
    for line in server.page_lines(made.path):
        LOG.info(line)
    return made.path
