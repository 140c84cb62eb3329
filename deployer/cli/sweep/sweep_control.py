"""`deployer sweep pause|resume|stop|cancel`: what a sweep that is there does next."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from deployer.cli.output.render import say, warn
from deployer.cli.shell.call import Call
from deployer.cli.shell.options import SweepArgument
from deployer.errors import DeployerError
from deployer.executors.registry import find_executor
from deployer.launch.control import steer
from deployer.launch.request import Session
from deployer.launch.scaling import drain_all, tell_which_runs_stop
from deployer.model import SweepPath


def pause(call: Call, sweep: SweepArgument = None) -> None:
    """Start no more runs: active runs finish, and agents wait until the sweep is resumed.

    Like `resume`, `stop` and `cancel`, asks first if other owners' agents work on the sweep.
    """
    show_state(call, _steer(call, sweep, "PAUSED").path, "PAUSED")


def resume(call: Call, sweep: SweepArgument = None) -> None:
    """Start runs again after a pause."""
    show_state(call, _steer(call, sweep, "RUNNING").path, "RUNNING")


def stop(call: Call, sweep: SweepArgument = None) -> None:
    """End the sweep: active runs finish, and no more runs start.

    Like `cancel`, asks first if the sweep was created elsewhere.
    """
    show_state(call, _steer(call, sweep, "FINISHED").path, "FINISHED")


def cancel(call: Call, sweep: SweepArgument = None) -> None:
    """End the sweep now: kill its active runs and end its agents."""
    session = _steer(call, sweep, "CANCELED")
    tell_which_runs_stop(session.server, session.path)
    try:
        drain_all(session.executor, session.path)
    except DeployerError as error:  # they leave by themselves
        warn(f"a watcher may start its agents again after `heal`: {error.message}")
    show_state(call, session.path, "CANCELED")


def open_session(call: Call, sweep: str | None) -> Session:
    """Connect to a sweep, and say which server has it."""
    config, server, path = call.connect(sweep)
    say(f"using {server.describe()}")
    return Session(config, find_executor(config), server, path)


def _steer(call: Call, sweep: str | None, state: str) -> Session:
    """Set a sweep's state; where that concerns other people, only if the user is sure."""

    def agree(concerns: Sequence[str], what: str) -> bool:
        for sentence in concerns:
            say(sentence)
        return call.is_sure(f"{what}?")

    session = open_session(call, sweep)
    if not steer(session, state, agree):
        raise typer.Exit
    return session


def show_state(call: Call, path: SweepPath, state: str) -> None:
    """Show a sweep's new state as JSON, if that is asked for."""
    call.emit({"sweep": str(path), "state": state})
