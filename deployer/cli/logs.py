"""`deployer agents logs`: what agents and runs print, also of those that are gone."""

from __future__ import annotations

from typing import Annotated

import typer

from deployer.cli.output.render import show_json_line, show_log_line
from deployer.cli.shell.call import Call
from deployer.cli.shell.completion import complete_agents
from deployer.cli.shell.options import SweepArgument
from deployer.errors import ConfigError
from deployer.launch.logs import read_agent_logs, read_run_log
from deployer.text import strip_colours


def logs(
    call: Call,
    sweep: SweepArgument = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the log until all agents have ended.")
    ] = False,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent", metavar="AGENT", autocompletion=complete_agents, help="Only this agent."
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Show only this run, on any agent: its id, or its set's number.",
        ),
    ] = None,
) -> None:
    """Show agents' logs, and start each line with the agent's name."""
    if run and agent:
        raise ConfigError("--run", "does not go together with --agent", "remove one of them")
    whose = "run" if run else "agent"
    if run:
        _, server, path = call.connect(sweep, reading=True)
        lines = read_run_log(server, path, run, follow)
    else:
        _, executor, path = call.find(sweep)
        lines = read_agent_logs(
            executor, path, agent or (), follow, lambda: call.connect(str(path), reading=True)[1]
        )
    for name, line in lines:
        if call.output == "json":
            show_json_line({whose: name, "line": strip_colours(line)})
        else:
            show_log_line(f"{name} | {line}")
