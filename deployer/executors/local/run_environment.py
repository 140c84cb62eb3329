"""The environment of local runs: their Python, and the caller's W&B settings."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from deployer.config import paths
from deployer.config.project import Project
from deployer.errors import ConfigError
from deployer.scripts.missing_modules import format_install
from deployer.waiting import run_program

PROBE_SECONDS = 30.0
ASK_SECONDS = 10.0  # Python starts slowly from a cold disk
ON_PATH, OWN = "the first {name} on PATH", "deployer's own"
OF_PROJECT = (".venv", "venv", ".pixi/envs/default")  # folders of the project
SETTING = "local.python in deployer.yaml"
THERE, PIP, NEITHER = "there", "pip", "neither"  # as the script below prints it
# A folder of run logs named `wandb` looks like a package without an __init__ file.
ASK_PACKAGE = """
import sys
from importlib.util import find_spec
found = find_spec(sys.argv[1])
print("there" if found and found.origin else "pip" if find_spec("pip") else "neither")
"""
# Variables that would send a run elsewhere than to its sweep.
DROPPED = frozenset(
    (
        *("WANDB_MODE", "WANDB_DISABLED", "WANDB_ENTITY", "WANDB_PROJECT"),
        *("WANDB_RUN_ID", "WANDB_RESUME", "WANDB_RUN_GROUP", "WANDB_JOB_TYPE"),
        *("WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH", "WANDB_SERVICE"),
    )
)
DROPPED_PREFIX = "WANDB_LAUNCH"
# The SDK reads its settings files in each run, and only other variables override them. The agent
# itself sets entity, project, sweep and run.
DEFAULT_MODE = {"WANDB_MODE": "online"}
EMPTIED = {"run_group": "WANDB_RUN_GROUP", "run_job_type": "WANDB_JOB_TYPE"}
FILE_KEYS = ("mode", *EMPTIED)


@dataclass(frozen=True)
class Interpreter:
    """The Python of the runs, and why it was chosen; `needs_wandb` is False with `metrics:`."""

    path: str
    reason: str
    needs_wandb: bool = True

    @property
    def is_own(self) -> bool:
        """Return True for deployer's own, which lacks the user's packages."""
        return self.reason.startswith(OWN)

    def prepend_to_path(self, path: str) -> str:
        if _is_interpreter(shutil.which("python", path=path), self.path):
            return path
        folder = os.path.dirname(self.path)
        if not _is_interpreter(os.path.join(folder, "python"), self.path):
            folder = _make_folder(self.path)
        return os.pathsep.join([folder, path])


def choose_interpreter(project: Project) -> Interpreter:
    """Return the Python of the runs; raises ConfigError if it lacks a package that they need.

    Order: deployer.yaml, VIRTUAL_ENV if it is active, an environment in the project's folder,
    CONDA_PREFIX, PATH, deployer's own. The package is wandb, except with `metrics:`, whose wrapper
    uses deployer's wandb.
    """
    environment = project.environment
    path = environment.get("PATH", os.defpath)
    chosen, passed = _find_chosen(project, path)
    if project.metrics.source:
        chosen = chosen or _find_first(path, passed)
        _require("sys", *chosen, environment)
        return Interpreter(*chosen, needs_wandb=False)
    if chosen:
        _require("wandb", *chosen, environment)
        return Interpreter(*chosen)
    for name in ("python", "python3"):
        found = shutil.which(name, path=path)
        if not found:
            continue
        said = _ask(found, "wandb", environment)
        if said == THERE:
            return Interpreter(os.path.abspath(found), f"{ON_PATH.format(name=name)}{passed}")
        passed += f"; {found} {'has no wandb' if said in (PIP, NEITHER) else said}"
    return Interpreter(sys.executable, f"{OWN}{passed or '; no python on PATH'}")


def build_run_environment(project: Project) -> dict[str, str]:
    """Return the caller's environment, filtered for runs; raises ConfigError, see above."""
    environment = project.environment
    path = choose_interpreter(project).prepend_to_path(environment.get("PATH", os.defpath))
    kept = {name: value for name, value in environment.items() if not is_dropped(name)}
    setting = project.credentials.setting
    overrides = {name: "" for key, name in EMPTIED.items() if setting(key)}
    return {**kept, **DEFAULT_MODE, **overrides, "PATH": path}


def list_dropped(project: Project) -> list[str]:
    """Return the caller's W&B settings that runs do not get."""
    variables = [name for name, value in project.environment.items() if value and is_dropped(name)]
    setting = project.credentials.setting
    keys = [f"{key} in W&B's settings file" for key in FILE_KEYS if setting(key)]
    return [*sorted(variables), *keys]


def is_dropped(name: str) -> bool:
    return name in DROPPED or name.startswith(DROPPED_PREFIX)


def _find_chosen(project: Project, path: str) -> tuple[tuple[str, str] | None, str]:
    """Return the user's interpreter and the rule that chose it, then the skipped ones.

    Those are a VIRTUAL_ENV whose Python is not the first on PATH, and conda's base environment.
    """
    environment, passed = project.environment, ""
    if named := project.local.python:
        if os.sep not in named:
            return (shutil.which(named, path=path) or named, SETTING), ""
        return (os.path.abspath(project.folder / os.path.expanduser(named)), SETTING), ""
    if folder := environment.get("VIRTUAL_ENV"):
        python = _python_of(folder)
        if _is_interpreter(shutil.which("python", path=path), python):
            return (python, "VIRTUAL_ENV"), ""
        passed = f"; VIRTUAL_ENV {folder} is not used: its Python is not the first on PATH"
    for name in OF_PROJECT:
        python = _python_of(project.folder / name)
        if os.path.lexists(python):  # even if its Python has been removed
            return (python, f"{name} of the project{passed}"), ""
    if folder := environment.get("CONDA_PREFIX"):
        if environment.get("CONDA_DEFAULT_ENV") != "base":
            return (_python_of(folder), f"CONDA_PREFIX{passed}"), ""
        passed += "; conda's base environment is not used unless you name it"
    return None, passed


def _python_of(folder: str | Path) -> str:
    return os.path.join(os.path.abspath(folder), "bin", "python")


def _find_first(path: str, passed: str) -> tuple[str, str]:
    """Return the first Python on PATH, else deployer's own, and why."""
    for name in ("python", "python3"):
        if found := shutil.which(name, path=path):
            return os.path.abspath(found), f"{ON_PATH.format(name=name)}{passed}"
    return sys.executable, f"{OWN}{passed}; no python on PATH"


def _require(package: str, python: str, reason: str, environment: Mapping[str, str]) -> None:
    said = _ask(python, package, environment)
    if said == THERE:
        return
    if said in (PIP, NEITHER):
        hint = format_install(python, package, environment, said == PIP)
        raise ConfigError(reason, f"{python} has no {package}, which runs need", hint)
    raise ConfigError(reason, f"{python} {said}", "local: {python: PATH} in deployer.yaml")


def _ask(python: str, package: str, environment: Mapping[str, str]) -> str:
    """Return THERE if a Python has a package, else PIP, NEITHER, or why it does not answer."""
    if os.path.dirname(os.path.abspath(python)) == os.path.dirname(sys.executable):
        return THERE
    return _ask_process(python, package, tuple(sorted(environment.items())))


@lru_cache
def _ask_process(python: str, package: str, environment: tuple[tuple[str, str], ...]) -> str:
    words = [python, "-c", ASK_PACKAGE, package]
    try:
        answer = run_program(words, ASK_SECONDS, python, env=dict(environment))
    except subprocess.TimeoutExpired:
        return f"has not answered in {ASK_SECONDS:.0f} s"
    except OSError as error:
        return f"cannot be started: {(error.strerror or str(error)).lower()}"
    lines = answer.stdout.decode(errors="replace").splitlines() if answer.returncode == 0 else []
    return lines[-1] if lines else f"ended with exit code {answer.returncode}"


def _is_interpreter(found: str | None, python: str) -> bool:
    """Return True if both paths are one Python; environments differ only by their folder."""
    if not found or os.path.dirname(os.path.abspath(found)) != os.path.dirname(python):
        return False
    with suppress(OSError):
        return os.path.samefile(found, python)
    return False


def _make_folder(python: str) -> str:
    """Return a folder with an interpreter named `python`, as it lacks that name in its own."""
    folder = paths.home() / "pythons" / hashlib.sha256(python.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("python", "python3"):
        with suppress(FileExistsError):
            Path(folder, name).symlink_to(python)
    return str(folder)


def find_variables(project: Project) -> tuple[tuple[str, str], ...]:
    """Return the variables that deployer.yaml defines for runs: the locations of data."""
    if not project.data:
        return ()
    from deployer.config.data import list_variables
    from deployer.data.sources import find_place

    places = {data.name: str(find_place(data, project.folder)) for data in project.data}
    return list_variables(project.data, places)
