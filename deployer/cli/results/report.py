"""`deployer report`: a sweep as one page in a file, or as Markdown, from any W&B server."""

from __future__ import annotations

import shlex
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from deployer.cli.output.render import say, show
from deployer.cli.shell.call import App, Call, CommandWithoutFormats
from deployer.cli.shell.options import SweepArgument
from deployer.config.project import Project
from deployer.errors import ConfigError, DeployerError
from deployer.executors.base import get_usd_per_hour
from deployer.executors.registry import find_executor
from deployer.launch.lock.file import find_kept, name_lock
from deployer.model import SweepPath
from deployer.report.collection import Material, collect
from deployer.report.content import TextFile
from deployer.report.html_file import build_html
from deployer.report.markdown import build_markdown
from deployer.report.writing import MARKDOWN, check_places, mark_markdown, write_report
from deployer.sweeps.records import Records
from deployer.wandb_api.server import Server

app = App()

STDOUT = "-"


class ReportCommand(CommandWithoutFormats):
    """Reads `--md` without a file as stdout."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name that means stdout after an `--md` that no file's name follows."""
        found: list[str] = []
        for place, word in enumerate(args):
            found.append(word)
            follows = args[place + 1] if place + 1 < len(args) else ""
            if word == "--md" and follows.endswith(".html"):
                hint = f"deployer report --html {shlex.quote(follows)}"
                raise ConfigError("--md", f"writes Markdown, not {follows}", hint)
            if word == "--md" and follows != STDOUT and not follows.endswith(MARKDOWN):
                found.append(STDOUT)
        rest: list[str] = super().parse_args(ctx, found)
        return rest


@app.command(cls=ReportCommand)
def report(
    call: Call,
    sweep: SweepArgument = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Write one page that needs no server and no network: ranking, curves, "
            "importance, failures, coverage, agents, cost, files.",
        ),
    ] = None,
    md: Annotated[
        Path | None,
        typer.Option(
            "--md",
            metavar="FILE.md",
            help="Write Markdown, for a paper or a chat; without FILE.md on stdout, as without "
            "any option.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is no report.")] = False,
) -> None:
    """Write a report of a sweep, at any time, from any W&B server.

    It holds no value of a parameter whose name is that of a secret.
    """
    if html is not None and str(html) == STDOUT:
        raise ConfigError("--html", "a page is no text for stdout", "--html report.html")
    check_places(html, None if str(md) == STDOUT else md, force=force)
    config, server, path = call.connect(sweep, reading=True)
    material = collect(server, path, time.time(), partial(_find_price, config, path))
    if html is not None:
        _write_html(html, material, _find_lock(server, path))
    if md is not None and str(md) != STDOUT:
        write_report(md, mark_markdown(build_markdown(material)))
        say(f"report: {md}")
    elif md is not None or html is None:
        show(build_markdown(material).rstrip("\n"))


def _write_html(place: Path, material: Material, lock: TextFile | None) -> None:
    write_report(place, build_html(material, lock))
    say(f"curves of {len(material.curves)} of {len(material.results.rows)} runs")
    say(f"report: {place}")


def _find_price(config: Project, path: SweepPath, agents: int) -> float | None:
    """Return what so many agents cost in dollars an hour together; None if nobody knows.

    A sweep's cluster may be deleted by now, which keeps no report from being written.
    """
    try:
        return get_usd_per_hour(find_executor(config), str(path), agents)
    except DeployerError as error:
        say(f"no cost: {error}")
        return None


def _find_lock(server: Server, path: SweepPath) -> TextFile | None:
    """Return the lock file of a sweep: beside its file if it is the sweep's there, else our own."""
    kept = find_kept(str(path), server.name)
    if kept is None:
        return None
    text = kept.read_text(encoding="utf-8")
    files = [Path(r.folder) / r.file for r in Records.load().of(str(path))]
    name = name_lock(files[0]).name if files else "sweep.lock.yaml"
    return TextFile(name, text)
