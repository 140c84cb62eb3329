"""What `deployer data delete` deletes of a data set, and what it refuses to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from deployer.config.project import Project
from deployer.data.places import find_archive, find_place, open_kept
from deployer.data.store import Store
from deployer.errors import DataError
from deployer.executors.base import Executor, KeepsData
from deployer.executors.registry import find_executor
from deployer.launch.data.data_sets import describe_kept, find_keeper, is_place

if TYPE_CHECKING:
    from deployer.config.sections.data import DataSet


def check_deletable(project: Project, data: DataSet, everywhere: bool) -> None:
    """Refuse to delete a folder that is not there, holds more than a data set, or is a link.

    Raises DataError.
    """
    executor, place = find_executor(project), Path(find_place(data, project.folder))
    if executor.runs_here and not everywhere and not os.path.lexists(place):
        raise _refuse_nothing(executor, data, everywhere)
    if data.folder is None or not (everywhere or executor.runs_here):
        return
    more = (project.folder, Path(project.environment.get("HOME") or "/"))
    if any(one.resolve().is_relative_to(place.resolve()) for one in more):
        said = f"data set {data.name}: {place} holds more than the data set"
        raise DataError(said, f"delete the files yourself, or give {data.name} another folder")
    if place.is_symlink():
        said = f"data set {data.name}: {place} is a link to {place.resolve()}"
        raise DataError(said, "delete the link or its target yourself")


def describe_deletion(project: Project, data: DataSet, everywhere: bool) -> str:
    """Name what `delete` would delete."""
    executor = find_executor(project)
    seen = f"what runs on {executor.name} see of data set {data.name}"
    if is_place(executor, data):
        return f"data set {data.name}, the folder {find_place(data, project.folder)}"
    if data.claim or data.nfs:
        return f"{seen}, for good"
    return f"{seen}, and all of it in {describe_kept(data)}" if everywhere else seen


def delete(project: Project, data: DataSet, everywhere: bool) -> None:
    """Delete what runs see; with `everywhere` also what is kept elsewhere.

    Raises DataError if there was nothing.
    """
    executor = find_keeper(project)
    found = _delete_place(executor, data)
    credentials = executor.read_credentials(data)
    kept = open_kept(data, project.folder, credentials) if everywhere else None
    if kept is not None and not is_place(executor, data):
        with kept:
            found = _delete_kept(kept, data) or found
    if not found:
        raise _refuse_nothing(executor, data, everywhere)


def _delete_place(executor: KeepsData, data: DataSet) -> bool:
    """Delete what runs see; tell whether there was anything."""
    try:
        return executor.delete_data(data)
    except DataError as error:
        if not error.missing:
            raise
        return False


def _delete_kept(kept: Store, data: DataSet) -> bool:
    """Delete what is kept elsewhere; tell whether there was anything."""
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
        f"data set {data.name} was not found{place}: deleted nothing",
        f"deployer data list{executor.project.on_option} lists the data sets{more}",
    )
