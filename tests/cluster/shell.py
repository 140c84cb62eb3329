"""A user's shell in a project folder: a kubeconfig, a W&B server, and the real `deployer`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from deployer.wandb_api.server import Server
from tests.forked import run_forked


@dataclass(frozen=True)
class Shell:
    """Commands run in `folder` with these variables added to the environment.

    `forked`: `deployer` need not load itself. Not for a cloud's clients: whoever has used gRPC
    cannot be forked.
    """

    folder: Path
    environment: Mapping[str, str] = field(repr=False)
    forked: bool = False

    def write(self, name: str, content: str | Mapping[str, object]) -> None:
        """Write a file of the project; a mapping as YAML."""
        text = content if isinstance(content, str) else yaml.safe_dump(dict(content))
        (self.folder / name).write_text(text)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program and return what came of it."""
        return subprocess.run(
            words,
            cwd=self.folder,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=300,
        )

    def type(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line of a recipe as the shell does; raise with its own words when it fails."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = self.run("env", f"PATH={path}", "bash", "-c", line)
        if done.returncode:
            raise AssertionError(f"{line}: {done.stdout}{done.stderr}")
        return done

    def try_deployer(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `deployer` and return what came of it, whatever it is."""
        if self.forked:
            return run_forked(arguments, self.folder, {**os.environ, **self.environment})
        return self.run(sys.executable, "-m", "deployer", *arguments)

    def deployer(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `deployer` and return what came of it; raise with its own words when it fails."""
        done = self.try_deployer(*arguments)
        if done.returncode:
            raise AssertionError(f"deployer {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done


def open_shell(folder: Path, kubeconfig: Path, server: Server, *, forked: bool = False) -> Shell:
    """Make a project folder and return a shell in it."""
    folder.mkdir()
    return enter_shell(folder, kubeconfig, server, forked=forked)


def enter_shell(folder: Path, kubeconfig: Path, server: Server, *, forked: bool = False) -> Shell:
    """Return a shell in a project folder that is there."""
    return Shell(
        folder,
        {
            "KUBECONFIG": str(kubeconfig),
            "WANDB_BASE_URL": server.url,
            "WANDB_API_KEY": server.client.key,
        },
        forked,
    )
