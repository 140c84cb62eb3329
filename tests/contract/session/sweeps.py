"""Sweeps: made and steered by the command line, worked by agents, read by the public API."""

from __future__ import annotations

import json
import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import wandb

from tests.contract.session.steps import ENTITY, command, step

SWEEP = {"method": "grid", "metric": {"name": "loss", "goal": "minimize"}}
VALUES = {"lr": {"values": [0.1, 0.2]}}
TRAINER = """
import wandb
with wandb.init() as run:
    run.log({"loss": run.config.lr})
"""


def run_controls() -> dict[str, Any]:
    """Sweeps by the command line, their controls, and the log-in."""
    host = ("--host", os.environ["WANDB_BASE_URL"], os.environ["WANDB_API_KEY"])
    step("wandb login", lambda: command("login", "--relogin", "--verify", *host))
    step("wandb init", lambda: command("init", "-p", "controls", "-e", ENTITY))
    Path("train.py").write_text(TRAINER)
    content = {**SWEEP, "parameters": VALUES, "program": "train.py"}
    Path("sweep.yaml").write_text(json.dumps(content))
    with wandb.init(project="controls", id="prior") as run:
        run.log({"loss": 1})
    made = ("sweep", "-p", "controls", "--name", "named", "-R", "prior", "sweep.yaml")
    path = step("wandb sweep", lambda: made_sweep(command(*made)))
    Path("sweep.yaml").write_text(json.dumps({**content, "name": "renamed"}))
    step("wandb sweep --update", lambda: command("sweep", "--update", path, "sweep.yaml"))
    sweep = step("Api.sweep", lambda: find_sweep(wandb.Api(), path))
    step("Sweep.enqueue_run", lambda: sweep.enqueue_run({"lr": {"value": 0.3}}))
    for flag in ("--resume", "--pause", "--cancel"):
        step(f"wandb sweep {flag}", partial(command, "sweep", flag, path))
    other = wandb.sweep(content, project="controls")
    step("wandb sweep --stop", lambda: command("sweep", "--stop", f"{ENTITY}/controls/{other}"))
    return {}


def made_sweep(said: str) -> str:
    """Return the path of a sweep that the command line has made."""
    found = re.search(r"wandb agent (\S+)", said)
    assert found, said
    return found.group(1)


def run_agents() -> dict[str, Any]:
    """A grid by `wandb agent`, another by `wandb.agent`, and what the public API tells of both."""
    Path("train.py").write_text(TRAINER)
    content = {**SWEEP, "parameters": VALUES, "program": "train.py"}
    path = f"{ENTITY}/agents/" + step("wandb.sweep", lambda: wandb.sweep(content, project="agents"))
    step("wandb agent", lambda: command("agent", path))
    sweep = step("Api.sweep", lambda: find_sweep(wandb.Api(), path))
    shown = ("name", "order", "expected_run_count", "url", "state", "config")
    step("Sweep's words", lambda: [getattr(sweep, word) for word in shown])
    step("Sweep.runs", lambda: [run.summary for run in sweep.runs])
    step("Sweep.best_run", lambda: sweep.best_run().sweep.id)
    agents = step("Sweep.agents", lambda: sweep.agents())
    if agents:
        step("Sweep.agent", lambda: sweep.agent(agents[0].id))
        step("Agent.runs", lambda: list(agents[0].runs()))
    step("Project.sweeps", lambda: list(wandb.Api().project("agents").sweeps()))
    of_function = wandb.sweep(content, project="agents")
    step("wandb.agent", lambda: wandb.agent(of_function, function=train, project="agents", count=1))
    return {}


def find_sweep(api: Any, path: str) -> Any:
    """Return a sweep by its path."""
    return api.sweep(path)


def train() -> None:
    """Train."""
    with wandb.init() as run:
        run.log({"loss": run.config.lr})
