"""Where lock files are: beside the sweep's file, and for each sweep in the state folder."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from deployer.config.paths import locks_folder
from deployer.config.user_file import MOST_BYTES, read_user_text
from deployer.errors import ConfigError
from deployer.images.code_archive import LOCK_END, begins_as_lock_file
from deployer.kube.names import build_name
from deployer.launch.lock.content import Lock, parse_lock

LOCK_BYTES = 4 * MOST_BYTES  # a sweep, and what else is in its lock file


def name_lock(file: Path) -> Path:
    """Return the lock file of a sweep's file: `sweep.lock.yaml` of `sweep.yaml`."""
    return file.parent / f"{file.stem}{LOCK_END}"


def check_lock_place(place: Path | None) -> None:
    """Refuse a file that is no lock file; raises ConfigError."""
    if place is not None and place.exists() and not begins_as_lock_file(place):
        said = "there is such a file, and it is no lock file"
        name = shlex.quote(str(place))
        raise ConfigError(str(place), said, f"give it another name: mv {name} {name}.other")


def load_lock(path: Path) -> Lock:
    """Read a lock file; raises ConfigError."""
    try:
        return parse_lock(read_user_text(path, most_bytes=LOCK_BYTES), str(path))
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), "is broken: it is no text", "git checkout the file") from error
    except OSError as error:
        said = f"cannot be read: {(error.strerror or str(error)).lower()}"
        raise ConfigError(str(path), said, f"ls -l {path}") from error


def find_kept(sweep_path: str, server: str) -> Path | None:
    """Return this user's own copy of a sweep's lock file; None if there is none."""
    path = _kept(sweep_path, server)
    return path if path.is_file() else None


def keep_lock(text: str, sweep_path: str, server: str) -> None:
    """Write this user's own copy, which stays when another sweep's lock file takes the place."""
    path = _kept(sweep_path, server)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(path, text)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that nobody sees half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def _kept(sweep_path: str, server: str) -> Path:
    return locks_folder() / f"{build_name(f'{server} {sweep_path}')}{LOCK_END}"
