"""Where a data set of deployer.yaml is kept, and where it is on this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from deployer.config import paths
from deployer.config.sections.data import DataSet
from deployer.data.addresses import open_address
from deployer.data.archive import is_archive
from deployer.data.folder_store import FolderStore
from deployer.data.store import Store
from deployer.errors import DataError


def find_place(data: DataSet, folder: Path) -> Path:
    """Return the folder of this machine where runs see a data set; `folder` has deployer.yaml.

    What is kept elsewhere has a copy in the state folder: one for each address, and of what is in a
    cluster one for each project.
    """
    if data.folder is not None:
        return (folder / Path(data.folder).expanduser()).absolute()
    origin = [data.url, data.endpoint_url or ""] if data.url else [str(folder), data.name]
    told_apart = hashlib.sha256("\0".join(map(str, origin)).encode()).hexdigest()[:8]
    return paths.data_folder() / f"{data.name}-{told_apart}"


def open_kept(
    data: DataSet, folder: Path, credentials: Mapping[str, str] | None = None
) -> Store | None:
    """Return where a data set is kept outside of any cluster; None if it is in one.

    `credentials` are for an object store, in place of this machine's own.
    """
    if data.url:
        return open_address(find_root(data), data.endpoint_url, credentials)
    if data.folder is not None:
        return FolderStore(find_place(data, folder))
    return None


def find_root(data: DataSet) -> str:
    """Return the address of the folder: that of an archive lies in one."""
    url = data.url or ""
    return url.rpartition("/")[0] if find_archive(data) else url


def find_archive(data: DataSet) -> str:
    """Return the name of the one archive that a data set is kept as; else empty."""
    path = (data.url or "").split("://")[-1].partition("/")[2]
    name = path.rpartition("/")[2]
    return name if is_archive(name) else ""


def check_here(data: DataSet, folder: Path) -> None:
    """Refuse a data set that is not on this machine, or not whole; raises DataError."""
    place = find_place(data, folder)
    verb = "preload" if data.url else "put SOURCE"
    hint = f"deployer data {verb} {data.name}"
    if FolderStore(place).is_unfinished():
        raise DataError(f"data set {data.name}: the copy to {place} was broken off", hint)
    if not place.is_dir() or not any(place.iterdir()):
        raise DataError(f"data set {data.name} is not on this machine: {place} is empty", hint)
