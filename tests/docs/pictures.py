"""The README's pictures: `make pictures` runs its sweep and draws what was seen.

docs/pictures/run.json is the recorded run. live.svg is drawn from it; page.png is a photograph of
the page.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from deployer.cli.output.status import build_live_view
from deployer.cli.ranking import RankingView, build_ranking, build_summary_lines
from deployer.model import Agent, Run, Sweep
from deployer.wandb_api.operations import get_sweep
from deployer.watch.status import Status, summarise_status

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
RECORDED, LIVE, PAGE = FOLDER / "run.json", FOLDER / "live.svg", FOLDER / "page.png"
SWEEP_FILE = ROOT / "examples" / "digits" / "sweep.yaml"
COMMAND = f"deployer up {SWEEP_FILE.name} --replicas 2"
FINISHED = 7  # runs, when the view is drawn
WIDTH = 88  # characters
VIEWPORT = {"width": 1120, "height": 640}
SWEEP, RUNS = TypeAdapter(Sweep), TypeAdapter(tuple[Run, ...])
AGENTS = TypeAdapter(tuple[Agent, ...])
FONTS = re.compile(r"\s*@font-face \{[^}]*\}")  # of another host


def record() -> None:
    """Run the sweep here; keep a status of its middle and the last one, and photograph its page."""
    from deployer.api import up, watch

    os.chdir(SWEEP_FILE.parent)
    launch = up(SWEEP_FILE.name, replicas=2, wandb="embedded", on="local", new=True)
    kept: dict[str, Any] = {}
    for status in watch(launch.server, launch.sweep_path):
        name = "end" if status.results.coverage.finished > FINISHED else "middle"
        kept[name] = _to_plain(status, get_sweep(launch.server.client, launch.path))
    RECORDED.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    [line] = launch.server.page_lines(launch.path)
    _photograph(line.split()[2])


def _to_plain(status: Status, sweep: Sweep) -> dict[str, Any]:
    """Return what a status is made of, without what is of this machine alone."""
    agents = [replace(a, folder="", environment={}, process_id=None) for a in status.agents]
    runs = [replace(run, environment={}) for run in status.runs]
    return {
        "now": time.time(),
        "sweep": SWEEP.dump_python(sweep, mode="json"),
        "runs": RUNS.dump_python(tuple(runs), mode="json"),
        "agents": AGENTS.dump_python(tuple(agents), mode="json"),
    }


def _photograph(address: str) -> None:
    """Save a picture of a sweep's page; needs chromium and the group `browser`."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport=VIEWPORT, color_scheme="light")
        page.goto(address)
        page.wait_for_selector("canvas, svg")
        page.wait_for_timeout(1000)  # until the charts are drawn
        page.screenshot(path=str(PAGE))
        browser.close()


def draw(width: int = WIDTH) -> Console:
    """Return a console on which the live view of the recorded run and its ranking stand."""
    kept = json.loads(RECORDED.read_text())
    middle, end = (_read(kept[name]) for name in ("middle", "end"))
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ {COMMAND}", style="bold"))
    now = kept["middle"]["now"]
    console.print(build_live_view(middle, now, size=(width, 40)))
    console.print()
    table = build_ranking(end.results, "table", RankingView())
    for line in table.lay_out(width):
        console.print(Text.assemble(*line, no_wrap=True))
    for said in build_summary_lines(end.results, "")[:-1]:
        console.print(Text(said))
    return console


def build_svg() -> str:
    """Return the same as a picture."""
    template = FONTS.sub("", CONSOLE_SVG_FORMAT)
    return draw().export_svg(title="deployer", code_format=template, unique_id="live")


def _read(kept: dict[str, Any]) -> Status:
    runs, agents = RUNS.validate_python(kept["runs"]), AGENTS.validate_python(kept["agents"])
    return summarise_status(
        SWEEP.validate_python(kept["sweep"]), runs, agents, 0, None, kept["now"]
    )


def main() -> None:
    """Write the pictures; with `record`, of another run."""
    FOLDER.mkdir(exist_ok=True)
    if sys.argv[1:] == ["record"]:
        record()
    LIVE.write_text(build_svg())


if __name__ == "__main__":
    main()
