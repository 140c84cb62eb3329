"""The commands of a recipe's README, run as they stand in a fresh copy of its folder.

A block marked `sh` is run, one marked `text` is not. The fixture `home`, which every test has,
gives an empty HOME and none of the caller's W&B settings; the project's tools are on PATH, as after
`source .venv/bin/activate`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

RECIPES = Path(__file__).parents[2] / "sweeps" / "recipes"
# A heading, or a whole block, whose comments are no headings.
PART = re.compile(
    r"^#+ (?P<heading>[^\n]+)$|^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
TIMEOUT_SECONDS = 600


@dataclass(frozen=True)
class Block:
    """The commands of one `sh` block, and the heading that it stands under."""

    heading: str
    commands: str


def read_blocks(text: str) -> Iterator[Block]:
    """Yield the `sh` blocks of a document in order."""
    heading = ""
    for part in PART.finditer(text):
        if part["heading"]:
            heading = part["heading"]
        elif part["kind"] == "sh":
            yield Block(heading, part["text"])


@dataclass(frozen=True)
class Recipe:
    """A copy of a recipe, which a test may change before it runs the README's commands there."""

    folder: Path

    @property
    def blocks(self) -> list[Block]:
        """Return the README's blocks of commands."""
        return list(read_blocks((self.folder / "README.md").read_text()))

    def run_blocks(self, heading: str = "", **environment: str) -> str:
        """Run the blocks under a heading, or all, one after another; return what they printed.

        Fails with the whole output at the first command that fails.
        """
        chosen = [block for block in self.blocks if heading in ("", block.heading)]
        assert chosen, f"no `sh` block under {heading!r}"
        return "".join(self.run(block.commands, **environment) for block in chosen)

    def run(self, commands: str, **environment: str) -> str:
        """Run commands in the recipe's folder; return what they printed, and fail if one fails."""
        done = self.try_to_run(commands, **environment)
        assert done.returncode == 0, f"{commands}\nexit {done.returncode}\n{done.stdout}"
        return done.stdout

    def try_to_run(self, commands: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run commands in the recipe's folder, stderr among their output."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self.folder,
            env={**os.environ, "PATH": path, "WANDB_DIR": str(self.folder), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )

    def read_yaml(self, name: str) -> Any:
        """Return the content of a YAML file of the recipe."""
        return yaml.safe_load((self.folder / name).read_text())

    def write_yaml(self, name: str, content: Any) -> None:
        """Replace a YAML file of the recipe, for what a test must have smaller or elsewhere."""
        (self.folder / name).write_text(yaml.safe_dump(content, sort_keys=False))


def copy_recipe(name: str, parent: Path) -> Recipe:
    """Copy a recipe's folder into another."""
    return Recipe(Path(shutil.copytree(RECIPES / name, parent / name)))
