"""Python environments with one version of the SDK each, made by uv and kept outside the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cache import CACHE, REAL_HOME

ROOT = Path(__file__).parents[2]
LATEST = "latest"


def python_with(version: str) -> Path:
    """Return a Python that has this version of wandb; `latest` is asked of the index each time."""
    python = CACHE / f"wandb-{version}" / "bin" / "python"
    wanted = "wandb" if version == LATEST else f"wandb=={version}"
    if version == LATEST or not python.with_name("wandb").exists():
        run_uv("venv", "--clear", "--python", sys.executable, str(python.parents[1]))
        run_uv("pip", "install", "--upgrade", "--python", str(python), wanted)
    return python


def run_uv(*arguments: str) -> None:
    """Run the uv that `make setup` installed, or the one on PATH, with the cache of `make`."""
    installed = ROOT / ".tools" / "bin" / "uv"
    uv = str(installed) if installed.exists() else shutil.which("uv")
    assert uv, "uv is not there: run make setup"
    cache = str(ROOT / ".tools" / "cache")
    environment = {"UV_CACHE_DIR": cache, **os.environ, "HOME": str(REAL_HOME)}
    subprocess.run([uv, "--quiet", *arguments], check=True, env=environment)
