"""An image that is not ours: a Python of its own under `/opt`, with wandb and without deployer."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
# Of the standard library: what no agent needs, and what others have installed.
UNWANTED = ("test", "idlelib", "tkinter", "ensurepip", "site-packages", "dist-packages", "config-*")


def write_foreign_python(folder: Path) -> None:
    """Copy this machine's Python, wandb and what wandb requires into a folder for `/opt`."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    shutil.copy2(Path(sys.base_prefix) / "bin" / VERSION, programs / VERSION)
    for name in ("python", "python3"):
        (programs / name).symlink_to(VERSION)
    library = folder / "lib" / VERSION
    unwanted = shutil.ignore_patterns(*UNWANTED)
    shutil.copytree(Path(sys.base_prefix) / "lib" / VERSION, library, ignore=unwanted)
    # Debian's Python has another name for it.
    asked = [programs / VERSION, "-c", "import site; print(site.getsitepackages()[-1])"]
    packages = Path(subprocess.check_output(asked, text=True).strip())
    for source in sorted(set(_list_parts("wandb", set()))):
        if source.is_dir():
            shutil.copytree(source, packages / source.name)
        else:
            shutil.copy2(source, packages / source.name)


def _list_parts(name: str, seen: set[str]) -> Iterator[Path]:
    """Yield the folders and files of an installed distribution and of those that it requires."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name in seen:
        return
    seen.add(name)
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:  # required elsewhere, not on this machine
        return
    for file in distribution.files or ():
        if file.parts[0] != "..":  # programs
            yield Path(str(distribution.locate_file(file.parts[0])))
    for requirement in distribution.requires or ():
        if "extra ==" not in requirement:
            yield from _list_parts(re.split(r"[^\w.-]", requirement, maxsplit=1)[0], seen)
