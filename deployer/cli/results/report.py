"""`deployer report`: a sweep as one page in a file, or as Markdown, from any W&B server."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from deployer.cli.output.render import say, show
from deployer.cli.shell.call import FORMAT, App, Call
from deployer.cli.shell.options import SweepArgument
from deployer.config.project import Project
from deployer.errors import DeployerError
from deployer.executors.base import get_usd_per_hour
from deployer.executors.registry import find_executor
from deployer.model import SweepPath
from deployer.report.collection import collect
from deployer.report.html_file import build_html
from deployer.report.markdown import build_markdown
from deployer.report.writing import MARKDOWN, check_place, mark_markdown, write_report

app = App()


@app.command(without=FORMAT)
def report(
    call: Call,
    sweep: SweepArgument = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FILE.html|FILE.md",
            help="Write one HTML page that needs no server or network (ranking, curves, "
            "importance, failures, coverage, agents, cost, files), or Markdown; default: "
            "Markdown on stdout.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a file that is not a report.")
    ] = False,
) -> None:
    """Write a report of a sweep, at any time, from any W&B server.

    Redacts values of parameters with names like api_key or password.
    """
    if to:
        check_place(to, force=force)
    config, server, path = call.connect(sweep, reading=True)
    material = collect(server, path, time.time(), partial(_find_price, config, path))
    if to is None:
        show(build_markdown(material).rstrip("\n"))
        return
    if to.suffix in MARKDOWN:
        write_report(to, mark_markdown(build_markdown(material)))
    else:
        write_report(to, build_html(material))
        say(f"curves of {len(material.curves)} of {len(material.results.rows)} runs")
    say(f"report: {to}")


def _find_price(config: Project, path: SweepPath, agents: int) -> float | None:
    """Return what so many agents cost in dollars an hour together; None if nobody knows.

    A sweep's cluster may be deleted by now, which keeps no report from being written.
    """
    try:
        return get_usd_per_hour(find_executor(config), str(path), agents)
    except DeployerError as error:
        say(f"no cost: {error}")
        return None
