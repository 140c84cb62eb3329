"""A pod's archives: supervisor, loader, the project's code, the backend with its packages.

Equal content gives equal bytes. Needs only the standard library: `python3 -m
deployer.images.code_archive supervisor k8s/agent.zip` writes one for use without us.
"""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.machinery import BYTECODE_SUFFIXES, EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

from deployer.errors import ConfigError, DeployerError
from deployer.images.code import GIT_SECONDS
from deployer.waiting import run_program

# A ConfigMap holds 1 MiB; leave some for its other fields.
PART_BYTES = 900 * 1024
# Each start of agents reads all parts from the cluster, and sends them.
MOST_PARTS = 10
BIGGEST_SHOWN = 5
LEFT_OUT_SHOWN = 3
TRACKED = ("--cached", "--recurse-submodules")  # of `git ls-files`
# 2 January 1980: the first day that a zip file can hold in every time zone.
TIME = 315619200
NEVER_PACKED = ("__pycache__", "node_modules", "wandb")
# The first lines run on any Python: an image's version may be unable to parse the rest.
MAIN = """import sys

if sys.version_info < (3, 8):
    found = "%s is Python %s" % (sys.executable, sys.version.split()[0])
    sys.stderr.write("ended with exit code 78: Python 3.8 or newer is needed, and %s\\n" % found)
    sys.exit(78)

from MODULE import main

sys.exit(main())
"""
OURS = (
    *("__init__.py", "errors.py", "installation.py", "model.py", "text.py", "waiting.py"),
    *("analysis", "backend", "page", "sweeps", "wandb_api"),
)
PACKAGES = (
    *("anyio", "click", "graphql", "h11", "prometheus_client"),
    *("starlette", "typing_extensions", "uvicorn", "yaml"),
)
# They fit only one Python on one architecture; packages with such files also work without them.
COMPILED = (*BYTECODE_SUFFIXES, *EXTENSION_SUFFIXES)


def build_supervisor_zip() -> bytes:
    return _build_zip("agent.pod")


def build_loader_zip() -> bytes:
    """Return the data loader as a zip file for Python 3.8 and newer."""
    return _build_zip("loader.handler")


def _build_zip(module: str) -> bytes:
    """Pack the package of one of our modules, whose `main` is the entry point."""
    sources = {"__main__.py": MAIN.replace("MODULE", module).encode()}
    folder = Path(__file__).parents[1] / module.partition(".")[0]
    for path in sorted(folder.rglob("*.py")):
        sources[path.relative_to(folder.parent).as_posix()] = path.read_bytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sources.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def build_code_archive(folder: Path) -> bytes:
    """Return the project's current files as tar.gz: those that git tracks.

    Without git, everything except hidden files and build artifacts. Raises ConfigError if there are
    no files, or if they need more than ten ConfigMaps.
    """
    names = list_files(folder)
    if not names:
        raise ConfigError(f"{folder}", "no code found", "git add your trainer, or `code: image`")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            _add(archive, folder, name)
    code = gzip.compress(packed.getvalue(), mtime=0)
    if len(code) > PART_BYTES * MOST_PARTS:
        raise _too_big(folder, names, len(code))
    return code


def split_archive(code: bytes) -> list[bytes]:
    """Return an archive's parts, each small enough for a ConfigMap; one part if all fits."""
    return [code[start : start + PART_BYTES] for start in range(0, len(code), PART_BYTES)]


def list_files(folder: Path) -> list[str]:
    """Return the sorted paths of a project's files, including those of its submodules."""
    tracked = _ask_git(folder, *TRACKED)
    if tracked:
        names = [name for name in tracked if os.path.lexists(folder / name)]
    elif tracked is not None:  # a repository without tracked files
        names = _ask_git(folder, "--others", "--exclude-standard") or []
    else:
        names = [path.relative_to(folder).as_posix() for path in _walk(folder)]
    # git lists an empty submodule as a folder.
    kept = (name for name in names if not (folder / name).is_dir())
    return sorted(kept)


def list_left_out(folder: Path) -> list[str]:
    """Return files that git neither tracks nor ignores; the user may have forgotten them."""
    if not _ask_git(folder, "--cached"):
        return []
    return _ask_git(folder, "--others", "--exclude-standard") or []


def warn_about_left_out(folder: Path) -> str:
    """Return a warning about files that probably belong in the archive; empty if none."""
    return "; ".join(filter(None, (_describe_untracked(folder), _describe_submodules(folder))))


def _describe_submodules(folder: Path) -> str:
    names = [name for name in _ask_git(folder, *TRACKED) or () if _is_empty_folder(folder / name)]
    if not names:
        return ""
    what = "a submodule that is" if len(names) == 1 else "submodules that are"
    mend = "git submodule update --init --recursive"
    return f"agents do not get the files of {', '.join(names)}, {what} empty here ({mend})"


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def _describe_untracked(folder: Path) -> str:
    names = list_left_out(folder)
    if not names:
        return ""
    more = f" and {len(names) - LEFT_OUT_SHOWN} more" if len(names) > LEFT_OUT_SHOWN else ""
    listed = ", ".join(names[:LEFT_OUT_SHOWN])
    return f"agents do not get what git does not track: {listed}{more} (git add, or .gitignore)"


def _ask_git(folder: Path, *flags: str) -> list[str] | None:
    """Return the output of `git ls-files`; None without git or outside a repository."""
    command = ["git", "ls-files", "-z", *flags]
    try:
        answer = run_program(command, GIT_SECONDS, f"`git ls-files` in {folder}", cwd=folder)
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired as error:
        said = f"git ls-files in {folder} printed nothing for {GIT_SECONDS:.0f} s and was killed"
        raise DeployerError(said, f"cd {folder} && git status") from error
    if answer.returncode:
        return None
    return [os.fsdecode(name) for name in answer.stdout.split(b"\0") if name]


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name.startswith(".") or path.name in NEVER_PACKED:
            continue
        if path.is_dir() and not path.is_symlink():
            if not (path / "pyvenv.cfg").exists():
                yield from _walk(path)
        elif path.is_symlink() or path.is_file():
            yield path


def _add(archive: tarfile.TarFile, folder: Path, name: str) -> None:
    """Add a file or link without machine-specific data: owner, time, most of the mode."""
    path = folder / name
    member = archive.gettarinfo(path, name)
    if member.islnk():  # a hard link to a file that the archive already contains
        member.type, member.linkname, member.size = tarfile.REGTYPE, "", path.stat().st_size
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = TIME
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    if member.isreg():
        with path.open("rb") as content:
            archive.addfile(member, content)
    else:
        archive.addfile(member)


def _too_big(folder: Path, names: Sequence[str], size: int) -> ConfigError:
    sizes = sorted(((folder / name).lstat().st_size, name) for name in names)
    biggest = reversed(sizes[-BIGGEST_SHOWN:])
    listed = ", ".join(f"{name} ({_kib(size)})" for size, name in biggest)
    return ConfigError(
        f"{folder}",
        f"the code is {_kib(size)} packed and {MOST_PARTS} ConfigMaps hold "
        f"{_kib(PART_BYTES * MOST_PARTS)}; its biggest files: {listed}",
        "keep data out of git (git rm --cached FILE) and on a volume (`pvc:`), or build it into "
        "the image: `code: image`",
    )


def _kib(size: int) -> str:
    return f"{max(1, round(size / 1024)):,} KiB"


def main(words: Sequence[str]) -> int:
    """Write the supervisor's zip file, or this folder's code, to a file."""
    if len(words) != 2 or words[0] not in ("supervisor", "code"):
        sys.stderr.write("usage: python3 -m deployer.images.code_archive supervisor|code FILE\n")
        return 2
    what, file = words
    packed = build_supervisor_zip() if what == "supervisor" else build_code_archive(Path())
    Path(file).write_bytes(packed)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))


@cache
def build_backend_archive() -> bytes:
    """Return the sources as tar.gz, from the packages that this process itself uses."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, path in sorted(_list_files()):
            member, content = tarfile.TarInfo(name), path.read_bytes()
            member.size, member.mtime = len(content), TIME
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), compresslevel=6, mtime=0)


def _list_files() -> Iterator[tuple[str, Path]]:
    ours = Path(__file__).parents[1]
    yield from (
        (f"deployer/{name}", path) for top in OURS for name, path in _walk_package(ours, top)
    )
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec
        assert spec.origin
        origin = Path(spec.origin)
        top = origin.parent if spec.submodule_search_locations else origin
        yield from _walk_package(top.parent, top.name)


def _walk_package(folder: Path, top: str) -> Iterator[tuple[str, Path]]:
    for path in (folder / top, *(folder / top).rglob("*")):
        if path.is_file() and not path.name.endswith(COMPILED):
            yield path.relative_to(folder).as_posix(), path
