"""What is said when agents are started; shared by `up` and `agents up`."""

from __future__ import annotations

from deployer.render import say
from deployer.server import Server
from deployer.up import get_left, warn_about_many
from deployer.wandb_api import SweepInfo, SweepPath


def say_before_start(server: Server, sweep: SweepInfo, agents: int) -> None:
    """Warn of more agents than the server bears, and of a sweep that hands out nothing now."""
    if warning := warn_about_many(server, agents):
        say(f"warning: {warning}")
    if sweep.state == "PAUSED":
        said = "is PAUSED: agents wait and hold their GPUs until"
        say(f"{sweep.path} {said}: deployer sweep resume {sweep.path}")


def say_what_begins_later(server: Server, path: SweepPath, agents: int) -> None:
    """Say that somebody has to watch if there are fewer agents for one run each than runs."""
    left = get_left(server, path)
    if left is None or left > agents:
        rest = f"the other {left - agents}" if left else "the others"
        say(f"each takes one run; {rest} begin while somebody watches: deployer watch {path}")
