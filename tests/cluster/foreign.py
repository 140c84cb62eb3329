"""An image that is not ours: a Python of its own under `/opt`, with or without wandb."""

from __future__ import annotations

import ensurepip
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
# Of the standard library: what no agent needs, and what others have installed.
UNWANTED = ("test", "idlelib", "tkinter", "ensurepip", "site-packages", "dist-packages", "config-*")


def write_foreign_python(folder: Path, *, wandb: bool = True) -> None:
    """Copy this machine's Python into a folder for `/opt`, with all of wandb or else with pip."""
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
    if not wandb:
        shutil.unpack_archive(_find_pip(), packages, "zip")
        return
    for source in sorted(set(_list_parts("wandb", set()))):
        if source.is_dir():
            shutil.copytree(source, packages / source.name)
        else:
            shutil.copy2(source, packages / source.name)


@contextmanager
def serve_wheels(host: str, folder: Path, requirements: Path) -> Iterator[str]:
    """Serve the wheels of a requirements file as a package index; yield its address."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--dest", str(folder), "--requirement", str(requirements)]
    path = {"PYTHONPATH": str(_find_pip())}
    subprocess.run(command, env={**os.environ, **path}, check=True)
    for wheel in [*folder.glob("*.whl")]:
        name = wheel.name.partition("-")[0].replace("_", "-").lower()
        (folder / name).mkdir()
        wheel.rename(folder / name / wheel.name)
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer((host, 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{host}:{server.server_port}/"
        server.shutdown()


def _find_pip() -> Path:
    [pip] = Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl")
    return pip


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
