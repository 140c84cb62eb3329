"""The pipeline of `up`: resolve, check, provision, create, plan, apply, watch.

The command line, `agents up` and the Python API share it. It prints nothing, and logs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from deployer.config.document import FILE_NAME
from deployer.config.project import Project
from deployer.errors import ConfigError, KubeError, ScriptRaised, WandbError
from deployer.executors.base import Executor, run_checks
from deployer.executors.plan import find_end
from deployer.executors.registry import find_executor
from deployer.images.code import resolve_code, warn_about_changes
from deployer.launch.check import (
    build_limits,
    check,
    check_not_ended,
    check_program_here,
    check_reach,
    describe_runs,
    warn_about_deadline,
    warn_about_many,
    warn_about_port,
)
from deployer.launch.planning import (
    AgentStarter,
    apply_plan,
    build_draft,
    choose_bound,
    choose_pace,
    get_left,
    plan_agents,
)
from deployer.launch.provision import describe_elsewhere, describe_others, note_cluster
from deployer.launch.request import Session, SweepRequest
from deployer.launch.resolution import connect, find_host, follow_agents_of
from deployer.launch.scaling import scale_down, takes_one_run
from deployer.launch.script import await_report, begin_script_check, log_report
from deployer.model import Agent, Sweep, SweepPath
from deployer.sweeps.creation import find_newest, goes_on, is_edited, make_sweep
from deployer.sweeps.records import Records
from deployer.text import format_count
from deployer.waiting import COMMAND, NO_ANSWER, retry
from deployer.wandb_api.operations import get_sweep, list_runs
from deployer.wandb_api.server import NOT_GUARANTEED, Server
from deployer.watch.reconciliation import Reconciler
from deployer.watch.rules import PendingTimeout
from deployer.watch.status import Status, watch_status

LOG = logging.getLogger(__name__)

T = TypeVar("T")
REVIVED = "restarted the embedded backend, which had died"
TRIES = 5
PAUSE_SECONDS = 1.0


def ask_patiently(
    server: Server,
    ask: Callable[[], T],
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Retry `ask` while a local backend is restarted; on other servers call it once.

    `ask` must be repeatable. Raises WandbError, or BackendError if the backend was stopped or does
    not come up again.
    """
    if not server.embedded or server.inside is not None:
        return ask()

    def may_pass(error: WandbError) -> bool:
        if error.status == NO_ANSWER and server.revive():
            LOG.info(REVIVED)
        return error.status == NO_ANSWER

    return retry(ask, WandbError, may_pass, sleep, lambda *_: PAUSE_SECONDS, TRIES)


@dataclass(frozen=True)
class Launch(Session):
    """A sweep with running agents; `started` names the new ones.

    `expected` is the file's number of configurations, None if endless.
    """

    agents: tuple[Agent, ...] = ()
    started: tuple[str, ...] = ()
    expected: int | None = None


def start_agents(
    session: Session,
    sweep: Sweep,
    *,
    one_run: bool = False,
    max_seconds: float | None = None,
    request: SweepRequest | None = None,
) -> Launch:
    """Start agents up to the project's number; log warnings about the sweep.

    With `one_run`, or if the sweep's agents already are so, each takes one run. They leave after
    `max_seconds`.
    """
    project, executor, server = session.project, session.executor, session.server
    path = session.sweep_path
    check_reach(executor, server.url, server.inside)
    there = executor.list_agents(path)
    one_run = one_run or any(map(takes_one_run, there))
    if one_run and (warning := warn_about_deadline(executor)):
        LOG.warning(warning)
    bound, deadline = choose_bound(project, executor, one_run), find_end(max_seconds, time.time())
    plan = plan_agents(
        server,
        executor,
        session.path,
        bound,
        project.code,
        one_run=one_run,
        deadline=deadline,
        pace=choose_pace(project, server.extended),
        agents=there,
    )
    for warning in (
        warn_about_many(server, len(plan.agents)),
        warn_about_port(executor, sweep.config, plan.asked),
    ):
        if warning:
            LOG.warning(warning)
    if sweep.state == "PAUSED" and plan.agents:
        said = "is PAUSED: agents wait and hold their GPUs until"
        LOG.info(f"{path} {said}: deployer sweep resume {path}")
    server.note_user()
    for line in describe_elsewhere(executor, path):
        LOG.info(line)
    pinned = bool(project.named_cluster)
    Records.load().note(path, on=executor.name, pinned=pinned, **executor.address)
    agents = tuple(apply_plan(server, executor, plan))
    alive = {agent.name for agent in there if agent.alive}
    started = tuple(agent.name for agent in agents if agent.name not in alive)
    expected = request.sweep.expected if request else None
    return Launch(**vars(session), agents=agents, started=started, expected=expected)


def drain_surplus(launch: Launch, replicas: int | None) -> None:
    """Drain agents in excess of the number that the user gave, idle ones first."""
    if replicas is None or not launch.agents:
        return
    runs = list_runs(launch.server.client, launch.path)
    if leaving := scale_down(launch.executor, launch.path, replicas, runs):
        LOG.info(f"draining {', '.join(leaving)}: {format_count(replicas, 'agent')} requested")


def prepare_packing(project: Project, packing: int | None) -> Project:
    if packing is None:
        return project
    from deployer.config.kubernetes import MOST_PER_POD  # pydantic

    if packing > MOST_PER_POD and find_executor(project).runs_here:
        return project  # pods have no more
    return project.with_kubernetes(agents_per_pod=packing)


def _resolve_packing(session: Session, packing: int | None) -> Session:
    """Return the session for `packing` agents per local GPU, at most --replicas in total."""
    executor, most = session.executor, session.project.given_replicas
    if packing is None or not executor.runs_here:
        return session
    count = packing * max(1, len(executor.gpus or ()))
    count = min(count, most or count)
    return replace(session, project=replace(session.project, replicas=count, given_replicas=count))


def start_asked(session: Session, request: SweepRequest) -> Launch:
    """Start the requested number of agents.

    If the cluster refuses more agents, the existing ones are still watched.
    """
    session = _resolve_packing(session, request.packing)
    server = session.server
    try:
        return ask_patiently(
            server,
            lambda: start_agents(
                session,
                get_sweep(server.client, session.path),
                one_run=request.one_run,
                max_seconds=request.max_seconds,
                request=request,
            ),
        )
    except KubeError as error:
        if not error.forbidden:
            raise
        there = session.executor.list_agents(session.sweep_path)
        working = [agent.name for agent in there if agent.alive and not agent.foreign]
        if not working:
            raise
        hint = f"; {error.hint}" if error.hint else ""
        LOG.warning(f"only {', '.join(working)} started: {error.message}{hint}")
        LOG.info(f"to start more later: deployer agents up {session.path} --replicas N")
        agents = tuple(agent for agent in there if agent.name in working)
        return Launch(**vars(session), agents=agents, expected=request.sweep.expected)


def resolve_project_code(project: Project, sweep_path: str = "") -> Project:
    """Return the project with its commit checked out, if it has `code: git`.

    An existing sweep keeps the commit it was made with. Raises ConfigError.
    """
    if not project.code_from_git or project.resolved_code:
        return project
    if not find_executor(project).has_folder:
        said = "`kubernetes.code: image` runs the code in the image, not the code from git"
        raise ConfigError(f"{FILE_NAME}: code", said, "remove one of them")
    made = Records.load().of(sweep_path) if sweep_path else ()
    known = next((record.commit for record in made if record.commit), "")
    code = resolve_code(project.folder, project.environment, known)
    if warning := warn_about_changes(project.folder, project.environment):
        LOG.warning(warning)
    LOG.info(f"code: {code.repository or code.folder} at {code.commit}")
    return replace(project, resolved_code=code)


def up(project: Project, request: SweepRequest) -> Launch:
    """Create or continue a sweep and start its agents, without watching.

    All checks run before anything is made or paid for. Raises DeployerError.
    """
    for warning in request.sweep.warnings:
        LOG.warning(warning)
    executor = find_executor(prepare_packing(resolve_project_code(project), request.packing))
    script = begin_script_check(executor, request)
    executor, server = resolve(executor, request)
    if server:
        check_not_ended(executor.project, server, request)
    check(executor, request, server)
    report = await_report(script, request.file)
    log_report(report, request)
    if report.raised and request.asks and executor.runs_here:
        raise ScriptRaised(str(request.file), "its script failed during the check")
    _log_descriptions(executor, server)
    note_cluster(executor)
    executor.provision(build_limits(executor.project, request))
    server = _reach(executor, server, request)
    session = Session(executor.project, executor, server, _make(executor, server, request))
    for line in () if request.words else describe_others(session, request.file):
        LOG.info(line)
    return start_asked(session, request)


def resolve(executor: Executor, request: SweepRequest) -> tuple[Executor, Server | None]:
    """Find the server, and the agents' location of a continued sweep; explicit settings win.

    The server is None if it is in a cluster, which is made or reached later.
    """
    project = executor.project
    if find_host(project, executor):
        return executor, None
    server = connect(project, executor)
    pinned = any(record.pinned for record in Records.load().made_from(request.file))
    if request.continued and (pinned or not project.explicit_on):
        found = find_newest(server, request.sweep, project, request.file, request.draws)
        if found and goes_on(request.sweep, found[1]):
            placed = follow_agents_of(project, found[0])
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
    project = resolve_project_code(project, str(path))
    session = Session(project, find_executor(project), server, path)
    executor, info = session.executor, get_sweep(server.client, path)
    if info.ended:
        mend = f"deployer heal {path} runs missing configurations"
        LOG.info(f"{path} is {info.state}: started no agent; {mend}")
        return Launch(**vars(session))
    for line in _describe_file(session, info):
        LOG.info(line)
    check_program_here(executor, info.config, project.code, str(path))
    if executor.data:
        executor.data.check()
    _log_descriptions(executor, server)
    return start_agents(session, info, one_run=one_run, max_seconds=max_seconds)


def _log_descriptions(executor: Executor, server: Server | None) -> None:
    """Log the facts about the runs, and warnings about the agents."""
    url = server.url if server else executor.embedded_url
    described = describe_runs(executor, build_draft(executor.project, url, own_keys=True))
    for line in described.lines:
        LOG.info(line)
    for warning in described.warnings:
        LOG.warning(warning)


def _describe_file(session: Session, sweep: Sweep) -> Iterator[str]:
    """Yield that a sweep's file was edited since its creation, and its other sweeps' agents."""
    record = next(iter(Records.load().of(str(sweep.path))), None)
    if record is None:
        return
    file = Path(record.folder, record.file)
    if is_edited(sweep, file):
        said = f"{file.name} was edited after {sweep.path} was created; the sweep is unchanged"
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
    """Yield the status on each change, or `every` time it is read, until the sweep is over.

    Dead agents are replaced until the wanted number is running. Raises WatchTimeout; StartFailed if
    no agent has started after `pending_seconds`, or none can.
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
    """Return how many runs start only while a watcher runs: 0 for none, None if endless."""
    if not any(map(takes_one_run, agents)):
        return 0
    left = get_left(server, path)
    return None if left is None else max(0, left - len(agents))


def _reach(executor: Executor, server: Server | None, request: SweepRequest) -> Server:
    """Check that agents would be accepted; return the server, created in a cluster if needed."""
    project = executor.project
    url = server.url if server else executor.embedded_url
    own_keys = server.extended if server else True
    run_checks(executor.list_checks(build_draft(project, url, own_keys)))
    if server is None:
        server = connect(project, executor)
        check_not_ended(project, server, request)
    LOG.info(f"using {server.describe()}")
    if not server.extended:
        LOG.info(NOT_GUARANTEED)
    return server


def _make(executor: Executor, server: Server, request: SweepRequest) -> SweepPath:
    """Make or continue the sweep, and log it."""
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
