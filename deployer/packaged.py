"""Finds the YAML that comes with the package: k8s/ and infra/."""

from __future__ import annotations

from pathlib import Path


def find_packaged(name: str) -> Path:
    """Return a folder such as k8s or infra/gke: installed inside the package, else beside it."""
    package = Path(__file__).parent
    inside = package / name
    return inside if inside.is_dir() else package.parent / name
