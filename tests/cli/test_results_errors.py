"""What `results` ends with 3 for, and what it says: steps, the metric, an unfinished sweep."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from deployer.backend.scheduling.lifecycle import OFFLINE
from tests.backend.client import Client as Sdk
from tests.backend.client import grid
from tests.cli.conftest import Project
from tests.conftest import ServedBackend

# It goes on until wandb has warned, which may else be after the run's output has ended.
BEHIND = """
import os, sys, time
import wandb

said, write = [], sys.stderr.write

def note(text):
    said.append(text)
    return write(text)

sys.stderr.write = note
with wandb.init() as run:
    run.log({"loss": 1}, step=10)
    run.log({"val_loss": 1}, step=0)
    while "WANDB_MODE" not in os.environ and "less than the current step" not in "".join(said):
        time.sleep(0.05)
"""


def test_doubled_and_missing_steps_end_with_3(
    project: Project, plain_backend: ServedBackend
) -> None:
    sdk = Sdk.of(plain_backend, "doubled")
    sweep = sdk.create_sweep(grid(lr=[1]))
    (command,) = sdk.heartbeat(sdk.create_agent(sweep))
    run = command["run_id"]
    sdk.init_run(run, config=json.dumps(command["args"]))
    sdk.log(run, [{"_step": step} for step in (0, 1, 1, 2, 3, 5)])
    sdk.finish(run)
    path = f"{sdk.entity}/doubled/{sweep}"
    done = project.run("results", path, "--verify", code=3, **plain_backend.environment)
    assert done.stdout == (
        "1/1 configurations finished, 0 duplicates, 0 lost\n"
        "verified 6 rows of 1 finished runs, 1 steps doubled, 1 gaps, "
        f"first doubled: step 1 of {run}, first gap: between steps 3 and 5 of {run}\n"
    )
    assert done.stderr.splitlines() == [
        f"error: {path}: steps are doubled or missing",
        f"hint: deployer results {path}",
    ]
    healed = project.run("heal", path, **plain_backend.environment)
    assert healed.stderr.splitlines()[-1] == f"{path}: nothing to run again"


def test_a_metric_that_no_run_logged_ends_with_3(project: Project, backend: ServedBackend) -> None:
    sdk = Sdk.of(backend, "unlogged")
    metric = {"name": "val_accuracy", "goal": "maximize"}
    sweep = sdk.create_sweep({**grid(x=[1]), "metric": metric})
    assert sdk.work_once(sdk.create_agent(sweep), val_acc=0.5)
    path = f"{sdk.entity}/unlogged/{sweep}"
    said = "no finished run logged val_accuracy: the first of them logged val_acc"
    said += "; did you mean val_acc?"
    for verb in ("results", "watch"):
        done = project.run(verb, path, code=3, **backend.environment)
        assert "best" not in done.stdout
        assert f"warning: {said}" in done.stdout
        assert done.stderr.splitlines()[-2:] == [
            f"error: {path}: {said}",
            f"hint: deployer results {path} --metric val_acc --goal maximize",
        ]
    plain = project.run("results", path, "-o", "json", code=3, **backend.environment).stdout
    assert [json.loads(plain)[key] for key in ("best", "warnings")] == [None, [said]]


@pytest.mark.slow(seconds=10)
def test_rows_that_wandb_has_dropped_are_named_and_verify_ends_alike(
    project: Project, plain_backend: ServedBackend
) -> None:
    sdk = Sdk.of(plain_backend, "dropped")
    sweep = sdk.create_sweep({**grid(x=[1]), "metric": {"name": "val_loss"}})
    (command,) = sdk.heartbeat(sdk.create_agent(sweep))
    run, path = command["run_id"], f"{sdk.entity}/dropped/{sweep}"
    named = {"WANDB_RUN_ID": run, "WANDB_PROJECT": "dropped", **plain_backend.environment}
    assert run_behind(project, named)
    said = f"no finished run logged val_loss: wandb dropped rows of {run}: "
    said += "Tried to log to step 0 that is less than the current step 10"
    for words in (["results", path], ["results", path, "--verify"], ["watch", path]):
        done = project.run(*words, code=3, **plain_backend.environment)
        assert done.stderr.splitlines()[-2:] == [
            f"error: {path}: {said}",
            "hint: log it without step=, or with a step that does not go back; or give it its own "
            'axis: run.define_metric("val_loss", step_metric="epoch")',
        ]
    project.run("report", path, **plain_backend.environment)
    report = (project.folder / f"report-{sweep}.html").read_text()
    assert f"wandb dropped rows of {run}: " in report
    assert OFFLINE.search(run_behind(project, {**named, "WANDB_MODE": "offline"}))


def test_a_metric_that_was_logged_before_another_wandb_init_is_found(
    project: Project, backend: ServedBackend
) -> None:
    sdk = Sdk.of(backend, "twice")
    sweep = sdk.create_sweep({**grid(x=[1]), "metric": {"name": "val_loss"}})
    (command,) = sdk.heartbeat(sdk.create_agent(sweep))
    run, path = command["run_id"], f"{sdk.entity}/twice/{sweep}"
    for name in ("val_loss", "test_acc"):
        sdk.init_run(run, config=json.dumps(command["args"]))
        sdk.log(run, [{"_step": 0, name: 0.5}])
        sdk.finish(run)
    said = "no finished run logged val_loss: it was logged before wandb.init was called again; "
    said += f'resume="allow" continues the run (see {run}-2)'
    for words in (["results", path], ["results", "get", path, "--best"], ["watch", path]):
        done = project.run(*words, code=3, **backend.environment)
        assert done.stderr.splitlines()[-2:] == [
            f"error: {path}: {said}",
            'hint: to continue the run, call wandb.init(resume="allow") each time',
        ]


def test_repeats_that_are_copies_count_once(project: Project, backend: ServedBackend) -> None:
    sdk = Sdk.of(backend, "copies")
    sweep = sdk.create_sweep({**grid(lr=[1, 2], seed=[1, 2, 3]), "metric": {"name": "loss"}})
    agent = sdk.create_agent(sweep)
    while (command := sdk.heartbeat(agent)[0])["type"] == "run":
        lr = command["args"]["lr"]["value"]
        sdk.init_run(command["run_id"], config=json.dumps(command["args"]))
        sdk.log(command["run_id"], [{"_step": n, "loss": lr - n / 10} for n in range(3)])
        sdk.finish(command["run_id"])
    path = f"{sdk.entity}/copies/{sweep}"
    done = project.run("results", path, "--group", **backend.environment)
    assert "left out of the means: 4 runs with the curve of a repeat\n" in done.stdout


def run_behind(project: Project, environment: Mapping[str, str]) -> str:
    """Run a script whose second step is smaller than its first, and return its output."""
    script = project.write("behind.py", BEHIND)
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=project.folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr


def test_a_metric_that_diverges_is_named_rightly(project: Project, backend: ServedBackend) -> None:
    sdk = Sdk.of(backend, "diverging")
    sweep = sdk.create_sweep({**grid(x=[1]), "metric": {"name": "loss", "goal": "minimize"}})
    assert sdk.work_once(sdk.create_agent(sweep), loss="NaN")
    path = f"{sdk.entity}/diverging/{sweep}"
    done = project.run("results", path, code=3, **backend.environment)
    assert done.stderr.splitlines()[-1] == f"hint: see what diverges: deployer agents logs {path}"


def test_configurations_that_make_no_difference_are_named(
    project: Project, backend: ServedBackend
) -> None:
    sdk = Sdk.of(backend, "ignored")
    sweep = sdk.create_sweep(
        {**grid(lr=[1, 2, 3], seed=[0]), "metric": {"name": "loss", "goal": "minimize"}}
    )
    agent = sdk.create_agent(sweep)
    for curve in ((3.5, 2.5, 1.5), (3.5, 2.25, 1.5), (3.5, 2.5, 1.5)):
        (command,) = sdk.heartbeat(agent)
        sdk.init_run(command["run_id"], config=json.dumps(command["args"]))
        sdk.log(command["run_id"], [{"_step": n, "loss": v} for n, v in enumerate(curve)])
        sdk.finish(command["run_id"])
    done = project.run("results", f"{sdk.entity}/ignored/{sweep}", **backend.environment)
    assert (
        "warning: 2 configurations that differ in lr have the same curve of loss: "
        "does the script read it?\n"
    ) in done.stdout


def test_a_recount_of_an_unfinished_sweep_proves_nothing(
    project: Project, backend: ServedBackend
) -> None:
    project.write_grid()
    path = project.run("sweep", "create", "grid.yaml", **backend.environment).stdout.strip()
    coverage = "0/4 configurations finished, 0 duplicates, 0 lost, 4 queued"
    verified = "verified 0 rows of 0 finished runs, 0 steps doubled, 0 gaps"
    done = project.run("results", path, "--verify", code=3, **backend.environment)
    assert done.stdout.splitlines() == [coverage, verified]
    assert done.stderr.splitlines() == [
        f"error: {path}: not every configuration is finished",
        f"hint: deployer watch {path}",
    ]
    as_csv = project.run("results", path, "--verify", "-o", "csv", code=3, **backend.environment)
    assert as_csv.stdout.startswith("rank,run_id,title,state,")
    assert as_csv.stderr.splitlines()[:2] == [coverage, verified]


def test_a_command_that_reads_starts_no_backend(project: Project) -> None:
    project.write_grid()
    path = project.run("sweep", "create", "grid.yaml").stdout.strip()
    project.run("backend", "down", "-y")
    reading = (
        "sweep list",
        *(f"{word} {path}" for word in ("results", "importance", "report", "watch")),
    )
    for words in reading:
        done = project.run(*words.split(), code=1)
        assert done.stderr.splitlines() == [
            "error: the embedded backend is stopped",
            "hint: deployer backend up",
        ]
    assert not json.loads(project.run("backend", "status", "-o", "json").stdout)["running"]
    project.run("backend", "up")
    assert "0/4 configurations finished" in project.run("results", path).stdout
