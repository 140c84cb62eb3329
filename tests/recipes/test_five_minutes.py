"""docs/index.md: its script and its sweep, with its command."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.recipes.readme import Recipe

PAGE = Path(__file__).parents[2] / "docs" / "index.md"
FILE = re.compile(r'^```\w+ title="(?P<name>[^"]+)"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_script_of_the_first_page_is_swept(tmp_path: Path) -> None:
    shutil.copy(PAGE, tmp_path / "README.md")
    for file in FILE.finditer(PAGE.read_text()):
        (tmp_path / file["name"]).write_text(file["text"])
    page = Recipe(tmp_path)
    said = page.run_blocks("Your own script")
    assert "6/6 configurations finished, 0 duplicates, 0 lost" in said
    assert "with lr=0.4, width=32" in said
    page.run("deployer down --all")
