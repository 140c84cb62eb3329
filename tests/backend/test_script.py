"""A script that knows only W&B's documentation reads back what it wrote."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ServedBackend
from tests.stock import stock_environment

SCRIPT = Path(__file__).with_name("user_script.py")


@pytest.mark.slow
def test_a_users_script_reads_back_what_it_wrote(backend: ServedBackend, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, shutil.copy(SCRIPT, tmp_path)],
        cwd=tmp_path,
        env={**stock_environment(backend), "WANDB_SILENT": "true"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["differs"] == {}
