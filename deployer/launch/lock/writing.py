"""Writes a sweep's lock file before its agents start."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from deployer.config import paths
from deployer.config.project import Project
from deployer.errors import DeployerError
from deployer.executors.base import Executor
from deployer.images.code_state import DIGITS, read_state
from deployer.launch.lock.content import (
    DataState,
    Lock,
    dump_lock,
    find_image,
    find_sweep,
    list_manifests,
)
from deployer.launch.lock.file import find_kept, keep_lock, write_whole
from deployer.launch.request import Request
from deployer.launch.session import Session
from deployer.model import Plan

if TYPE_CHECKING:  # its classes take long to make, and most projects name no data
    from deployer.config.sections.data import DataSet

LOG = logging.getLogger(__name__)

# Larger data sets are known by their files' names and sizes: reading them would take minutes.
MOST_READ_BYTES = 1 << 30
MOST_LISTED = 200  # the files of a larger one have no lines of their own in the lock file


def write_lock(session: Session, request: Request, plan: Plan) -> None:
    """Write the lock file beside the sweep's file; a sweep that goes on keeps its first one.

    What it held of another sweep stays in the state folder. Trouble is told, and stops nothing.
    """
    place, path = request.lock, session.sweep_path
    if place is None and not request.words:
        return
    try:
        text = _find_text(session, request, plan)
        if place is None:
            return
        there = place.read_text(encoding="utf-8", errors="replace") if place.exists() else ""
        if (other := find_sweep(there)) not in ("", path):
            LOG.info(f"{place} was {other}'s: deployer reproduce best {other} still knows it")
        write_whole(place, text)
    except (DeployerError, OSError) as error:
        LOG.warning(f"no lock file {place or path}: {error}")
    else:
        LOG.info(f"lock file: {place}")


def describe_data(data: DataSet, folder: Path, *, runs_here: bool) -> DataState:
    """Return a data set's address, and what is in it where it is on this machine.

    `folder` has deployer.yaml; with `runs_here`, runs see a copy on this machine.
    """
    nfs = f"{data.nfs.server}:{data.nfs.path}" if data.nfs else ""
    address = data.folder or data.claim or data.url or nfs
    if not runs_here and data.folder is None:
        return DataState(data.name, address)
    from deployer.data.folder_store import FolderStore
    from deployer.data.places import find_place

    store = FolderStore(find_place(data, folder), links_out=True)
    entries = store.list_entries()
    size = sum(entry.size_bytes for entry in entries)
    digest = hashlib.sha256()
    listed: dict[str, str] = {}
    for entry in entries:
        content = store.checksum(entry.path) if size <= MOST_READ_BYTES else entry.size_bytes
        digest.update(f"{entry.path}\0{content}\0".encode())
        listed[entry.path] = str(content)[:DIGITS]
    named = listed if len(entries) <= MOST_LISTED else {}
    return DataState(data.name, address, len(entries), size, digest.hexdigest(), named)


def list_apart(project: Project, file: Path) -> tuple[Path, ...]:
    """Return what may lie in the project's folder and is no part of its code.

    Data sets are known by themselves, the sweep is in the lock file, and the state folder is ours.
    """
    folders = [Path(one.folder).expanduser() for one in project.data if one.folder is not None]
    return (*(project.folder / one for one in folders), project.folder / file, paths.home())


def list_data(executor: Executor) -> tuple[DataState, ...]:
    """Return what is known of the data sets that a project's runs see."""
    project, here = executor.project, executor.runs_here
    return tuple(describe_data(one, project.folder, runs_here=here) for one in project.data)


def _find_text(session: Session, request: Request, plan: Plan) -> str:
    """Return the lock file that the sweep has already, else a new one, which is kept, too."""
    path, server = session.sweep_path, session.server
    if kept := find_kept(path, server.name):
        return kept.read_text(encoding="utf-8")
    lock = _build(session, request, plan)
    if lock.code.left_out:
        what = "what is not in git" if lock.code.commit else "the code"
        LOG.warning(f"the lock file lacks {what}: it {lock.code.left_out}")
    text = dump_lock(lock)
    keep_lock(text, path, server.name)
    return text


def _build(session: Session, request: Request, plan: Plan) -> Lock:
    project, executor, server = session.project, session.executor, session.server
    key = "" if server.extended else server.client.key  # the name of its Secret follows from it
    manifests = list_manifests(executor.preview(plan, {agent.name: key for agent in plan.agents}))
    return Lock(
        sweep=session.sweep_path,
        server=server.name,
        file=str(request.file),
        on=executor.name,
        config=request.sweep.config,
        seeds=request.draws.keys,
        code=read_state(project.code, project.environment, list_apart(project, request.file)),
        image=find_image(manifests),
        surroundings=executor.read_surroundings(),
        data=list_data(executor),
        manifests=manifests,
    )
