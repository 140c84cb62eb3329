"""Whose Python runs the trainer on this machine, and which W&B settings reach the runs."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.executors.local.executor import LocalExecutor
from deployer.executors.local.run_environment import (
    Interpreter,
    build_run_environment,
    choose_interpreter,
    list_dropped,
)
from deployer.executors.plan import build_plan
from deployer.scripts.missing_modules import CHOOSE
from tests.project_files import read_project

WITH_WANDB = f'exec {sys.executable} "$@"'
WITHOUT = "echo pip"


def install(folder: Path, *names: str, program: str = WITH_WANDB) -> Path:
    """Put interpreters into a folder, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(f"#!/bin/sh\n{program}\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Give a folder with a venv, a conda environment, two folders for PATH, and a setting's."""
    for name in ("active/bin", "conda/bin", "named"):
        install(tmp_path / name, "python")
    install(tmp_path / "old", "python", "python3", program=WITHOUT)
    install(tmp_path / "system", "python", program=WITHOUT)
    install(tmp_path / "system", "python3")
    return tmp_path


@pytest.mark.parametrize(
    ("setting", "variables", "path", "chosen", "reason"),
    [
        ("./named/python", "VIRTUAL_ENV", "active/bin", "named/python", "local.python in"),
        ("python3", "VIRTUAL_ENV", "system", "system/python3", "local.python in"),
        ("", "VIRTUAL_ENV CONDA_PREFIX", "active/bin", "active/bin/python", "VIRTUAL_ENV"),
        ("", "VIRTUAL_ENV", "named", "named/python", "the first python on PATH; VIRTUAL_ENV "),
        ("", "VIRTUAL_ENV CONDA_PREFIX", "named", "conda/bin/python", "CONDA_PREFIX; VIRTUAL_ENV "),
        ("", "CONDA_PREFIX", "named", "conda/bin/python", "CONDA_PREFIX"),
        (
            "",
            "CONDA_PREFIX BASE",
            "named",
            "named/python",
            "the first python on PATH; conda's base",
        ),
        ("", "", "named", "named/python", "the first python on PATH"),
        ("", "", "system", "system/python3", "the first python3 on PATH; "),
        ("", "", "old", sys.executable, "deployer's own; "),
        ("", "", "nothing", sys.executable, "deployer's own; no python on PATH"),
    ],
)
def test_the_runs_python_is_the_first_that_a_rule_names(
    place: Path, setting: str, variables: str, path: str, chosen: str, reason: str
) -> None:
    folders = {"VIRTUAL_ENV": str(place / "active"), "CONDA_PREFIX": str(place / "conda")}
    if setting:
        (place / "deployer.yaml").write_text(f"local: {{python: {setting}}}\n")
    given = {name: folders[name] for name in variables.split() if name in folders}
    given |= {"CONDA_DEFAULT_ENV": "base"} if "BASE" in variables else {}
    project = read_project(place, PATH=str(place / path), **given)
    found = choose_interpreter(project)
    assert found.path == str(place / chosen)
    assert found.reason.startswith(reason)
    # What an agent and a shell find first is that one, also as `python3` where it was named so.
    led = build_run_environment(project)["PATH"]
    started = shutil.which("python", path=led)
    assert started is not None
    assert os.path.samefile(started, found.path)
    if "/python3" in found.path:
        assert os.path.samefile(shutil.which("python3", path=led) or "", found.path)


def test_a_path_that_leads_there_already_stays_as_it_is(place: Path) -> None:
    path = f"{place / 'named'}{os.pathsep}{place / 'system'}"
    assert Interpreter(str(place / "named/python"), "").prepend_to_path(path) == path


UNFIT = [
    (WITHOUT, "has no wandb, which runs need", "{python} -m pip install wandb"),
    (
        "echo neither",
        "has no wandb, which",
        "{python} -m ensurepip && {python} -m pip install wandb",
    ),
    ("exit 3", "ended with exit code 3", "local: {{python: PATH}} in deployer.yaml"),
]
GONE = ("", "cannot be started: no such file", "local: {{python: PATH}} in deployer.yaml")


@pytest.mark.parametrize(
    ("rule", "program", "said", "hint"),
    [
        *(("VIRTUAL_ENV", *one) for one in UNFIT),
        *((".venv of the project", *one) for one in (*UNFIT, GONE)),
        *(("CONDA_PREFIX", *one) for one in (*UNFIT, GONE)),
        *(("local.python in deployer.yaml", *one) for one in (*UNFIT, GONE)),
    ],
)
def test_a_chosen_python_without_wandb_is_never_replaced(
    tmp_path: Path, rule: str, program: str, said: str, hint: str
) -> None:
    folder = tmp_path / (".venv" if rule.startswith(".venv") else "chosen")
    python = install(folder / "bin", "python", program=program) / "python"
    if not program:
        python.unlink()
        python.symlink_to("gone")
    variables = {rule: str(folder)} if rule.isupper() else {}
    if rule.startswith("local"):
        (tmp_path / "deployer.yaml").write_text("local: {python: chosen/bin/python}\n")
    path = str(folder / "bin") if rule == "VIRTUAL_ENV" else str(tmp_path)
    with pytest.raises(ConfigError, match=said) as error:
        choose_interpreter(read_project(tmp_path, PATH=path, **variables))
    assert error.value.place == rule
    assert error.value.hint == hint.format(python=python)


@pytest.mark.parametrize("folder", [".venv", "venv", ".pixi/envs/default"])
def test_an_environment_in_the_project_is_used_without_being_active(
    place: Path, folder: str
) -> None:
    install(place / folder / "bin", "python")
    left = {"VIRTUAL_ENV": str(place / "active"), "CONDA_PREFIX": str(place / "conda")}
    found = choose_interpreter(read_project(place, PATH=str(place / "system"), **left))
    assert found.path == str(place / folder / "bin/python")
    assert found.reason.startswith(
        f"{folder} of the project; VIRTUAL_ENV {place / 'active'} is not"
    )


def test_uv_is_named_where_it_is_on_path(tmp_path: Path) -> None:
    folder = install(tmp_path / "bin", "python", "uv", program="echo neither")
    project = read_project(tmp_path, PATH=str(folder), VIRTUAL_ENV=str(tmp_path))
    with pytest.raises(ConfigError) as error:
        choose_interpreter(project)
    assert error.value.hint == f"uv pip install --python {folder / 'python'} wandb"


MOVING = {
    "WANDB_MODE": "offline",
    "WANDB_DISABLED": "true",
    "WANDB_PROJECT": "mine",
    "WANDB_ENTITY": "me",
    "WANDB_RUN_ID": "r",
    "WANDB_RESUME": "must",
    "WANDB_SWEEP_ID": "s",
    "WANDB_SWEEP_PARAM_PATH": "/p",
    "WANDB_RUN_GROUP": "g",
    "WANDB_JOB_TYPE": "j",
    "WANDB_SERVICE": "2-1-tcp-localhost-1",
    "WANDB_LAUNCH": "true",
    "WANDB_LAUNCH_QUEUE_NAME": "q",
}
STAYING = {
    "WANDB_NAME": "n",
    "WANDB_TAGS": "a,b",
    "WANDB_NOTES": "x",
    "WANDB_CONSOLE": "off",
    "WANDB_CACHE_DIR": "/c",
    "WANDB_HTTP_TIMEOUT": "9",
}


def read_moved(folder: Path, settings: str = "") -> Project:
    (folder / "wandb").mkdir()
    (folder / "wandb/settings").write_text(f"[default]\n{settings}")
    return read_project(folder, **MOVING, **STAYING)


def test_variables_that_would_move_a_run_do_not_reach_it(tmp_path: Path) -> None:
    project = read_moved(tmp_path)
    found = build_run_environment(project)
    assert {name: value for name, value in found.items() if name.startswith("WANDB_")} == {
        **STAYING,
        "WANDB_MODE": "online",
    }
    assert list_dropped(project) == sorted(MOVING)


def test_settings_files_do_not_move_a_run_either(tmp_path: Path) -> None:
    text = "mode = offline\nproject = p\nrun_group = g\nrun_job_type = j\nconsole = off\n"
    project = read_moved(tmp_path, text)
    found = build_run_environment(project)
    assert (found["WANDB_MODE"], found["WANDB_RUN_GROUP"], found["WANDB_JOB_TYPE"]) == (
        "online",
        "",
        "",
    )
    keys = ("mode", "run_group", "run_job_type")
    told = [f"{key} in W&B's settings file" for key in keys]
    assert list_dropped(project) == [*sorted(MOVING), *told]


def test_deployers_own_python_is_warned_of_with_the_fix(place: Path) -> None:
    plan = build_plan("me/p/s", "http://localhost", str(place), 1)
    for folder, warned in (("old", True), ("named", False)):
        executor = LocalExecutor("local", read_project(place, PATH=str(place / folder)))
        told = executor.describe_runs(plan)
        warnings = told.warnings
        assert len(warnings) == warned
        named = any(line.startswith("Python of the runs: ") for line in told.lines)
        assert named is not warned
        assert all(line.endswith(f"; {CHOOSE}") for line in warnings)
        assert all(str(place / "old/python3 has no wandb") in line for line in warnings)
