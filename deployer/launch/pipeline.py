"""The pipeline of `up`: resolve, check, provision, create, plan, apply, watch.

The command line, `agents up` and the Python API call the same one. It prints nothing: `tell` gets
sentences.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deployer.config.project import Project
from deployer.executors.base import Agent, Executor
from deployer.executors.deadline import find_end
from deployer.executors.plan import Plan
from deployer.executors.registry import find_target, list_names
from deployer.executors.target import Target, Tell
from deployer.launch.agent_environment import choose_pace
from deployer.launch.backend_revival import ask_patiently
from deployer.launch.check import (
    build_limits,
    check,
    check_program_here,
    check_reach,
    warn_about_deadline,
    warn_about_many,
)
from deployer.launch.code import settle_code
from deployer.launch.lock.writing import Planned, write_lock
from deployer.launch.one_run_per_job import count_wanted, takes_one_run
from deployer.launch.packing import Packer, prepare_packing, settle_packing
from deployer.launch.planning import (
    AgentStarter,
    apply_plan,
    build_draft,
    choose_bound,
    get_left,
    plan_agents,
)
from deployer.launch.provision import telling_bill
from deployer.launch.request import Request
from deployer.launch.script import begin_script_check, tell_report
from deployer.launch.server import connect
from deployer.sweeps.creation import MadeSweep, find_unfinished, make_sweep
from deployer.sweeps.records import remember_executor
from deployer.sweeps.rerun import describe_missing
from deployer.wandb_api.model import SweepInfo, SweepPath
from deployer.wandb_api.operations import get_sweep
from deployer.wandb_api.server import NOT_GUARANTEED, Server
from deployer.watch.pending_timeout import PendingTimeout
from deployer.watch.reconciliation import Reconciler
from deployer.watch.status import Status, watch_status


@dataclass(frozen=True)
class Launch:
    """A sweep with agents at work; a watcher keeps `wanted` of them alive, or what `packer` says.

    `expected` is how many configurations the file promises, None without end.
    """

    project: Project
    target: Target
    server: Server
    executor: Executor
    path: SweepPath
    agents: tuple[Agent, ...]
    wanted: int | None = None
    expected: int | None = None
    packer: Packer | None = None

    @property
    def sweep_path(self) -> str:
        """Return ENTITY/PROJECT/SWEEP_ID."""
        return str(self.path)


def up(project: Project, request: Request, tell: Tell) -> Launch:
    """Create or continue a sweep and start its agents; everything but watching.

    What can be refused is refused before anything is made or paid for. Raises DeployerError.
    """
    for warning in request.sweep.warnings:
        tell(f"warning: {warning}")
    project = prepare_packing(settle_code(project, tell), request.packing)
    script = begin_script_check(project, request)
    project, server = resolve(project, request, tell)
    target = find_target(project)
    check(project, target, request, server)
    tell_report(script.result(), request, tell)
    if warning := target.warn_about_code():
        tell(f"warning: {warning}")
    with telling_bill(target, tell):
        target.provision(build_limits(project, request), tell)
        executor = target.open()
        server = _reach(project, target, executor, server, tell)
        path = _make(project, server, request, tell)
        project, packer = settle_packing(project, target, request.packing, executor, path, tell)
        return _start_patiently(project, server, executor, path, request, packer, tell)


def resolve(project: Project, request: Request, tell: Tell) -> tuple[Project, Server | None]:
    """Find the server, and where a sweep that goes on has its agents, unless somebody said where.

    The server is None where it is in a cluster, which is made or reached later.
    """
    hosting = find_target(project, project.backend_on)
    if project.embedded and hosting.hosts_backend:
        return project, None
    server = connect(project, tell)
    if request.continued and not project.explicit_on:
        record = find_unfinished(server, request.sweep, project, request.file, request.draws)
        if record and record.on in list_names():
            project = replace(project, on=record.on)
    return project, server


def start_agents(
    project: Project,
    server: Server,
    executor: Executor,
    sweep: SweepInfo,
    tell: Tell,
    *,
    one_run: bool = False,
    max_seconds: float | None = None,
    expected: int | None = None,
    before: Callable[[Plan], None] = lambda _: None,
) -> Launch:
    """Start agents until there are as many as the project says; tell what is doubtful about it.

    With `one_run`, or where the sweep's agents are so already, each takes one run. They leave after
    `max_seconds`. `before` is called with the plan before it is carried out.
    """
    target, path = find_target(project), sweep.path
    check_reach(target, server.url, server.inside)
    one_run = one_run or any(map(takes_one_run, executor.list_agents(str(path))))
    if one_run and (warning := warn_about_deadline(target)):
        tell(f"warning: {warning}")
    bound, deadline = choose_bound(project, target, one_run), find_end(max_seconds, time.time())
    plan = plan_agents(
        server,
        executor,
        path,
        bound,
        project.code,
        one_run=one_run,
        deadline=deadline,
        pace=choose_pace(project, server.extended),
    )
    if warning := warn_about_many(server, len(plan.agents)):
        tell(f"warning: {warning}")
    if sweep.state == "PAUSED" and plan.agents:
        said = "is PAUSED: agents wait and hold their GPUs until"
        tell(f"{path} {said}: deployer sweep resume {path}")
    remember_executor(str(path), target.name)
    before(plan)
    agents = tuple(apply_plan(server, executor, plan))
    given = None if any(map(takes_one_run, agents)) else project.given_replicas
    return Launch(project, target, server, executor, path, agents, given or len(agents), expected)


def add_agents(
    project: Project,
    server: Server,
    path: SweepPath,
    tell: Tell,
    *,
    one_run: bool = False,
    max_seconds: float | None = None,
) -> Launch:
    """Start agents of a sweep that is there; none if it has ended."""
    project = settle_code(project, tell, str(path))
    target = find_target(project)
    executor = target.open()
    info = get_sweep(server.client, path)
    if info.ended:
        mend = f"deployer heal {path} runs what is missing, if anything is"
        tell(f"{path} is {info.state}: no agent is started; {mend}")
        return Launch(project, target, server, executor, path, ())
    check_program_here(target, info.config, project.code, str(path))
    target.check_data()
    if warning := target.warn_about_code():
        tell(f"warning: {warning}")
    return start_agents(
        project, server, executor, info, tell, one_run=one_run, max_seconds=max_seconds
    )


def watch_sweep(
    server: Server,
    executor: Executor,
    path: SweepPath,
    folder: Path,
    tell: Tell,
    *,
    wanted: int | None = None,
    expected: int | None = None,
    timeout_seconds: float | None = None,
    pending_seconds: float | None = None,
    packer: Packer | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Status]:
    """Yield the status whenever it changes, until the sweep is over. Raises WatchTimeout.

    Agents that die are replaced until `wanted` work again, as many as there are if it is None.
    StartFailed if no agent has started after `pending_seconds`, or none can. `packer` counts more.
    """
    if wanted is None:
        wanted = count_wanted(executor.list_agents(str(path)))
    timeout = PendingTimeout(pending_seconds)
    starter = AgentStarter(server, executor, path, folder)
    reconciler = Reconciler(
        server, executor, path, wanted, starter, expected, tell, timeout, packer
    )
    return watch_status(
        reconciler.read,
        time.time,
        sleep,
        timeout_seconds,
        reconciler.reconcile,
        quick=server.extended,
    )


def count_later(server: Server, path: SweepPath, agents: Sequence[Agent]) -> int | None:
    """Return how many runs begin only while somebody watches: 0 for none, None without end."""
    if not any(map(takes_one_run, agents)):
        return 0
    left = get_left(server, path)
    return None if left is None else max(0, left - len(agents))


def _reach(
    project: Project, target: Target, executor: Executor, server: Server | None, tell: Tell
) -> Server:
    """Ask whether agents would be taken, then return the server, made in the target if need be."""
    url = server.url if server else target.backend_url
    executor.check(build_draft(project, url, server.extended if server else True))
    server = server or connect(project, tell)
    tell(f"using {server.describe()}")
    if not server.extended:
        tell(NOT_GUARANTEED)
    return server


def _make(project: Project, server: Server, request: Request, tell: Tell) -> SweepPath:
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

    made = ask_patiently(server, make, tell)
    for warning in made.warnings:
        tell(f"warning: {warning}")
    if made.ended and (said := describe_missing(server, made.ended)):
        tell(said)
    tell(f"{'created' if made.created else 'continuing'} sweep {made.path}")
    tell(f"results page: {server.sweep_url(made.path)}{server.login_hint}")
    return made.path


def _start_patiently(
    project: Project,
    server: Server,
    executor: Executor,
    path: SweepPath,
    request: Request,
    packer: Packer | None,
    tell: Tell,
) -> Launch:
    def record(plan: Plan) -> None:
        target = find_target(project)
        write_lock(Planned(project, request, server, target, executor, path, plan), tell)

    def start() -> Launch:
        return start_agents(
            project,
            server,
            executor,
            get_sweep(server.client, path),
            tell,
            one_run=request.one_run,
            max_seconds=request.max_seconds,
            expected=request.sweep.expected,
            before=record,
        )

    return replace(ask_patiently(server, start, tell), packer=packer)
