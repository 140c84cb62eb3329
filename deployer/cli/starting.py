"""What is said when agents are started, and when a paused sweep gives them up."""

from __future__ import annotations

from collections.abc import Sequence

from deployer.errors import ConfigError
from deployer.one_run import takes_one_run
from deployer.place import Agent, Place
from deployer.render import say
from deployer.server import NOT_GUARANTEED, Server
from deployer.up import get_left, warn_about_many
from deployer.wandb_api import SweepInfo, SweepPath
from deployer.wandb_api.client import is_loopback


def check_reach(on: str, base_url: str) -> None:
    """Refuse agents in a cluster for a server on this machine's own address; raises ConfigError."""
    if on == "local" or not is_loopback(base_url):
        return
    raise ConfigError(
        "--on",
        f"pods in a cluster do not reach {base_url}, an address of this machine alone",
        "deployer backend down; deployer backend serve --host ADDRESS, one that pods reach",
    )


def say_before_start(server: Server, sweep: SweepInfo, agents: int) -> None:
    """Warn of more agents than the server bears, and of a sweep that hands out nothing now."""
    if warning := warn_about_many(server, agents):
        say(f"warning: {warning}")
    if sweep.state == "PAUSED":
        said = "is PAUSED: agents wait and hold their GPUs until"
        say(f"{sweep.path} {said}: deployer sweep resume {sweep.path}")


def want_one_run(place: Place, path: SweepPath, flag: bool) -> bool:
    """Tell whether each agent shall take one run: as said, or as the sweep's agents do already."""
    return flag or any(map(takes_one_run, place.list_agents(str(path))))


def say_what_begins_later(server: Server, path: SweepPath, agents: int) -> None:
    """Say that somebody has to watch if there are fewer agents for one run each than runs."""
    left = get_left(server, path)
    if left is None or left > agents:
        rest = f"the other {left - agents}" if left else "the others"
        say(f"each takes one run; {rest} begin while somebody watches: deployer watch {path}")


def say_held(path: SweepPath, agents: int) -> None:
    """Say what a pause leaves as it is, and the command that ends it."""
    said = "end their run, then wait and hold their GPUs. Free them"
    say(f"{count_agents(agents)} {said}: deployer sweep pause {path} --release")


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
    say(f"{count_agents(len(released))} {said}: {again}")


def count_agents(count: int) -> str:
    """Return a number of agents in words."""
    return f"{count} agent{'' if count == 1 else 's'}"
