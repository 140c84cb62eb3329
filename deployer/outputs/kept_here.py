"""The outputs that runs keep in the state folder of this machine: found, measured, deleted."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from deployer.config.paths import outputs_folder
from deployer.data.folder_store import FolderStore
from deployer.data.store import Store
from deployer.data.tree import Entry, check_path

LOG = logging.getLogger(__name__)


class RunFolder(FolderStore):
    """A run's own folder. Links to files are followed, also out of it, as where it is sent.

    Links to folders, or to nothing, are left out.
    """

    def list_entries(self) -> Sequence[Entry]:
        """Return every file."""
        return sorted(self._find_files(), key=lambda entry: entry.path)

    def _find_files(self) -> Iterator[Entry]:
        for inner, _, names in os.walk(self.root):
            for file in (Path(inner, name) for name in names):
                if file.is_file():
                    path = check_path(file.relative_to(self.root).as_posix())
                    found = file.stat()
                    yield Entry(path, found.st_size, tag=f"{found.st_mtime_ns}")

    def describe_links(self) -> Iterator[str]:
        """Say which links were followed out of the folder, and which are left out."""
        root = self.root.resolve()
        for inner, folders, names in os.walk(self.root):
            for link in (Path(inner, name) for name in (*folders, *names)):
                path, leads_to = link.relative_to(self.root), link.resolve()
                if not link.is_symlink():
                    continue
                if not link.is_file():
                    what = "a folder" if link.is_dir() else "nothing"
                    yield f"{path} is skipped: it is a link to {what} ({os.readlink(link)})"
                elif not leads_to.is_relative_to(root):
                    yield f"{path} is a copy of {leads_to}, to which it is a link"


def open_run_here(sweep_id: str, run_id: str) -> Store:
    """Return what a run on this machine has written, and say what becomes of its links."""
    found = RunFolder(_folder_of(sweep_id) / check_path(run_id))
    for line in found.describe_links():
        LOG.info(f"run {run_id}: {line}")
    return found


def measure_here(sweep_id: str) -> int:
    """Return how many bytes a sweep's runs have written on this machine."""
    found = (path.lstat() for path in _folder_of(sweep_id).rglob("*") if path.is_file())
    return sum(one.st_size for one in found)


def delete_here(sweep_id: str) -> bool:
    """Delete what a sweep's runs have written on this machine; tells whether there was a folder."""
    folder = _folder_of(sweep_id)
    if not folder.is_dir():
        return False
    shutil.rmtree(folder)
    return True


def _folder_of(sweep_id: str) -> Path:
    return outputs_folder() / check_path(sweep_id)
