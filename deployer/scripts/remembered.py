"""Reports of scripts that were checked, kept until anything that they depend on has changed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deployer.scripts.rehearsal_run import PACKAGE


def build_key(*parts: object) -> str:
    """Return a name for a sweep, its script and its interpreter."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def take_stamps(files: Iterable[str]) -> dict[str, str]:
    """Return for each file or folder what tells whether it has changed."""
    return {file: _take_stamp(Path(file)) for file in files}


def load(folder: Path, key: str) -> Mapping[str, Any] | None:
    """Return what is remembered, None if it is not or if a file has changed."""
    try:
        kept = json.loads((folder / f"{key}.json").read_text(encoding="utf-8"))
        stamps: Mapping[str, str] = kept["stamps"]
        report: Mapping[str, Any] = kept["report"]
    except (OSError, ValueError, KeyError):
        return None
    return report if take_stamps(stamps) == stamps else None


def save(folder: Path, key: str, files: Sequence[str], report: Mapping[str, Any]) -> None:
    """Remember a report as long as these files stay as they are; a full disk is no matter."""
    text = json.dumps({"stamps": take_stamps(files), "report": report})
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = folder / f"{key}.{os.getpid()}.new"
        new.write_text(text, encoding="utf-8")
        new.replace(folder / f"{key}.json")


def list_own_files() -> list[str]:
    """Return the files of the check itself: another version of it asks again."""
    return [str(path) for path in sorted([*PACKAGE.glob("*.py"), *PACKAGE.parent.glob("*.py")])]


def _take_stamp(path: Path) -> str:
    """Return a file's content as a hash; of a folder, and of an interpreter, when it changed."""
    try:
        if path.suffix == ".py":
            return hashlib.sha256(path.read_bytes()).hexdigest()
        return str(path.stat().st_mtime_ns)
    except OSError:
        return ""
