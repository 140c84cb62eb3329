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


def write_foreign_python(folder: Path, *packages: str, wandb: bool = True) -> None:
    """Write a Python with wandb (else with pip), these packages and what they require for `/opt`.

    All but the interpreter are links to this machine's files, which containers see.
    """
    programs = folder / "bin"
    programs.mkdir(parents=True)
    shutil.copy2(Path(sys.base_prefix) / "bin" / VERSION, programs / VERSION)
    for name in ("python", "python3"):
        (programs / name).symlink_to(VERSION)
    library = folder / "lib" / VERSION
    library.mkdir(parents=True)
    original = Path(sys.base_prefix) / "lib" / VERSION
    names = [path.name for path in original.iterdir()]
    for name in set(names) - shutil.ignore_patterns(*UNWANTED)(str(original), names):
        (library / name).symlink_to(original / name)
    # Debian's Python has another name for it.
    asked = [programs / VERSION, "-c", "import site; print(site.getsitepackages()[-1])"]
    site = Path(subprocess.check_output(asked, text=True).strip())
    site.mkdir(parents=True)
    if not wandb:
        shutil.unpack_archive(_find_pip(), site, "zip")
        return
    for source in {part for name in ("wandb", *packages) for part in _list_parts(name, set())}:
        (site / source.name).symlink_to(source)


@contextmanager
def serve_wheels(host: str, folder: Path, pin: str) -> Iterator[str]:
    """Serve the wheels of a package and of all that it requires as an index; yield its address."""
    command = [sys.executable, "-m", "pip", "download", "--quiet"]
    command += ["--only-binary=:all:", "--dest", str(folder), pin]
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
