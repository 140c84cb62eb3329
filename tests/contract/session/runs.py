"""Runs and their files, written and read back, by scripts, the command line and a user's stop."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import wandb

from tests.contract.session import user_script
from tests.contract.session.steps import ENTITY, ask, command, run_program, step, wait_for

ENDLESS = """
import time, wandb
run = wandb.init(project="ends", id="stopped")
for value in range(1200):
    run.log({"x": value})
    time.sleep(0.1)
"""


def run_words() -> dict[str, Any]:
    """Runs in all their forms; return what did not read back as it was written."""
    for act in user_script.STEPS:
        step(act.__name__, act)
    return dict(user_script.differs)


def run_files() -> dict[str, Any]:
    """Files and artifacts by a script, then by the command line; return what differed."""
    shutil.copy(Path(__file__).with_name("artifact_script.py"), ".")
    step("artifact_script", lambda: run_program(sys.executable, "artifact_script.py"))
    project = "artifact-script"
    run = wandb.Api().runs(f"{ENTITY}/{project}", order="+created_at")[0]
    path = f"{ENTITY}/{project}/{run.id}"
    put = ("artifact", "put", "-n", f"{ENTITY}/{project}/put", "-t", "dataset", "far.csv")
    step("wandb artifact put", lambda: command(*put))
    step("wandb artifact get", lambda: command("artifact", "get", f"{ENTITY}/{project}/put:latest"))
    step("wandb artifact ls", lambda: command("artifact", "ls", f"{ENTITY}/{project}"))
    step("wandb pull", lambda: command("pull", "-e", ENTITY, "-p", project, run.id))
    step("wandb restore", lambda: command("restore", "--no-git", path))
    step("wandb.restore", lambda: wandb.restore("config.yaml", path, replace=True))
    step("delete artifacts", lambda: wandb.Api().run(path).delete(delete_artifacts=True))
    return dict(json.loads(Path("differs.json").read_text()))


def run_ends() -> dict[str, Any]:
    """A run that is preempted, and one that is stopped from elsewhere."""
    step("mark_preempting", preempted)
    step("stopped", stopped)
    return {}


def preempted() -> None:
    """End as a preempted run, late enough that every SDK has sent the machine's numbers before."""
    settings = wandb.Settings(x_stats_sampling_interval=0.1)
    run = wandb.init(project="ends", id="preempted", settings=settings)
    run.mark_preempting()
    time.sleep(2)
    run.finish(exit_code=1)


def stopped() -> None:
    """Log until somebody else stops the run, as a program of its own that is interrupted."""
    program = subprocess.Popen([sys.executable, "-c", ENDLESS])
    wait_for(lambda: bool(find_run("stopped")))
    ask(f'mutation {{ stopRun(input: {{ id: "{find_run("stopped")}" }}) {{ success }} }}')
    assert program.wait(120) != 0


def find_run(name: str) -> str | None:
    """Return a run's storage id, past whoever records."""
    found = ask(f'{{ project(name: "ends") {{ run(name: "{name}") {{ id }} }} }}')
    run = ((found["data"] or {}).get("project") or {}).get("run") or {}
    return run.get("id")
