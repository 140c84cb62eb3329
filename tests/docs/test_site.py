"""The documentation is built as a site, and every page of it is in its navigation."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_documents import LINK

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RECIPES = ROOT / "sweeps" / "recipes"


def list_pages(entries: list[Any]) -> Iterator[str]:
    """Yield the files that a navigation names."""
    for entry in entries:
        for target in entry.values():
            if isinstance(target, str):
                yield target
            else:
                yield from list_pages(target)


def test_every_page_is_in_the_navigation() -> None:
    config = tomllib.loads((ROOT / "zensical.toml").read_text())
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert set(list_pages(config["project"]["nav"])) == pages


@pytest.mark.parametrize("recipe", sorted(RECIPES.glob("*/README.md")), ids=lambda p: p.parent.name)
def test_a_recipe_and_what_it_links_are_part_of_the_site(recipe: Path) -> None:
    # Links to single files: the site's builder does not follow one to a folder.
    page = DOCS / "recipes" / recipe.relative_to(RECIPES)
    for name in (recipe.name, *LINK.findall(recipe.read_text())):
        assert (page.parent / name).resolve() == recipe.parent / name, "ln -s is missing"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    assert (tmp_path / ".site" / "index.html").exists()
    assert (tmp_path / ".site" / "recipes" / "000-mnist-grid" / "index.html").exists()
