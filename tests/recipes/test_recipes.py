"""What holds for every recipe: a README of one screen with commands, and valid sweep files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from deployer.sweeps.sweep_file import load_sweep
from tests.recipes.readme import RECIPES, Block, Recipe, read_blocks

FOLDERS = sorted(path for path in RECIPES.glob("*") if path.is_dir())
SWEEPS = sorted(RECIPES.glob("*/sweep*.yaml"))
SCREEN = 64  # lines, the table of the commands included

every_recipe = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


@every_recipe
def test_a_readme_is_one_screen_with_commands_that_a_test_runs(folder: Path) -> None:
    text = (folder / "README.md").read_text()
    assert text.startswith("# ")
    assert len(text.splitlines()) <= SCREEN
    assert max(map(len, text.splitlines())) <= 115
    assert Recipe(folder).blocks
    assert any(f'"{folder.name}"' in test for test in read_tests())


@cache
def read_tests() -> list[str]:
    """Return the text of every file of tests."""
    return [path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py")]


@every_recipe
def test_a_recipe_has_a_sweep_and_settings(folder: Path) -> None:
    assert (folder / "sweep.yaml").is_file()
    assert (folder / "deployer.yaml").is_file()


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_nothing_is_wrong_or_doubtful_in_a_sweep_file(path: Path) -> None:
    assert load_sweep(path).warnings == ()


def test_blocks_are_read_with_their_headings() -> None:
    text = (
        "# A\n```sh\none\n\ntwo\n```\n"
        "## B\n```text\n# no heading\nnot run\n```\n```sh\nthree  # a comment\n# four\n```\n"
    )
    assert list(read_blocks(text)) == [
        Block("A", "one\n\ntwo\n"),
        Block("B", "three  # a comment\n# four\n"),
    ]
