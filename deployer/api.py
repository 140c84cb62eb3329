"""The public Python API: what the command line does, as functions that raise and print nothing.

from deployer.api import apply, connect, create_sweep, plan, results, watch

server = connect()
path = create_sweep(server, "sweep.yaml")
apply(server, plan(server, path, replicas=2))
for status in watch(server, path):
    ...
best = results(server, path).best
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from deployer.config.settings import Config, Flags, load_config
from deployer.executors.base import Agent
from deployer.executors.plan import Plan
from deployer.executors.registry import open_executor
from deployer.launch import agents
from deployer.launch import server as launch_server
from deployer.launch.one_run_per_job import count_wanted
from deployer.sweeps.creation import Draws, make_sweep
from deployer.sweeps.rerun import Healing, get_whole_snapshot, heal_sweep
from deployer.sweeps.results import Results, build_results
from deployer.sweeps.sweep_file import load_sweep
from deployer.wandb_api.model import SweepPath, parse_sweep_path
from deployer.wandb_api.server import Server
from deployer.watch.reconciliation import Reconciler
from deployer.watch.status import Status, watch_status

__all__ = ["apply", "connect", "create_sweep", "heal", "plan", "results", "watch"]


def connect(wandb: str | None = None) -> Server:
    """Connect to W&B: `embedded`, an address, or what the environment says.

    Raises ConfigError, BackendError or WandbError.
    """
    return launch_server.connect(_config(wandb=wandb))


def create_sweep(
    server: Server,
    file: str | Path,
    *,
    run_cap: int | None = None,
    seed: int | None = None,
    retries: int | None = None,
    new: bool = True,
) -> str:
    """Make a sweep from a file and return its path; `new=False` continues an unfinished one."""
    return str(
        make_sweep(
            server,
            load_sweep(file, run_cap),
            _config(),
            file=Path(file),
            continued=not new,
            draws=Draws(seed, retries),
            now=time.time(),
        ).path
    )


def plan(
    server: Server,
    sweep_path: str,
    replicas: int | None,
    *,
    on: str = "local",
    folder: Path | None = None,
    one_run: bool = False,
) -> Plan:
    """Work out which agents make `replicas` in all, working in `folder` (the current one).

    With `one_run`, an agent for each run that is left, at most `replicas`.
    """
    executor, path = open_executor(on), _path(sweep_path)
    return agents.plan_agents(
        server, executor, path, replicas, folder or Path.cwd(), one_run=one_run
    )


def apply(server: Server, plan: Plan, *, on: str = "local") -> Sequence[Agent]:
    """Start the plan's agents that are not alive yet; safe to call again after any failure."""
    return agents.apply_plan(server, open_executor(on), plan)


def watch(
    server: Server, sweep_path: str, *, on: str = "local", timeout_seconds: float | None = None
) -> Iterator[Status]:
    """Yield the sweep's status whenever it changes, until it is over. Raises WatchTimeout.

    Agents that die are replaced, as by the command.
    """
    executor, path = open_executor(on), _path(sweep_path)
    wanted = count_wanted(executor.list_agents(sweep_path))
    starter = agents.AgentStarter(server, executor, path, Path.cwd())
    reconciler = Reconciler(server, executor, path, wanted, starter, None, lambda _: None)
    return watch_status(
        reconciler.read, time.time, time.sleep, timeout_seconds, reconciler.reconcile
    )


def results(server: Server, sweep_path: str) -> Results:
    """Return a sweep's ranking, coverage and failures as they are now, follow-ups counted in."""
    snapshot = get_whole_snapshot(server, _path(sweep_path))
    return build_results(snapshot.sweep, snapshot.runs)


def heal(server: Server, sweep_path: str) -> Healing:
    """Set going again what is lost or failed: requeued, or in a follow-up where it cannot be."""
    return heal_sweep(server, _path(sweep_path))


def _config(wandb: str | None = None) -> Config:
    return load_config(Flags(wandb=wandb), os.environ, Path.cwd())


def _path(text: str) -> SweepPath:
    return parse_sweep_path(text)
