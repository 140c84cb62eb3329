"""The project's own modules that a script imports, as syntax trees; nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Whoever reads flags with argparse, click, typer or absl imports one of these somewhere.
PARSERS = frozenset(
    (
        *("argparse", "click", "typer", "absl", "configargparse", "tap", "simple_parsing"),
        *("jsonargparse", "transformers", "trl", "datargs", "rich_click", "hydra"),
    )
)
MOST_MODULES = 500


@dataclass(frozen=True)
class Module:
    """A file of the project; `tree` is None where this Python cannot read it."""

    path: Path
    tree: ast.Module | None

    @property
    def imports(self) -> frozenset[str]:
        """Return the top names of what it imports."""
        return frozenset(name.partition(".")[0] for name, _ in list_imports(self) if name)


def find_module_file(name: str, folder: Path) -> Path | None:
    """Return the file that `-m NAME` runs, if the folder has it."""
    base = folder / Path(*name.split("."))
    files = (base / "__main__.py", base.with_name(base.name + ".py"))
    return next((file for file in files if file.is_file()), None)


def list_project_modules(entry: Path, roots: tuple[Path, ...]) -> list[Module]:
    """Return a script and the modules below `roots` that it imports, itself or through others."""
    found: dict[Path, Module] = {}
    waiting = [entry]
    while waiting and len(found) < MOST_MODULES:
        path = waiting.pop().resolve()
        if path in found:
            continue
        found[path] = module = _read(path)
        for name, level in list_imports(module):
            bases = path.parents[level - 1 : level] if level else roots
            waiting += [file for base in bases for file in _find(base, name)]
    return list(found.values())


def reads_flags(modules: list[Module]) -> bool:
    """Tell whether any of them may have a parser; what cannot be read may."""
    return any(one.tree is None or one.imports & PARSERS for one in modules)


def list_imports(module: Module) -> Iterator[tuple[str, int]]:
    """Yield (dotted name, level) of everything that may be a module; level counts leading dots."""
    for node in ast.walk(module.tree) if module.tree else ():
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, 0
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node.level
            for alias in node.names:
                yield ".".join(part for part in (node.module, alias.name) if part), node.level


def _find(base: Path, name: str) -> list[Path]:
    """Return the files that are run when a name is imported: packages above it, too."""
    parts = name.split(".") if name else []
    files = [base.joinpath(*parts[:n], "__init__.py") for n in range(1, len(parts) + 1)]
    files += [base.joinpath(*parts[:-1], f"{parts[-1]}.py")] if parts else [base / "__init__.py"]
    return [file for file in files if file.is_file() and "site-packages" not in file.parts]


def _read(path: Path) -> Module:
    try:
        return Module(path, ast.parse(path.read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return Module(path, None)
