"""The data sets of a project: upload, preload, delete.

A set with an address or a local folder is kept there; any other is kept where runs see it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deployer.config.project import Project
from deployer.data.archive import is_like
from deployer.data.copy import CopyResult, Progress, copy
from deployer.data.folder_store import FolderStore
from deployer.data.sources import (
    FileStore,
    find_archive,
    find_place,
    open_kept,
    open_source,
    preload,
)
from deployer.data.store import Entry, Store
from deployer.errors import ConfigError, DataError, Refusals
from deployer.executors.base import DataPlaces, Executor
from deployer.executors.registry import find_executor

if TYPE_CHECKING:
    from deployer.config.data import DataSet


EXAMPLE = "data: {path: /data, folder: data} in deployer.yaml"


@dataclass(frozen=True)
class Transfer:
    """A finished copy, with source and target; `copied` is None if nothing had to be copied."""

    name: str
    origin: str
    target: str
    copied: CopyResult | None


@dataclass(frozen=True)
class Listing:
    """A data set where runs see it; `state` is `whole`, `unfinished`, `missing`, or an error."""

    name: str
    kept_in: str
    place: str
    files: int
    size_bytes: int
    state: str


def find_data(project: Project, name: str | None) -> DataSet:
    """Return the data set of that name, or the only one without a name; raises ConfigError."""
    sets = project.data
    if not sets:
        raise ConfigError("deployer.yaml: data", "it has no data set", EXAMPLE)
    if name is None:
        if len(sets) == 1:
            return sets[0]
        names = ", ".join(data.name for data in sets)
        raise ConfigError("NAME", "deployer.yaml has several data sets", f"name one of: {names}")
    for data in sets:
        if data.name == name:
            return data
    names = ", ".join(data.name for data in sets)
    raise ConfigError("NAME", f"data set '{name}' not found", f"one of: {names}")


def put(
    project: Project,
    data: DataSet,
    source: str,
    progress: Progress,
    unpacked: bool,
    overwrite: bool = False,
) -> Transfer:
    """Copy a folder, a file, an archive's content or an address to the data set's location.

    Only `overwrite` replaces files with other content. Raises DeployerError.
    """
    archive = find_archive(data)
    with open_source(source, archive, unpacked and data.unpack and not archive) as origin:
        entries = origin.list_entries()
        if not entries:
            raise DataError(f"{source}: is empty", "name the source of the data")
        if archive and [entry.path for entry in entries] != [archive]:
            said = f"data set {data.name} is a single archive: {data.url}"
            raise DataError(said, f"pack it first: deployer data put {archive} {data.name}")
        if archive and data.unpack and isinstance(origin, FileStore):
            check_kind(origin, archive)
        size_bytes = sum(entry.size_bytes for entry in entries)
        with _open_kept(project, data, size_bytes) as target:
            check_disjoint(origin, target)
            copied = copy(origin, target, progress, entries, overwrite=overwrite)
            return Transfer(data.name, source, str(target), copied)


def get(
    project: Project,
    data: DataSet,
    folder: Path,
    progress: Progress,
    overwrite: bool = False,
) -> Transfer:
    """Copy a data set from its location to a local folder; see `put`."""
    with _open_kept(project, data) as origin:
        target = FolderStore(folder)
        check_disjoint(origin, target)
        kept = _list_kept(origin, data)
        copied = copy(origin, target, progress, kept, overwrite=overwrite)
        return Transfer(data.name, str(origin), str(target), copied)


def bring(project: Project, data: DataSet, progress: Progress) -> Transfer:
    """Copy a data set from its location to where runs see it, if that differs."""
    executor, places = find_keeper(project)
    kept = open_kept(data, project.folder, places.read_credentials(data))
    if kept is None or is_place(executor, data):
        place = "in a cluster" if data.claim or data.nfs else "on this machine"
        said = f"data set {data.name} is already {place}, where runs see it"
        raise ConfigError("deployer data preload", said, _hint(data))
    with kept:
        found = _list_kept(kept, data)
        size_bytes = sum(entry.size_bytes for entry in found)
        with places.open(data, size_bytes) as place_store:
            archive = find_archive(data) if data.unpack else ""
            copied = preload(kept, found, place_store, archive, progress)
            return Transfer(data.name, str(kept), str(place_store), copied)


def find_keeper(project: Project) -> tuple[Executor, DataPlaces]:
    """Return the agents' executor and its data sets; raises ConfigError if runs see none."""
    executor = find_executor(project)
    if executor.data:
        return executor, executor.data
    said = f"{executor.name} does not keep data sets"
    raise ConfigError("--on", said, "--on local or --on kubernetes")


def find_elsewhere(project: Project) -> list[DataSet]:
    """Return the data sets that must be copied to where runs see them; raises ConfigError."""
    executor, _ = find_keeper(project)
    found = [
        data
        for data in project.data
        if data.url or (data.folder is not None and not is_place(executor, data))
    ]
    if not found:
        raise ConfigError(
            "deployer.yaml: data",
            "all data sets are already where runs see them",
            "deployer data put SOURCE NAME",
        )
    return found


def list_places(project: Project, refusals: Refusals) -> Iterator[Listing]:
    """Yield each data set as runs see it; for an unreadable one with the reason.

    Its error is noted in `refusals`.
    """
    _, places = find_keeper(project)
    for data in project.data:
        kept_in = describe_kept(data)
        try:
            with places.open(data) as place:
                entries = place.list_entries()
                whole = "whole" if entries else "missing"
                yield Listing(
                    name=data.name,
                    kept_in=kept_in,
                    place=str(place),
                    files=len(entries),
                    size_bytes=sum(entry.size_bytes for entry in entries),
                    state="unfinished" if place.is_unfinished() else whole,
                )
        except DataError as error:
            if not error.missing:
                with refusals.noted():
                    raise
            state = "missing" if error.missing else error.message
            yield Listing(data.name, kept_in, "", 0, 0, state)


def _list_kept(kept: Store, data: DataSet) -> Sequence[Entry]:
    """Return a data set's files at its location; raises DataError unless it is complete."""
    check_complete(kept, data.name)
    archive = find_archive(data)
    found = [entry for entry in kept.list_entries() if archive in ("", entry.path)]
    if not found:
        raise DataError(f"data set {data.name}: {data.url or kept} is empty", _hint(data))
    return found


def check_complete(store: Store, name: str) -> None:
    """Raise DataError if the source is an unfinished copy."""
    if store.is_unfinished():
        said = f"data set {name}: a copy to {store} is running or was interrupted"
        raise DataError(said, f"deployer data put SOURCE {name}, with the same SOURCE")


def check_kind(source: FileStore, archive: str) -> None:
    """Raise DataError if an archive's name is given to a file that cannot be unpacked."""
    if not is_like(source.file, archive):
        said = f"{source} is not an archive like {archive}"
        raise DataError(said, "pack it in that format, or correct `url:` in deployer.yaml")


def check_disjoint(source: Store, target: Store) -> None:
    """Raise DataError if the target is inside the copied folder."""
    if isinstance(source, FolderStore) and isinstance(target, FolderStore):
        inside, outer = target.root.resolve(), source.root.resolve()
        if not isinstance(source, FileStore) and inside != outer and inside.is_relative_to(outer):
            said = f"{target} is inside {source}, and would be copied into itself"
            raise DataError(said, "choose a folder outside it")


def describe_kept(data: DataSet) -> str:
    if data.nfs:
        return f"nfs {data.nfs.server}:{data.nfs.path}"
    value = getattr(data, data.source)
    return str(value) if data.source == "url" else f"{data.source} {value}"


def is_place(executor: Executor, data: DataSet) -> bool:
    """Return True if runs see a data set directly at its location."""
    return data.folder is not None and executor.runs_here


@contextmanager
def _open_kept(project: Project, data: DataSet, size_bytes: int | None = None) -> Iterator[Store]:
    _, places = find_keeper(project)
    store = open_kept(data, project.folder, places.read_credentials(data))
    if store is None:
        store = places.open(data, size_bytes)
    with store:
        yield store


def _hint(data: DataSet) -> str:
    return f"deployer data put SOURCE {data.name}"


def check_deletable(project: Project, data: DataSet, everywhere: bool) -> None:
    """Reject deleting a folder that is missing, is a link, or holds more than a data set.

    Raises DataError.
    """
    executor, place = find_executor(project), Path(find_place(data, project.folder))
    if executor.runs_here and not everywhere and not os.path.lexists(place):
        raise _refuse_nothing(executor, data, everywhere)
    if data.folder is None or not (everywhere or executor.runs_here):
        return
    more = (project.folder, Path(project.environment.get("HOME") or "/"))
    if any(one.resolve().is_relative_to(place.resolve()) for one in more):
        said = f"data set {data.name}: {place} also holds other files"
        raise DataError(said, f"delete the files yourself, or give {data.name} another folder")
    if place.is_symlink():
        said = f"data set {data.name}: {place} is a link to {place.resolve()}"
        raise DataError(said, "delete the link or its target yourself")


def describe_deletion(project: Project, data: DataSet, everywhere: bool) -> str:
    executor = find_executor(project)
    seen = f"the files of data set {data.name} that runs on {executor.name} see"
    if is_place(executor, data):
        return f"data set {data.name}, the folder {find_place(data, project.folder)}"
    if data.claim or data.nfs:
        return f"{seen}, permanently"
    return f"{seen}, and all of it in {describe_kept(data)}" if everywhere else seen


def delete(project: Project, data: DataSet, everywhere: bool) -> None:
    """Delete what runs see; with `everywhere` also the copy kept elsewhere.

    Raises DataError if nothing exists.
    """
    executor, places = find_keeper(project)
    found = _delete_place(places, data)
    credentials = places.read_credentials(data)
    kept = open_kept(data, project.folder, credentials) if everywhere else None
    if kept is not None and not is_place(executor, data):
        with kept:
            found = _delete_kept(kept, data) or found
    if not found:
        raise _refuse_nothing(executor, data, everywhere)


def _delete_place(places: DataPlaces, data: DataSet) -> bool:
    """Delete what runs see; return True if anything existed."""
    try:
        return places.delete(data)
    except DataError as error:
        if not error.missing:
            raise
        return False


def _delete_kept(kept: Store, data: DataSet) -> bool:
    """Delete the copy kept elsewhere; return True if anything existed."""
    archive = find_archive(data)
    if not archive:
        return kept.delete_all()
    found = any(entry.path == archive for entry in kept.list_entries())
    kept.delete(archive)
    return found


def _refuse_nothing(executor: Executor, data: DataSet, everywhere: bool) -> DataError:
    place = "" if everywhere else f" where runs on {executor.name} see it"
    kept = data.url and not everywhere
    more = f"; --kept also deletes {data.url}" if kept else ""
    return DataError(
        f"data set {data.name} was not found{place}; nothing was deleted",
        f"deployer data list{executor.project.on_option} lists the data sets{more}",
    )
