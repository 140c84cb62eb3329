"""The unmodified `wandb` command line, and a user's own script that knows nothing of ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import WandbServer

BIN = Path(sys.executable).parent

# argparse, wandb.init, wandb.log: the script that everybody has.
USER_SCRIPT = """
import argparse, ast
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--layers", type=int, default=1)
parser.add_argument("--optimizer", type=ast.literal_eval, default={})
parser.add_argument("--fail", type=int, default=0)
parser.add_argument("--seconds", type=float, default=0.0)
args = parser.parse_args()
run = wandb.init(config=vars(args))
for step in range(3):
    run.log({"loss": (args.lr - 0.3) ** 2 + args.layers / 10 + 1 / (step + 1)}, step=step)
if args.seconds:
    import time
    time.sleep(args.seconds)
if args.fail:
    raise SystemExit(args.fail)
run.finish()
"""


def write_project(folder: Path, config: Mapping[str, Any]) -> Path:
    """Write `train.py` and `sweep.yaml` into a folder and return the sweep file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(USER_SCRIPT)
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump({"program": "train.py", **config}))
    return path


def stock_environment(backend: WandbServer) -> dict[str, str]:
    """Return an environment with nothing but the four variables that W&B documents."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, **backend.environment, "PATH": path}


def wandb(backend: WandbServer, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the `wandb` command line to its end."""
    return subprocess.run(
        [BIN / "wandb", *arguments],
        cwd=folder,
        env=stock_environment(backend),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def run_program(backend: WandbServer, program: str, *arguments: str) -> str:
    """Run Python code that uses the SDK to its end, which must be a good one; return its output."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=stock_environment(backend),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def wandb_sweep(backend: WandbServer, sweep_file: Path, project: str) -> str:
    """Create a sweep by `wandb sweep` and return its path."""
    made = wandb(backend, sweep_file.parent, "sweep", "--project", project, sweep_file.name)
    found = re.search(r"wandb agent (\S+)", made.stderr)
    assert found, made.stderr
    return found.group(1)


def start_wandb_agent(backend: WandbServer, folder: Path, sweep_path: str) -> subprocess.Popen[str]:
    """Start a stock `wandb agent`; its output goes to a file in the folder."""
    with (folder / f"agent-{os.urandom(3).hex()}.log").open("w") as log:
        return subprocess.Popen(
            [BIN / "wandb", "agent", sweep_path],
            cwd=folder,
            env=stock_environment(backend),
            stdout=log,
            stderr=log,
            text=True,
        )
