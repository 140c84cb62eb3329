"""The commands that add an extra or a package to deployer's own environment."""

from __future__ import annotations

import shlex
import sys
import tomllib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path

# The command and the import are `deployer`, a name that another project has on the package index.
DISTRIBUTION = "sweep-deployer"


def install_command(extra: str) -> str:
    try:
        lines = requires(DISTRIBUTION) or ()
    except PackageNotFoundError:  # only the code, on PYTHONPATH
        return f"install deployer with its extra {extra} (docs/index.md)"
    if tool := _install_tool(extra):
        return tool
    parts = [line.replace('"', "'").partition(";") for line in lines]
    packages = [name.strip() for name, _, marker in parts if f"extra == '{extra}'" in marker]
    return _pip_install(packages)


def install_package(package: str) -> str:
    """Return how to install a package that deployer depends on.

    It can be missing only if deployer's code was sent without it: in a pod of another image.
    """
    try:
        requires(DISTRIBUTION)
    except PackageNotFoundError:
        line = f"add `RUN pip install {package}` to its image's Dockerfile"
        return f"{line}, then deployer backend up with your --on"
    return _pip_install([package])


def _pip_install(packages: Sequence[str]) -> str:
    # Environments made by uv have no pip.
    pip = [sys.executable, "-m", "pip", "install"]
    uv = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*(pip if find_spec("pip") else uv), *packages])


def _install_tool(extra: str) -> str:
    """Return the command that adds an extra to a uv tool; empty if deployer is not one.

    Packages added in other ways are lost at `uv tool upgrade`.
    """
    try:
        receipt = tomllib.loads(Path(sys.prefix, "uv-receipt.toml").read_text())
        named = next(one for one in receipt["tool"]["requirements"] if one["name"] == DISTRIBUTION)
    except (OSError, ValueError, LookupError, StopIteration):
        return ""
    extras = ",".join(sorted({*named.get("extras", ()), extra}))
    folder = named.get("directory") or named.get("editable") or named.get("path")
    address = named.get("url") or (f"git+{named['git']}" if "git" in named else "")
    source = f"{folder}[{extras}]" if folder else f"{DISTRIBUTION}[{extras}]"
    return shlex.join(["uv", "tool", "install", f"{source} @ {address}" if address else source])
