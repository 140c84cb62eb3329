"""Everything that `wandb.Api()` can be asked of runs and projects, one question each."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import wandb

from tests.contract.session.steps import ENTITY, step


def run_reading() -> dict[str, Any]:
    """Everything that `wandb.Api()` can be asked of runs and projects, one question each."""
    path = f"{ENTITY}/reading"
    step("write", write_a_run)
    api = wandb.Api()
    step("Api.viewer", lambda: (api.viewer.username, api.viewer.teams, api.default_entity))
    step("Api.user", lambda: find_user(api).api_keys)
    step("Api.users", lambda: api.users(ENTITY))
    step("Api.team", lambda: api.team(ENTITY).members)
    step("Api.create_project", lambda: api.create_project("made", ENTITY))
    step("Api.project", lambda: api.project("reading").id)
    step("Project.owner", lambda: api.project("reading").owner)
    step("Api.projects", lambda: list(api.projects(ENTITY, per_page=1)))
    step("Api.runs", lambda: [run.summary for run in api.runs(path, per_page=1)])
    step("Api.runs in full", lambda: list(api.runs(path, order="-summary_metrics.x", lazy=False)))
    step("Api.runs histories", lambda: api.runs(path).histories(keys=["x"], format="default"))
    run = step("Api.run", lambda: api.run(f"{path}/first"))
    ask_run(run)
    step("Run.log_artifact", lambda: use_stored(api, path))
    made = step("Api.create_run", lambda: api.create_run(project="reading", entity=ENTITY))
    step("Run.update_state", lambda: made.update_state("failed"))
    step("Run.stop", lambda: run.stop())
    return {}


def find_user(api: Any) -> Any:
    """Return oneself, as another user is found."""
    return api.user(ENTITY)


def write_a_run() -> None:
    """Write what is read afterwards."""
    with wandb.init(project="reading", id="first", config={"a": 1}) as run:
        run.log({"x": 1.0})
        counts: Any = ([1, 2], [0.0, 0.5, 1.0])
        run.log({"h": wandb.Histogram(np_histogram=counts)})
        sys.stdout.write("one\n")
        artifact = wandb.Artifact("stored", type="dataset")
        with artifact.new_file("a.txt") as file:
            file.write("a")
        run.log_artifact(artifact).wait()


def ask_run(run: Any) -> None:
    """Ask one run for everything."""
    Path("up.txt").write_text("up")
    step("Run.metadata", lambda: (run.metadata, run.user, run.system_metrics, run.to_html()))
    step("Run.lastHistoryStep", lambda: run.lastHistoryStep)
    step("Run.load_full_data", lambda: run.load_full_data(force=True))
    step("Run.wait_until_finished", lambda: run.wait_until_finished())
    step("Run.history", lambda: run.history(pandas=False))
    step("Run.history of keys", lambda: run.history(keys=["x"], pandas=False))
    step("Run.history of system", lambda: run.history(stream="system", pandas=False))
    step("Run.scan_history", lambda: list(run.scan_history()))
    step("Run.scan_history of keys", lambda: list(run.scan_history(keys=["x"], page_size=1)))
    step("Run.beta_scan_history", lambda: list(run.beta_scan_history(keys=["x"])))
    step("Run.download_history_exports", lambda: run.download_history_exports("exports", False))
    step("Run.upload_file", lambda: run.upload_file("up.txt"))
    step("Run.files", lambda: (len(run.files()), list(run.files(["up.txt"]))))
    step("Run.files by pattern", lambda: list(run.files(pattern="%.txt")))
    step("Run.file", lambda: run.file("up.txt").download(replace=True))
    step("File.delete", lambda: run.file("up.txt").delete())
    step("Run.console_logs", lambda: list(run.console_logs()))
    step("Run.console_logs at the end", lambda: list(run.console_logs(last=1)))
    step("Run.logged_artifacts", lambda: list(run.logged_artifacts()))
    step("Run.used_artifacts", lambda: list(run.used_artifacts()))


def use_stored(api: Any, path: str) -> None:
    """Use and log an artifact by the public API."""
    run, stored = api.run(f"{path}/first"), api.artifact(f"{path}/stored:v0")
    run.use_artifact(stored)
    run.log_artifact(stored)  # with aliases, the SDK before 0.31 sends what no server takes
