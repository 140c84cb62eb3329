"""Which sweeps this user created from which project folder: one small JSON file for each.

A record is written before its sweep is made, so that a second try after any failure asks the
server for the same sweep again (`mutation_id`) and makes no other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from deployer.config.paths import sweeps_folder


@dataclass(frozen=True)
class SweepRecord:
    """One sweep; `sweep_path` is empty until it is known that the server has created it.

    `server` is `embedded` or a base URL; `created_at`, and `continued_at` if `up` went on with it,
    are in seconds since the epoch. `on` is where its agents were started last, empty before that;
    `backend_on` is the `--on` of the cluster in which the embedded backend is, `cluster` that
    cluster's id; both are empty for this machine. `data` is the folder that it was copied to before
    its cluster was deleted. `commit` is that of its
    code, if it is from git: agents that join later run the same. `packing` is what was measured of
    how many agents share a GPU.
    """

    mutation_id: str
    sweep_path: str
    server: str
    base_url: str
    folder: str
    file: str
    content_hash: str
    created_at: float
    on: str = ""
    continued_at: float = 0.0
    backend_on: str = ""
    commit: str = ""
    data: str = ""
    packing: dict[str, Any] = field(default_factory=dict)
    cluster: str = ""


def load_records(folder: Path | None = None) -> tuple[SweepRecord, ...]:
    """Return the records of one project folder, or of all; the one of the last `up` comes first."""
    found = []
    for path in sweeps_folder().glob("*.json"):
        try:
            found.append(SweepRecord(**json.loads(path.read_text(encoding="utf-8"))))
        except (OSError, ValueError, TypeError):
            continue  # half-written or of another version: it only means a path must be named
    kept = [r for r in found if folder is None or r.folder == str(folder)]
    return tuple(sorted(kept, key=lambda r: max(r.created_at, r.continued_at), reverse=True))


def load_records_of(file: Path) -> tuple[SweepRecord, ...]:
    """Return the records of the sweeps that were made from a file, the newest first."""
    path = _resolve(file)
    return tuple(r for r in load_records() if _resolve(Path(r.folder, r.file)) == path)


def _resolve(path: Path) -> Path:
    with suppress(ValueError):  # the locale may not express a folder's name
        return path.resolve()
    return path


def save_record(record: SweepRecord) -> None:
    """Write a record atomically."""
    folder = sweeps_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{record.mutation_id}.json"
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps(asdict(record), indent=1) + "\n", encoding="utf-8")
    draft.replace(path)


def remember_executor(sweep_path: str, on: str) -> None:
    """Note where a sweep's agents are, so that later commands look for them there."""
    for record in load_records():
        if record.sweep_path == sweep_path and record.on != on:
            save_record(replace(record, on=on))


def find_commit(sweep_path: str) -> str:
    """Return the commit of a sweep's code; empty where it is none, or is not known."""
    found = (r.commit for r in load_records() if r.sweep_path == sweep_path and r.commit)
    return next(found, "")


def remember_packing(sweep_path: str, packing: dict[str, Any]) -> None:
    """Note what was measured of how many of a sweep's agents share a GPU."""
    for record in load_records():
        if record.sweep_path == sweep_path:
            save_record(replace(record, packing=packing))


def find_packing(sweep_path: str) -> dict[str, Any]:
    """Return what `remember_packing` noted; empty if nothing was."""
    found = (r.packing for r in load_records() if r.sweep_path == sweep_path and r.packing)
    return next(found, {})


def remember_copy(cluster: str, base_url: str, data: Path) -> None:
    """Note that the sweeps of a cluster's embedded backend are in a folder of this machine now."""
    for record in load_records():
        if (record.cluster, record.base_url) == (cluster, base_url):
            save_record(replace(record, on="", backend_on="", cluster="", data=str(data)))


def delete_records(wanted: Callable[[SweepRecord], bool]) -> None:
    """Forget the sweeps whose records are wanted, from whichever folder they were made."""
    for record in filter(wanted, load_records()):
        delete_record(record)


def delete_record(record: SweepRecord) -> None:
    """Delete the record of a sweep that no longer exists on its server."""
    (sweeps_folder() / f"{record.mutation_id}.json").unlink(missing_ok=True)
