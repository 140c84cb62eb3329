"""What the script's interpreter imports needs none but the standard library, and Python 3.8."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from deployer.scripts.rehearsal import process


def test_every_file_is_python_3_8_and_imports_the_standard_library_alone() -> None:
    for source in Path(process.__file__).parent.rglob("*.py"):
        tree = ast.parse(source.read_text(), feature_version=(3, 8))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            assert all(
                name.partition(".")[0] in sys.stdlib_module_names or name.startswith("deployer_")
                for name in names
            ), source
