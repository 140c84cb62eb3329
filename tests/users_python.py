"""Environments of a user: none of them has deployer."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.cache import CACHE, REAL_HOME
from tests.contract.sdks import run_uv


def create_environment(folder: Path) -> Path:
    """Make a virtual environment of our Python without any package; return its Python."""
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


def install_wandb(python: Path) -> None:
    """Let an environment have our packages: all but deployer, which is not copied to them."""
    packages = next(python.parents[1].glob("lib/python3*/site-packages"))
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib"))


def find_python(version: str) -> str | None:
    """Return a Python of this version such as 3.8, of pyenv, uv or PATH; None if none is here."""
    pyenv = (REAL_HOME / ".pyenv" / "versions").glob(f"{version}.*/bin/python")
    uv = (REAL_HOME / ".local/share/uv/python").glob(f"cpython-{version}.*/bin/python")
    found = [*map(str, pyenv), *map(str, uv), shutil.which(f"python{version}")]
    return next((one for one in found if one and answers(one)), None)


def answers(python: str) -> bool:
    """Return True if it is a Python, not a shim of pyenv without one."""
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def environment_of(version: str, base: str) -> Path:
    """Return the Python of an environment with the newest wandb for that version."""
    folder = CACHE / f"users-{version}"
    python = folder / "bin" / "python"
    if not python.with_name("wandb").exists():
        run_uv("venv", "--clear", "--python", base, str(folder))
        run_uv("pip", "install", "--python", str(python), "wandb")
    return python


def environment_with(*packages: str) -> Path:
    """Return the Python of an environment with packages, and with ours but deployer."""
    folder = CACHE / f"users-{'-'.join(packages)}"
    python = folder / "bin" / "python"
    if not (folder / "whole").exists():
        run_uv("venv", "--clear", "--python", sys.executable, str(folder))
        run_uv("pip", "install", "--python", str(python), *packages)
        (folder / "whole").touch()
    install_wandb(python)  # ours may lie elsewhere than when the environment was made
    return python
