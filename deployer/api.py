"""The public Python API: what the command line does, as functions that raise and print nothing.

Progress is logged at INFO, warnings at WARNING: `logging.basicConfig(level="INFO")` shows both. The
whole way at once, as `deployer up`:

    from deployer.api import results, up, watch

    launch = up("sweep.yaml", replicas=2)
    for status in watch(launch.server, launch.sweep_path):
        ...
    best = results(launch.server, launch.sweep_path).best

or step by step:

    from deployer.api import apply, connect, create_sweep, plan, results, watch

    server = connect()
    path = create_sweep(server, "sweep.yaml")
    apply(server, plan(server, path, replicas=2))
    for status in watch(server, path):
        ...
    best = results(server, path).best

The others do what the commands of their names do: `pause`, `resume`, `stop`, `delete`, `heal`,
`logs`, `agents`, `importance`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployer.analysis.importance import Importance, build_importance
from deployer.analysis.ranking import rank_by
from deployer.config.project import Flags, Project
from deployer.errors import ConfigError
from deployer.executors.registry import find_executor
from deployer.launch import control, pipeline, planning, resolution
from deployer.launch.check import check_program_here
from deployer.launch.logs import read_agent_logs, read_run_log
from deployer.launch.pipeline import Launch, resolve_project_code
from deployer.launch.planning import choose_pace
from deployer.launch.provision import describe_file, describe_owners, reporting_remains
from deployer.launch.request import Session, SweepRequest, read_project
from deployer.launch.resolution import resolve_executor, resolve_executors
from deployer.launch.scaling import list_shown
from deployer.launch.script import check_script_first
from deployer.model import Agent, Plan, SweepPath
from deployer.sweeps.creation import Draws, make_sweep
from deployer.sweeps.rerun import Healing, get_full_snapshot, heal_sweep
from deployer.sweeps.results import Coverage, Row, build_results
from deployer.sweeps.run_rows import KEYS, flatten_rows
from deployer.sweeps.sweep_file import load_sweep
from deployer.wandb_api.model import parse_sweep_path
from deployer.wandb_api.server import Server
from deployer.watch.status import Status

__all__ = [
    "SweepResults",
    "agents",
    "apply",
    "connect",
    "create_sweep",
    "delete",
    "heal",
    "importance",
    "logs",
    "pause",
    "plan",
    "results",
    "resume",
    "stop",
    "up",
    "watch",
]

LOG = logging.getLogger(__name__)
logging.getLogger("deployer").addHandler(logging.NullHandler())  # else Python prints warnings


@dataclass(frozen=True)
class SweepResults:
    """A sweep's results; each attribute is called as its key in `deployer results -o json`.

    `runs` are ranked, best first; `best` is None if no run has finished with a finite metric.
    """

    sweep: str
    state: str
    stop_reason: str
    metric: str | None
    goal: str
    coverage: Coverage
    best: Row | None
    runs: tuple[Row, ...]
    failures: tuple[Row, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return a flat dict for each run, best first, for `pandas.DataFrame`.

        All have the same keys: those of `runs` in `deployer results -o json`, with times in seconds
        and `attempts` as a number. The metric, parameters and logged values are keys of their own,
        named as the columns of `-o csv`. Missing values are None, secrets `REDACTED`.
        """
        columns, values = flatten_rows(self.runs, KEYS, self.metric)
        return [dict(zip(columns, row, strict=True)) for row in values]


def up(
    file: str | Path,
    *,
    replicas: int | None = None,
    on: str | None = None,
    wandb: str | None = None,
    entity: str | None = None,
    project: str | None = None,
    run_cap: int | None = None,
    seed: int | None = None,
    retries: int | None = None,
    new: bool = False,
    one_run: bool = False,
    max_seconds: float | None = None,
    capacity_seconds: float = 0.0,
    check_script: bool = True,
    folder: Path | None = None,
) -> Launch:
    """Create or continue a sweep and start its agents, as `deployer up FILE --detach` does.

    What is left out is as the environment and deployer.yaml in `folder` (the current one) have it;
    each is read once. `check_script` asks the script about
    its flags. Progress is logged.
    Raises DeployerError, SweepEnded if the file's sweep has ended and `new` is not given; what can
    be refused is refused before anything is made.
    """
    _check_counts(replicas=replicas, run_cap=run_cap, retries=retries)
    flags = Flags(wandb=wandb, entity=entity, project=project, replicas=replicas, on=on)
    request = SweepRequest(
        Path(file),
        load_sweep(file, run_cap),
        Draws(seed, retries),
        continued=not new,
        one_run=one_run,
        max_seconds=max_seconds,
        capacity_seconds=capacity_seconds,
        check_script=check_script,
    )
    found = read_project(flags, folder)
    with reporting_remains(lambda failure: describe_file(found, request.file, failure)):
        return pipeline.up(found, request)


def connect(wandb: str | None = None) -> Server:
    """Connect to W&B: `embedded`, an address, or what the environment says.

    Raises ConfigError, BackendError or WandbError.
    """
    return resolution.connect(_read(wandb=wandb))


def create_sweep(
    server: Server,
    file: str | Path,
    *,
    run_cap: int | None = None,
    seed: int | None = None,
    retries: int | None = None,
    new: bool = True,
    check_script: bool = True,
) -> str:
    """Make a sweep from a file and return its path; `new=False` continues an unfinished one.

    Raises ConfigError for what `up` refuses about the file; `check_script` asks the script about
    its flags.
    """
    _check_counts(run_cap=run_cap, retries=retries)
    project, sweep, draws = _read(), load_sweep(file, run_cap), Draws(seed, retries)
    executor = find_executor(project)
    check_program_here(executor, sweep.config, project.code, str(file))
    check_script_first(
        executor, SweepRequest(Path(file), sweep, draws=draws, check_script=check_script)
    )
    return str(
        make_sweep(
            server,
            sweep,
            project,
            file=Path(file),
            continued=not new,
            draws=draws,
            now=time.time(),
        ).path
    )


def plan(
    server: Server,
    sweep_path: str,
    replicas: int | None,
    *,
    on: str | None = None,
    folder: Path | None = None,
    one_run: bool = False,
) -> Plan:
    """Work out which agents make `replicas` in all, working in `folder` (the current one).

    With `one_run`, an agent for each run that is left, at most `replicas`. None as in `agents up`.
    Raises ConfigError.
    """
    _check_counts(replicas=replicas)
    project = resolve_project_code(_read(on=on, folder=folder), sweep_path)
    executor, path = find_executor(project), _path(sweep_path)
    return planning.plan_agents(
        server,
        executor,
        path,
        replicas,
        project.code,
        one_run=one_run,
        pace=choose_pace(project, server.extended),
    )


def apply(server: Server, plan: Plan, *, on: str | None = None) -> Sequence[Agent]:
    """Start the plan's agents that are not alive yet; safe to call again after any failure."""
    return planning.apply_plan(server, find_executor(_read(on=on)), plan)


def watch(
    server: Server,
    sweep_path: str,
    *,
    on: str | None = None,
    timeout_seconds: float | None = None,
) -> Iterator[Status]:
    """Yield the sweep's status whenever it changes, until it is over. Raises WatchTimeout.

    Agents that die are replaced, as by the command.
    """
    project = _read(on=on)
    launch = Launch(project, find_executor(project), server, _path(sweep_path))
    return pipeline.watch_sweep(launch, timeout_seconds=timeout_seconds)


def pause(server: Server, sweep_path: str, *, sure: bool = False, on: str | None = None) -> None:
    """Start no more runs, as `deployer sweep pause`: running ones finish, agents wait.

    Raises WandbError if the sweep has ended, ConfigError if other owners' agents work on it and
    `sure` is not given.
    """
    control.steer(_open(server, sweep_path, on), "PAUSED", _agree_if(sure))


def resume(server: Server, sweep_path: str, *, sure: bool = False, on: str | None = None) -> None:
    """Start runs again after a pause, as `deployer sweep resume`. Raises as `pause` does."""
    control.steer(_open(server, sweep_path, on), "RUNNING", _agree_if(sure))


def stop(server: Server, sweep_path: str, *, sure: bool = False, on: str | None = None) -> None:
    """End a sweep, as `deployer sweep stop`: running runs finish, then its agents leave.

    Raises as `pause` does, and ConfigError if the sweep was made elsewhere and `sure` is not given.
    """
    control.steer(_open(server, sweep_path, on), "FINISHED", _agree_if(sure))


def delete(server: Server, sweep_path: str, *, sure: bool = False, on: str | None = None) -> None:
    """Delete a sweep and its outputs on this machine for good, as `deployer sweep delete --yes`.

    Its runs stay. Raises AgentError while agents may be running, ConfigError if the sweep was made
    elsewhere and `sure` is not given, WandbError on W&B's own servers.
    """
    control.delete(_open(server, sweep_path, on), _agree_if(sure))


def agents(sweep_path: str | None = None, *, on: str | None = None) -> list[Agent]:
    """Return a sweep's agents, as `deployer agents list`; without a path your own of every sweep.

    What other owners have is logged. Raises ConfigError, KubeError, CloudError.
    """
    path = None if sweep_path is None else str(_path(sweep_path))
    project = _read(on=on)
    executor = find_executor(
        resolve_executor(path, project) if path else resolve_executors(project)
    )
    for sentence in describe_owners(executor.list_others(path), time.time(), executor.on):
        LOG.info(sentence)
    return list_shown(executor, path)


def logs(
    server: Server,
    sweep_path: str,
    *,
    agents: Sequence[str] = (),
    run: str | None = None,
    follow: bool = False,
    on: str | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield (agent's name, line), as `deployer agents logs`; with `run` (run id, line) of that run.

    `agents` are names, all if none is given; `run` is an id or the number of a set. `follow` waits
    for more lines until all have ended. Raises ConfigError for both of them; at the first line
    AgentError, WandbError for what is not found.
    """
    if run and agents:
        raise ConfigError("run", "cannot be combined with agents", "remove one of them")
    if run:
        return read_run_log(server, _path(sweep_path), run, follow)
    session = _open(server, sweep_path, on)
    return read_agent_logs(session.executor, session.path, agents, follow, lambda: server)


def results(server: Server, sweep_path: str) -> SweepResults:
    """Return a sweep's ranking, coverage and failures as they are now, follow-ups counted in."""
    snapshot = get_full_snapshot(server, _path(sweep_path))
    found = build_results(snapshot.sweep, snapshot.runs)
    return SweepResults(
        sweep=found.sweep_path,
        state=found.state,
        stop_reason=found.stop_reason,
        metric=found.metric,
        goal=found.goal,
        coverage=found.coverage,
        best=found.best,
        runs=found.rows,
        failures=found.failures,
    )


def importance(server: Server, sweep_path: str, metric: str | None = None) -> Importance:
    """Return how important each parameter is for a metric, the sweep's own if none is named.

    Raises ConfigError where there is none, DeployerError without scikit-learn.
    """
    snapshot = get_full_snapshot(server, _path(sweep_path))
    name = metric or snapshot.sweep.metric_name
    if name is None:
        raise ConfigError(
            "metric", "is missing, and the sweep has none", "name a metric that the script logs"
        )
    found = rank_by(snapshot.sweep, snapshot.runs, name, snapshot.sweep.metric_goal)
    return build_importance(found.rows, name)


def heal(server: Server, sweep_path: str) -> Healing:
    """Set going again what is lost or failed: requeued, or in a follow-up where it cannot be."""
    return heal_sweep(server, _path(sweep_path))


def _read(wandb: str | None = None, on: str | None = None, folder: Path | None = None) -> Project:
    return read_project(Flags(wandb=wandb, on=on), folder)


def _open(server: Server, sweep_path: str, on: str | None) -> Session:
    """Return a sweep with where its agents were started last, unless `on` says otherwise."""
    project = resolve_executor(sweep_path, _read(on=on))
    return Session(project, find_executor(project), server, _path(sweep_path))


def _agree_if(sure: bool) -> control.Agree:
    """Return what agrees, or raises ConfigError where other people are concerned and not `sure`."""

    def agree(concerns: Sequence[str], _: str) -> bool:
        if concerns and not sure:
            said = "; ".join(line for one in concerns for line in one.splitlines())
            raise ConfigError("sure", f"is False, and {said}", "pass sure=True if you mean it")
        return True

    return agree


def _check_counts(**counts: int | None) -> None:
    """Refuse by its argument's name what the command line refuses as a flag; raises ConfigError."""
    for name, count in counts.items():
        least = 0 if name == "retries" else 1
        if count is None:
            continue
        if not isinstance(count, int) or isinstance(count, bool):
            raise ConfigError(name, f"{count!r} is not a whole number", f"{least} or more, or None")
        if count < least:
            raise ConfigError(name, f"{count} is below {least}", f"{least} or more, or None")


def _path(text: str) -> SweepPath:
    return parse_sweep_path(text)
