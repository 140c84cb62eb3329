"""What `make` hands to the tools that it installs with."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
TINY = '[project]\nname = "tiny"\nversion = "0"\nrequires-python = ">=3.11"\n'
LOCK = """version = 1
requires-python = ">=3.11"

[[package]]
name = "tiny"
version = "0"
source = { virtual = "." }
"""


@pytest.mark.parametrize(("given", "used"), [(None, "1"), ("0", "0")])
def test_uv_trusts_the_machines_own_certificates(given: str | None, used: str) -> None:
    """Its built-in list lacks a company's authority; whoever wants the list says so."""
    environment = {k: v for k, v in os.environ.items() if k != "UV_SYSTEM_CERTS"}
    if given is not None:
        environment["UV_SYSTEM_CERTS"] = given
    told = subprocess.run(
        ["make", "--silent", "--eval", "tell: ; @echo $$UV_SYSTEM_CERTS", "tell"],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == used


def test_a_demo_is_independent_of_what_its_caller_has_activated() -> None:
    given = {
        **dict.fromkeys(("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH"), "/elsewhere"),
        "WANDB_MODE": "offline",
        "DEPLOYER_ON": "kubernetes",
    }
    told = subprocess.run(
        ["make", "--silent", "--eval", "tell: ; @$(ISOLATED) env", "tell"],
        cwd=PROJECT,
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=True,
    )
    found = dict(line.split("=", 1) for line in told.stdout.splitlines() if "=" in line)
    assert not found.keys() & given.keys()  # so that the runs' Python is that of .venv


@pytest.mark.full
@pytest.mark.parametrize("own", [False, True], ids=["in the folder", "the caller's"])
def test_downloads_stay_in_the_folder(
    own: bool, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make setup` leaves no cache in HOME, and `make clean` leaves the caller's cache alone."""
    folder, chosen = tmp_path / "project", tmp_path / "cache"
    folder.mkdir()
    shutil.copy(PROJECT / "Makefile", folder)
    (folder / "pyproject.toml").write_text(TINY)
    (folder / "uv.lock").write_text(LOCK)
    monkeypatch.delenv("UV_CACHE_DIR", raising=False)
    if own:
        monkeypatch.setenv("UV_CACHE_DIR", str(chosen))
    cache = chosen if own else folder / ".tools" / "cache"
    told = subprocess.run(
        ["make", "setup"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    assert f"{cache}" in told
    assert (cache / "CACHEDIR.TAG").exists()
    assert not (home / ".cache").exists()
    subprocess.run(["make", "clean"], cwd=folder, check=True)
    assert {path.name for path in folder.iterdir()} == {"Makefile", "pyproject.toml", "uv.lock"}
    assert cache.exists() == own
