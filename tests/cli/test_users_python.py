"""A sweep in the user's own Python, with the W&B settings of the user's shell."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from deployer.agent.host.status import load_status
from tests.cli.conftest import Project
from tests.users_python import create_environment, environment_of, find_python, install_wandb

TRAINER = """
import os, sys
import wandb
with wandb.init() as run:
    run.log({"loss": run.config.lr})
    print("ran in", sys.prefix, run.project, run.group or "alone", flush=True)
"""


@pytest.mark.slow(seconds=20)
def test_runs_warm_and_cold_have_the_active_environments_python(
    project: Project, tmp_path: Path
) -> None:
    environment = tmp_path / "users-own"
    python = create_environment(environment)
    project.write("train.py", TRAINER)
    project.write("grid.yaml", "program: train.py\nmethod: grid\nparameters: {lr: {values: [1]}}")
    (project.folder / "wandb").mkdir()
    project.write("wandb/settings", "[default]\nmode = offline\n")
    no_uv = os.pathsep.join(
        p for p in os.environ["PATH"].split(os.pathsep) if not Path(p, "uv").exists()
    )
    shell = {
        "PATH": f"{python.parent}{os.pathsep}{no_uv}",
        "VIRTUAL_ENV": str(environment),
        "WANDB_MODE": "disabled",
        "WANDB_RUN_GROUP": "mine",
    }

    for command in ("up", "plan", "doctor", "sweep check"):
        refused = project.run(*command.split(), "grid.yaml", code=None, **shell)
        assert refused.returncode == (1 if command == "doctor" else 2), command
        said = refused.stderr + refused.stdout
        assert f"VIRTUAL_ENV: {python} has no wandb, which runs need" in said
        assert f"{python} -m ensurepip && {python} -m pip install wandb" in said
        assert "the script was not checked" not in said

    install_wandb(python)
    named = f"Python of the runs: {python} (VIRTUAL_ENV)"
    assert named in project.run("plan", "grid.yaml", **shell).stderr
    assert f"{python} (VIRTUAL_ENV), wandb" in project.run("doctor", "grid.yaml", **shell).stdout
    for warm in ("true", "false"):
        project.write("deployer.yaml", f"warm: {warm}\n")
        done = project.run("up", "grid.yaml", "--new", **shell)
        assert named in done.stderr
        dropped = "WANDB_MODE, WANDB_RUN_GROUP, mode in W&B's settings file"
        assert f"runs do not get {dropped}" in done.stderr
        assert "1/1 configurations finished, 0 duplicates, 0 lost" in done.stdout
    logs = Path(os.environ["DEPLOYER_HOME"]).glob("agents/*/log")
    ran = [line for log in logs for line in log.read_text().splitlines() if "ran in" in line]
    assert [line[line.index("ran in") :] for line in ran] == [
        f"ran in {environment} uncategorized alone"
    ] * 2


@pytest.mark.full
@pytest.mark.parametrize("layout", ["VIRTUAL_ENV", "CONDA_PREFIX"])
@pytest.mark.parametrize("version", [f"3.{minor}" for minor in range(8, 15)])
def test_runs_are_warm_in_an_environment_of_another_python(
    project: Project, version: str, layout: str
) -> None:
    base = find_python(version)
    if base is None:
        pytest.skip(f"there is no Python {version} on this machine")
    python = environment_of(version, base)
    project.write("train.py", TRAINER)
    project.write(
        "grid.yaml", "program: train.py\nmethod: grid\nparameters: {lr: {values: [1, 2]}}"
    )
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    shell = {"VIRTUAL_ENV": "", "CONDA_PREFIX": "", "PATH": path, layout: str(python.parents[1])}
    done = project.run("up", "grid.yaml", "--replicas", "1", **shell)
    assert f"Python of the runs: {python} ({layout})" in done.stderr
    assert "2/2 configurations finished, 0 duplicates, 0 lost" in done.stdout
    [folder] = Path(os.environ["DEPLOYER_HOME"]).glob("agents/*/")
    status = load_status(str(folder / "status.json"))
    assert status is not None
    assert status.run_start == "warm"
    assert (folder / "log").read_text().count(f"ran in {python.parents[1]}") == 2


@pytest.mark.full
@pytest.mark.slow(seconds=12)
def test_a_python_that_hangs_is_named_and_passed_over(project: Project, tmp_path: Path) -> None:
    hangs, works = tmp_path / "bin/python", tmp_path / "bin/python3"
    hangs.parent.mkdir()
    hangs.write_text("#!/bin/sh\n/bin/sleep 1000; exit 1\n")
    works.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    hangs.chmod(0o755)
    works.chmod(0o755)
    text = "program: train.py\nmethod: grid\nparameters: {lr: {values: [1, 2]}}"
    project.write("grid.yaml", text)
    done = project.run_afresh("plan", "grid.yaml", code=None, PATH=str(hangs.parent))
    said = done.stderr.splitlines()
    passed = f"the first python3 on PATH; {hangs} has not answered in 10 s"
    assert f"waiting for {hangs}" in said
    assert f"Python of the runs: {works} ({passed})" in said
