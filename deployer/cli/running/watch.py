"""`deployer watch`: the live view alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from deployer.cli.output.render import say
from deployer.cli.running.live_view import follow_and_report
from deployer.cli.shell.call import App, Call
from deployer.cli.shell.options import (
    PendingTimeoutOption,
    PlainOption,
    SweepArgument,
    read_duration,
)
from deployer.errors import AgentError, ConfigError, KubeError
from deployer.executors.registry import find_executor
from deployer.launch.agents.scaling import read_wanted
from deployer.launch.remains import describe_agents, telling_remains
from deployer.launch.starting import Launch

app = App()


@app.command()
def watch(
    call: Call,
    sweep: SweepArgument = None,
    plain: PlainOption = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            parser=read_duration,
            help="Stop watching after this time, such as 30m, with exit code 4.",
        ),
    ] = None,
    pending_timeout: PendingTimeoutOption = None,
) -> None:
    """Show a sweep live until it ends, then its ranking.

    Exit codes as for `up`, and 4 if the sweep is still running after --timeout.
    """
    config, server, path = call.connect(sweep, reading=not _are_agents_wanted(call, sweep))
    launch = Launch(config, find_executor(config), server, path)
    for line in launch.server.page_lines(launch.path):
        say(line)
    here = [(launch.sweep_path, (launch.project.on, "", ""))]

    def describe(failure: BaseException) -> Iterable[str]:
        wrong = isinstance(failure, ConfigError)  # nothing can be asked
        return () if wrong else describe_agents(launch.project, here, failure)

    with telling_remains(describe):
        follow_and_report(
            launch,
            call.output,
            plain=plain,
            timeout_seconds=timeout,
            pending_seconds=pending_timeout,
        )


def _are_agents_wanted(call: Call, sweep: str | None) -> bool:
    """Return True if a watcher has agents to replace, for which a backend that stopped is started.

    So it is where that cannot be read now.
    """
    _, executor, path = call.find(sweep)
    try:
        wanted = read_wanted(executor, str(path))
    except (AgentError, KubeError):
        return True
    return wanted is not None and wanted.number > 0
