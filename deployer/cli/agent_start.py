"""Starts a sweep's agents; says what is doubtful about it, and what a pause does to them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from deployer.cli.options import choose_bound
from deployer.cli.output.render import say
from deployer.config.settings import Config
from deployer.errors import ConfigError
from deployer.executors.base import Agent, Executor
from deployer.executors.deadline import find_end
from deployer.launch.agents import (
    apply_plan,
    get_left,
    plan_agents,
    warn_about_deadline,
    warn_about_many,
)
from deployer.launch.one_run_per_job import takes_one_run
from deployer.sweeps.records import remember_executor
from deployer.text import format_count
from deployer.wandb_api.client import is_loopback
from deployer.wandb_api.model import SweepInfo, SweepPath
from deployer.wandb_api.server import NOT_GUARANTEED, Inside, Server


def check_reach(on: str, base_url: str, inside: Inside | None = None) -> None:
    """Refuse agents that would not reach their server; raises ConfigError.

    That is in a cluster for a server on this machine's own address, and here for one `inside`.
    """
    if inside and inside.on != on:
        raise ConfigError(
            "--on",
            f"agents on {on} do not reach {base_url}, the embedded backend of --on {inside.on}",
            f"start them there: --on {inside.on}",
        )
    if on == "local" or not is_loopback(base_url):
        return
    raise ConfigError(
        "--on",
        f"pods in a cluster do not reach {base_url}, an address of this machine alone",
        "deployer backend down; deployer backend serve --host ADDRESS, one that pods reach",
    )


def start_agents(
    server: Server,
    executor: Executor,
    sweep: SweepInfo,
    config: Config,
    *,
    one_run: bool = False,
    max_seconds: float | None = None,
) -> tuple[Agent, ...]:
    """Start agents until there are as many as the config says; say what is doubtful about it.

    With `one_run`, or where the sweep's agents are so already, each takes one run. They leave after
    `max_seconds`. Returns those that were planned.
    """
    check_reach(config.on, server.url, server.inside)
    one_run = one_run or any(map(takes_one_run, executor.list_agents(str(sweep.path))))
    if one_run and (warning := warn_about_deadline(config.on, config.folder)):
        say(f"warning: {warning}")
    plan = plan_agents(
        server,
        executor,
        sweep.path,
        choose_bound(config, one_run),
        config.folder,
        one_run=one_run,
        deadline=find_end(max_seconds, time.time()),
    )
    if warning := warn_about_many(server, len(plan.agents)):
        say(f"warning: {warning}")
    if sweep.state == "PAUSED":
        said = "is PAUSED: agents wait and hold their GPUs until"
        say(f"{sweep.path} {said}: deployer sweep resume {sweep.path}")
    remember_executor(str(sweep.path), config.on)
    return tuple(apply_plan(server, executor, plan))


def say_what_begins_later(server: Server, path: SweepPath, agents: Sequence[Agent]) -> None:
    """Say that somebody has to watch if there are fewer agents for one run each than runs."""
    if not any(map(takes_one_run, agents)):
        return
    left = get_left(server, path)
    if left is None or left > len(agents):
        rest = f"the other {left - len(agents)}" if left else "the others"
        say(f"each takes one run; {rest} begin while somebody watches: deployer watch {path}")


def say_held(path: SweepPath, agents: int) -> None:
    """Say what a pause leaves as it is, and the command that ends it."""
    said = "end their run, then wait and hold their GPUs. Free them"
    say(f"{format_count(agents, 'agent')} {said}: deployer sweep pause {path} --release")


def say_released(
    server: Server, path: SweepPath, agents: Sequence[Agent], released: Sequence[str]
) -> None:
    """Say that agents are gone, what becomes of their runs, and how all goes on."""
    if released and not server.extended:
        say(NOT_GUARANTEED)
    again = f"deployer sweep resume {path}, then deployer agents up {path}"
    if any(map(takes_one_run, agents)):
        again += " --one-run-per-job"
    said = "released, their runs go on when they are handed out again"
    say(f"{format_count(len(released), 'agent')} {said}: {again}")
