"""The name of a W&B project that nobody has named."""

from __future__ import annotations

from pathlib import Path


def derive_project(program: str | None, folder: Path) -> str:
    """Name a project after the git repository and the program's folder in it, as W&B does.

    Source: `auto_project_name` in wandb/util.py.
    """
    root = next((p for p in (folder, *folder.parents) if (p / ".git").exists()), None)
    if root is None:
        return "uncategorized"
    place = (folder / program).resolve().parent if program else root
    if not place.is_relative_to(root):
        return root.name
    inside = "_".join(place.relative_to(root).parts)
    return f"{root.name}-{inside}" if inside else root.name
