"""What the recipes' tests share: a copy of a recipe, and an end for whatever it started."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.recipes.readme import Recipe, copy_recipe


@pytest.fixture
def recipe(tmp_path: Path) -> Iterator[Callable[[str], Recipe]]:
    """Give a function that copies the recipe of a name; what it started ends with the test."""
    copies: list[Recipe] = []

    def copy(name: str) -> Recipe:
        copies.append(copy_recipe(name, tmp_path))
        return copies[-1]

    yield copy
    if copies and Path(os.environ["DEPLOYER_HOME"]).exists():
        copies[-1].try_to_run("deployer down --all")
