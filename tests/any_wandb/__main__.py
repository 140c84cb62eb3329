"""Run the claims against a W&B server: `python -m tests.any_wandb URL [PYTEST-ARGUMENTS]`.

The key is where `wandb login` keeps it, or WANDB_API_KEY; it is never an argument, and no line of
the output has it.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from deployer.config.project import Flags, load_project
from deployer.errors import ConfigError, DeployerError
from deployer.wandb_api.client import Client
from deployer.wandb_api.operations import get_viewer
from tests.any_wandb.named import write_named
from tests.conftest import WandbServer

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
SIDE_BY_SIDE = ("-n", "3", "--dist", "worksteal")


def main(arguments: Sequence[str]) -> int:
    """Check the server and the key, run the tests, return the exit status."""
    url, *rest = arguments or [""]
    try:
        server = find_server(url)
    except DeployerError as error:
        say(error.message, error.hint)
        return 2
    status = run_tests(server, rest)
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        say("no test ran", "make test-wandb URL=… runs all of them")
    return status


def find_server(url: str) -> WandbServer:
    """Return the server with the user's own key, which it must know; raises DeployerError."""
    if not url.startswith(("http://", "https://")):
        said = f"'{url}' is not the address of a W&B server" if url else "no W&B server is named"
        raise ConfigError("URL", said, "make test-wandb URL=https://api.wandb.ai")
    project = load_project(Flags(wandb=url), os.environ, ROOT, ("local",))
    if not project.key:
        hint = f"wandb login --host {project.wandb}, or export WANDB_API_KEY=…"
        raise ConfigError("URL", f"no key found for {project.wandb}", hint)
    viewer = get_viewer(Client(project.wandb, project.key, project.key_source))
    return WandbServer(project.wandb, project.key, project.entity or viewer.entity)


def run_tests(server: WandbServer, arguments: Sequence[str]) -> int:
    """Run the tests of this folder; what they print is passed on without the key."""
    side_by_side = () if "-n" in arguments else SIDE_BY_SIDE
    sys.stdout.write(f"trying claims on {server.url} as {server.entity}: a minute to the first\n")
    sys.stdout.flush()
    options = ("-q", "--tb=short", "-p", "no:cacheprovider", *side_by_side)
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", str(FOLDER), *options, *arguments],
        cwd=ROOT,
        env={**_without_wandb(), **write_named(server, secrets.token_hex(3))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        sys.stdout.write(line.replace(server.key, "***"))
        sys.stdout.flush()
    return process.wait()


def say(problem: str, hint: str) -> None:
    """Tell what is wrong, and what to do."""
    sys.stderr.write(f"error: {problem}\nhint: {hint}\n")


def _without_wandb() -> dict[str, str]:
    """Return our environment without settings that were meant for the user's own work."""
    own = ("WANDB_", "DEPLOYER_")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)}


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
