"""The steps of a session and its means.

Each step is announced in a file, so that whoever records the traffic knows which step asks; one
that fails is noted, and the next begins.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import wandb

ENTITY = os.environ["WANDB_ENTITY"]
failed: dict[str, str] = {}


def step(name: str, act: Callable[[], Any]) -> Any:
    """Announce and take a step; return what it returned, None if it failed."""
    Path("step").write_text(name)
    try:
        return act()
    except (Exception, SystemExit) as error:  # whatever an SDK makes of what it was answered
        failed[name] = f"{type(error).__name__}: {error}"
        if wandb.run is not None:
            wandb.finish(exit_code=1)
        return None


def command(*arguments: str) -> str:
    """Run the `wandb` command line and return what it said."""
    return run_program(str(Path(sys.executable).with_name("wandb")), *arguments)


def run_program(*arguments: str) -> str:
    """Run a program and return what it said."""
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def ask(query: str) -> Any:
    """Ask the server without an SDK."""
    key = base64.b64encode(f"api:{os.environ['WANDB_API_KEY']}".encode()).decode()
    request = urllib.request.Request(
        f"{os.environ['CONTRACT_SERVER']}/graphql",
        json.dumps({"query": query}).encode(),
        {"Authorization": f"Basic {key}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def wait_for(reached: Callable[[], bool]) -> None:
    """Wait for a state on the server."""
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.5)
