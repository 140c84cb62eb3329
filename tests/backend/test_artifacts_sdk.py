"""Artifacts, tables, media, code and files by the unmodified SDK: what it wrote it reads back."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ServedBackend, serve_backend
from tests.stock import stock_environment

SCRIPT = Path(__file__).with_name("artifact_script.py")

EXPECTED = {
    "logged": ["v0", 4, ["best", "latest"]],
    "downloaded": {
        "a.txt": b"alpha".hex(),
        "far.csv": b"x,y\n1,2\n".hex(),
        "inner/b.bin": bytes(range(10)).hex(),
    },
    "equal": True,
    "table": [[1, "a"], [2, "ü"]],
    "model": True,
    "same": ["v1", ["again", "first", "latest"]],
    "draft": ["far.csv", "inner/b.bin", "table.table.json", "weights.pt"],
    "pointed": "alpha",
    "runs": ["maker", "user"],
    "described": ["D", {"k": [1, 2]}, ["best"]],
    "files": ["a.txt", "far.csv", "inner/b.bin", "table.table.json"],
    "entry": "alpha",
    "types": ["code", "dataset", "model", "run_table"],
    "collections": ["pointer", "ds"],
    "versions": ["ds:v2", "ds:v1", "ds:v0"],
    "made": ["code", "dataset", "model", "run_table"],
    "used": ["ds:v0", "net:v0"],
    "run_files": [
        "code/artifact_script.py",
        "config.yaml",
        "data/a.txt",
        "inner/b.bin",
        "late.txt",
        "output.log",
        "requirements.txt",
        "wandb-metadata.json",
        "wandb-summary.json",
    ],
    "media": ["audio", "html", "table"],
    "late": "late",
    "left": False,
    "changed": ["v0", ["good"], False],
    "after": ["ds:v2", "ds:v0"],
    "renamed": ["C", ["t"]],
    "deleted": False,
}


def run_script(backend: ServedBackend, folder: Path, python: str = sys.executable) -> Any:
    """Run the user's script in an empty folder and return what it found."""
    folder.mkdir()
    script = shutil.copy(SCRIPT, folder)
    done = subprocess.run(
        [python, script],
        cwd=folder,
        env={
            **stock_environment(backend),
            "WANDB_CACHE_DIR": str(folder / "cache"),
            "WANDB_DATA_DIR": str(folder / "data-dir"),
        },
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "found.json").read_text())


@pytest.mark.slow
def test_everything_reads_back_as_it_was_logged(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    served = serve_backend(tmp_path_factory.mktemp("artifacts") / "data")
    try:
        found = run_script(served, tmp_path / "work")
    finally:
        served.process.terminate()
        served.process.wait(20)
    assert "this server has no registry" in found.pop("refused")
    assert found == EXPECTED
