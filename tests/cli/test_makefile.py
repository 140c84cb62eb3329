"""What `make` hands to the tools that it installs with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


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
    assert found.keys() & given.keys() == {"VIRTUAL_ENV"}
    assert found["VIRTUAL_ENV"] == str(PROJECT / ".venv")
