"""Fewer agents of a sweep: which ones leave, how all end, and the messages meanwhile."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from deployer.agent.settings import COUNT_VARIABLE
from deployer.backend.scheduling.lifecycle import Patience
from deployer.config.document import find_too_many
from deployer.errors import (
    AgentError,
    ConfigError,
    DeployerError,
    KubeError,
    Refusals,
    collect_refusals,
)
from deployer.executors.base import Executor
from deployer.model import Agent, Run, SweepPath, Wanted
from deployer.sweeps.results import ACTIVE_STATES, Coverage
from deployer.text import format_count, format_seconds
from deployer.wandb_api.operations import list_runs
from deployer.wandb_api.server import Server
from deployer.watch.rules import takes_runs
from deployer.watch.status import join_runs

LOG = logging.getLogger(__name__)
SILENT_SECONDS = 3.0  # most agents end sooner
NAMED_RUNS = 5


def takes_one_run(agent: Agent) -> bool:
    """Return True if an agent leaves after its first run, as all of its sweep do."""
    return agent.environment.get(COUNT_VARIABLE) == "1"


def count_left(coverage: Coverage) -> int | None:
    """Count the configurations that are neither finished nor given up; None if endless."""
    if coverage.expected is None:
        return None
    return coverage.waiting + coverage.running


def count_agents(left: int | None, bound: int | None) -> int:
    """Return the number of agents: one per remaining run, at most `bound`.

    Raises ConfigError for an endless sweep without a bound, and for too many agents.
    """
    counts = [count for count in (left, bound) if count is not None]
    if not counts:
        raise ConfigError(
            "--one-run-per-job",
            "the number of runs of an endless sweep is unknown",
            "--run-cap N ends it, --replicas N limits how many run at a time",
        )
    bounded = "--replicas N limits how many run at a time"
    if error := find_too_many("--one-run-per-job", min(counts), bounded):
        raise error
    return min(counts)


def list_used_names(agents: Iterable[Agent]) -> list[str]:
    """Return the names that new agents must not reuse, so that logs are kept.

    A killed agent is replaced by one of its name, to which its run returns at once.
    """
    return [
        agent.name
        for agent in agents
        if takes_one_run(agent) and agent.state == "ended" and agent.exit_code == 0
    ]


@dataclass(frozen=True)
class Ended:
    """The `names` of ended agents; `forgotten`: their records were deleted too."""

    names: tuple[str, ...] = ()
    forgotten: bool = False

    def __add__(self, other: Ended) -> Ended:
        return Ended((*self.names, *other.names), self.forgotten or other.forgotten)

    def __bool__(self) -> bool:
        return bool(self.names) or self.forgotten


def scale_down(
    executor: Executor, path: SweepPath, replicas: int, runs: Sequence[Run] = ()
) -> tuple[str, ...]:
    """Set the wanted number to `replicas`, if at least as many stay, and drain the others.

    Idle ones leave first; `runs` show which are idle if the executor does not know. Another owner's
    agents count, and stay. Returns the names of the leaving agents, including those that an earlier
    command named but could not inform.
    """
    agents = join_runs(executor.list_agents(str(path)), runs)
    wanted = read_wanted(executor, str(path))
    staying = [agent for agent in agents if stays(agent, wanted)]
    if len(staying) < replicas:
        return ()
    unheard = [a.name for a in agents if stays(a) and not a.foreign and a not in staying]
    leaving = (*choose_leaving(staying, replicas), *unheard)
    own = max(0, replicas - sum(agent.foreign for agent in staying))
    over = {agent.name for agent in agents if not (agent.alive or agent.foreign)}
    _want(executor, path, own, {*leaving, *over})
    if lost := [agent.name for agent in agents if agent.state == "lost" and agent.name in over]:
        executor.stop(lost)  # a returning node or a Job could revive them
    if leaving:
        executor.drain(leaving)
    return leaving


def drain_agents(executor: Executor, path: SweepPath, names: Sequence[str]) -> None:
    """Drain agents after their runs, without replacing them."""
    used = list_used_names(executor.list_agents(str(path)))  # names without replacements so far
    counted = [name for name in names if name not in used]
    executor.wanted.change(str(path), lambda old: old and old.without(counted))
    executor.drain(names)


def drain_all(executor: Executor, path: SweepPath) -> None:
    """Drain the caller's agents of an ended sweep, without replacing them."""
    agents = executor.list_agents(str(path))
    going = [agent.name for agent in agents if takes_runs(agent) and not agent.foreign]
    _want(executor, path, 0, going)
    if going:
        executor.drain(going)


def _want(executor: Executor, path: SweepPath, number: int, leaving: Collection[str]) -> None:
    """Set the caller's wanted number of agents; a caller without agents sets nothing."""

    def change(old: Wanted | None) -> Wanted | None:
        if old is None and not (number or leaving):
            return None
        return Wanted(number, (old.leaving if old else frozenset()) | {*leaving})

    executor.wanted.change(str(path), change)


def read_wanted(executor: Executor, sweep_path: str) -> Wanted | None:
    """Return the wanted number of agents; None if unknown or unreadable.

    Raises transient errors.
    """
    try:
        return executor.wanted.get(sweep_path)
    except (AgentError, KubeError) as error:
        if error.passing:
            raise
        return None


def choose_leaving(staying: Sequence[Agent], replicas: int) -> tuple[str, ...]:
    """Return which agents leave until `replicas` stay: idle ones first, the youngest first; pure.

    Another owner's agents count, and stay.
    """
    own = [agent for agent in staying if not agent.foreign]
    by_idleness = sorted(own, key=lambda a: (a.run_id is not None, -a.started_at))
    return tuple(a.name for a in by_idleness[: max(0, len(staying) - replicas)])


def end_agents(executor: Executor, sweep_path: str | None) -> tuple[str, ...]:
    """Interrupt the caller's agents of one sweep, or of all, and delete their records.

    Returns the names of the live ones. Raises refusals after the rest is done.
    """
    with collect_refusals() as refusals:
        return end_willing_agents(executor, sweep_path, refusals).names


def end_willing_agents(
    executor: Executor, sweep_path: str | None, refusals: Refusals, *, everyone: bool = False
) -> Ended:
    """Like `end_agents`, but note refusals instead of raising them.

    Other owners' agents end only with `everyone`. First sets the wanted number to none, so that
    watchers do not restart them. Raises errors that prevent listing them.
    """
    try:
        executor.wanted.withdraw(sweep_path, everyone=everyone)
    except KubeError as error:
        if not error.forbidden:
            raise
        with refusals.noted():
            raise
    agents = [a for a in executor.list_agents(sweep_path) if everyone or not a.foreign]
    # Lost ones too: their runs may still be active.
    names = [agent.name for agent in agents if agent.state != "ended"]
    stopped, forgotten = tuple[str, ...](), False
    with refusals.noted():
        stopped = tuple(executor.stop(names)) if names else ()
    with refusals.noted():
        forgotten = executor.forget(sweep_path, everyone=everyone)
    return Ended(stopped, forgotten or bool(agents))


def check_reached(agents: Sequence[Agent], path: SweepPath, replicas: int) -> None:
    """Raise AgentError if other owners' agents alone exceed the number."""
    others = [agent for agent in agents if agent.foreign and stays(agent)]
    if len(others) > replicas:
        owners = ", ".join(sorted({agent.owner for agent in others}))
        stay = f"{format_count(len(others), 'agent')} of {owners}"
        raise AgentError(f"{path}: you may not drain {stay}", f"ask {owners} to scale down")


def list_shown(executor: Executor, sweep_path: str | None) -> list[Agent]:
    """Return a sweep's agents, of all owners; without a path the caller's own of all sweeps."""
    agents = executor.list_agents(sweep_path)
    return [agent for agent in agents if sweep_path or not agent.foreign]


def find_named(executor: Executor, path: SweepPath, names: Sequence[str]) -> list[Agent]:
    """Return the sweep's agents with these names, of every owner; raises AgentError."""
    known = {a.name: a for a in executor.list_agents(str(path))}
    for name in names:
        if name not in known:
            hint = f"its agents: {', '.join(known)}" if known else "deployer agents list --all"
            raise AgentError(f"{path} has no agent '{name}'", hint)
    return [known[name] for name in names]


def check_drainable(agents: Sequence[Agent]) -> None:
    """Reject draining another owner's agents; raises AgentError."""
    for agent in agents:
        if agent.foreign:
            said = f"agent '{agent.name}' belongs to {agent.owner}"
            raise AgentError(said, f"ask {agent.owner} to drain it")


def stays(agent: Agent, wanted: Wanted | None = None) -> bool:
    told = wanted is not None and agent.name in wanted.leaving
    return agent.state in ("starting", "running") and not told


@contextmanager
def report_slow_stop(executor: Executor, sweep_path: str | None) -> Iterator[None]:
    """Report once which agents still run and for how long at most, if the block is slow."""
    timer = threading.Timer(SILENT_SECONDS, _report_live, (executor, sweep_path))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _report_live(executor: Executor, sweep_path: str | None) -> None:
    try:
        left = [
            agent
            for agent in executor.list_agents(sweep_path)
            if agent.state != "ended" and not agent.foreign
        ]
    except DeployerError:
        return  # the block meets the same error
    if left:
        seconds = max(agent.stop_seconds for agent in left)
        who = ", ".join(map(_name, left))
        LOG.info(f"waiting up to {format_seconds(seconds)} for {who}, then killing them")


def _name(agent: Agent) -> str:
    return f"{agent.name} (run {agent.run_id})" if agent.run_id else agent.name


def report_stopping_runs(server: Server, path: SweepPath) -> None:
    """Report which runs of a cancelled sweep still continue, and for how long at most."""
    runs = [run.run_id for run in list_runs(server.client, path) if run.state in ACTIVE_STATES]
    if not runs:
        return
    rest = len(runs) - NAMED_RUNS
    who = ", ".join(runs[:NAMED_RUNS]) + (f" and {rest} more" if rest > 0 else "")
    seconds = format_seconds(Patience().graceful_stop_seconds)
    then = f"{seconds} at most, then killed" if server.extended else "or killed by their agents"
    LOG.info(
        f"{format_count(len(runs), 'run')} asked to stop ({who}): {then}: deployer watch {path}"
    )
