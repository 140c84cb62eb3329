"""The backend's server and the packages it imports, as one archive for any Python from 3.11 on."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from functools import cache
from importlib.machinery import BYTECODE_SUFFIXES, EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

from deployer.images.code_archive import TIME

OURS = (
    *("__init__.py", "errors.py", "findings.py", "installation.py", "model.py", "text.py"),
    *("transience.py", "waiting.py"),
    *("analysis", "backend", "page", "sweeps", "wandb_api"),
)
PACKAGES = (
    *("anyio", "click", "graphql", "h11", "prometheus_client"),
    *("starlette", "typing_extensions", "uvicorn", "yaml"),
)
# They fit one Python on one architecture; a package that has them does without.
COMPILED = (*BYTECODE_SUFFIXES, *EXTENSION_SUFFIXES)


@cache
def build_backend_archive() -> bytes:
    """Return the sources as tar.gz, from the packages that this process uses itself."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, path in sorted(_list_files()):
            member, content = tarfile.TarInfo(name), path.read_bytes()
            member.size, member.mtime = len(content), TIME
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), compresslevel=6, mtime=0)


def _list_files() -> Iterator[tuple[str, Path]]:
    ours = Path(__file__).parents[1]
    yield from ((f"deployer/{name}", path) for top in OURS for name, path in _walk(ours, top))
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec
        assert spec.origin
        origin = Path(spec.origin)
        top = origin.parent if spec.submodule_search_locations else origin
        yield from _walk(top.parent, top.name)


def _walk(folder: Path, top: str) -> Iterator[tuple[str, Path]]:
    for path in (folder / top, *(folder / top).rglob("*")):
        if path.is_file() and not path.name.endswith(COMPILED):
            yield path.relative_to(folder).as_posix(), path
