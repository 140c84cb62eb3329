"""`deployer report`: a sweep as one page in a file, from any W&B server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from deployer.cli.output.render import say
from deployer.cli.shell.call import FORMAT, App, Call
from deployer.cli.shell.options import SweepArgument
from deployer.config.document import write_user_text
from deployer.report.collection import collect
from deployer.report.content import build_html, check_place

app = App()


@app.command(without=FORMAT)
def report(
    call: Call,
    sweep: SweepArgument = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FILE.html",
            help="Where to write the page, which needs no server or network (ranking, curves, "
            "importance, failures, coverage, agents, files); default: report-SWEEP.html.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a file that is not a report.")
    ] = False,
) -> None:
    """Write a report of a sweep, at any time, from any W&B server.

    Redacts values of parameters with names like api_key or password.
    """
    if to is not None:
        check_place(to, force=force)
    _, server, path = call.connect(sweep, reading=True)
    if to is None:
        to = Path(f"report-{path.sweep_id}.html")
        check_place(to, force=force)
    material = collect(server, path, time.time())
    write_user_text(to, build_html(material))
    say(f"curves of {len(material.curves)} of {len(material.results.rows)} runs")
    say(f"report: {to}")
