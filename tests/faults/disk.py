"""A small disk that a test can fill and free, a tmpfs, which only root can mount; and a folder
that cannot be written for a while."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

BLOCK_BYTES = 1 << 16


@dataclass(frozen=True)
class SmallDisk:
    """A mounted file system of a few mebibytes."""

    folder: Path

    @property
    def _filler(self) -> Path:
        return self.folder / ".filler"

    def fill(self) -> None:
        """Write until not a byte more fits."""
        for size in (BLOCK_BYTES, 1):
            with self._filler.open("ab", buffering=0) as stream:
                while _fits(stream.fileno(), size):
                    pass

    def free(self) -> None:
        """Give the space back."""
        self._filler.unlink(missing_ok=True)


def _fits(handle: int, size: int) -> bool:
    try:
        return os.write(handle, b"\0" * size) == size
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False


@contextmanager
def small_disk(folder: Path, size_mebibytes: int) -> Iterator[SmallDisk]:
    """Mount a small disk on a folder, made if it is not there, and unmount it at the end.

    Raises PermissionError where the tests do not run as root.
    """
    if os.geteuid() != 0:
        raise PermissionError("a small disk needs root: sudo make test-kubernetes")
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={size_mebibytes}m,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "deployer-test", folder], check=True)
    try:
        yield SmallDisk(folder)
    finally:
        # Lazily: a process that still dies may hold a file of it for a moment.
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """Let nobody write into a folder: by permissions, or for root by a read-only mount."""
    inside = [folder, *(path for path in folder.rglob("*") if not path.is_symlink())]
    modes = {path: path.stat().st_mode for path in inside if path.is_dir() or path.is_file()}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    try:
        with _covered(folder) if os.access(folder, os.W_OK) else nullcontext():
            yield
    finally:
        for path, mode in modes.items():
            with suppress(FileNotFoundError):
                path.chmod(mode)


@contextmanager
def _covered(folder: Path) -> Iterator[None]:
    """Cover a folder with a read-only view of itself; files that are open stay writable."""
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
