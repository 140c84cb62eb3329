"""What docs/decisions/layout.md says of files and class names."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "deployer"
SOURCES = sorted(PACKAGE.rglob("*.py"))
# They run in the script's interpreter, and name what they stand for as wandb and argparse do.
HOOKS = PACKAGE / "scripts" / "rehearsal" / "prologue"
MOST_LINES = 700


def test_a_class_name_stands_once() -> None:
    found = defaultdict(list)
    for source in SOURCES:
        if not source.is_relative_to(HOOKS):
            for node in ast.walk(ast.parse(source.read_text())):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(source.relative_to(PACKAGE))
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


def test_no_module_is_too_long() -> None:
    lines = {source: source.read_text().count("\n") for source in SOURCES}
    assert {source: count for source, count in lines.items() if count > MOST_LINES} == {}
