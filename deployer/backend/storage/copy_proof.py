"""The proof of a copy, sent as its last entry: each file's checksum, and counts of what is in it.

Without it a copy is not whole, wherever the stream ended.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deployer.backend.db.store import DATABASE, read_only
from deployer.errors import BackendError
from deployer.text import format_bytes, format_count

PROOF_FILE = "copy.json"
BLOCK_BYTES = 1 << 20
AGAIN = "type the command again"
COUNTED = {
    "sweep": "sweeps",
    "run": "runs",
    "row": "lines WHERE stream = 'history'",
    "file": "blobs",
}


@dataclass(frozen=True)
class Copied:
    """What a copy holds, as counted in it and found equal to what was sent."""

    counts: Mapping[str, int]
    size_bytes: int

    def describe(self) -> str:
        """Return the counts in words."""
        counts = ", ".join(format_count(count, noun) for noun, count in self.counts.items())
        return f"{counts}, {format_bytes(self.size_bytes)}; checksums and counts agree"


def build_proof(digests: Mapping[str, str], database: Path) -> bytes:
    """Return the proof of files by their names, of which one is the database."""
    return json.dumps({"sha256": digests, "counts": _count(database)}).encode()


def check_copy(folder: Path) -> Copied:
    """Compare a folder with the proof in it, which is then deleted; raises BackendError."""
    proof = folder / PROOF_FILE
    if not proof.exists():
        hint = f"{AGAIN}; a backend of an older deployer sends no proof: deployer backend up first"
        raise BackendError("the copy was cut off", hint)
    sent = json.loads(proof.read_bytes())
    proof.unlink()
    there = dict(_list_digests(folder))
    for name in sorted({*sent["sha256"], *there}):
        if sent["sha256"].get(name) != there.get(name):
            raise BackendError(f"the copy of {name} differs from what was sent", AGAIN)
    counts = _count(folder / DATABASE)
    if counts != sent["counts"]:
        raise BackendError(f"the copy has {counts}, of {sent['counts']}", AGAIN)
    return Copied(counts, sum((folder / name).stat().st_size for name in there))


def _list_digests(folder: Path) -> Iterator[tuple[str, str]]:
    for path in folder.rglob("*"):
        if path.is_file():
            digest = hashlib.sha256()
            with path.open("rb") as stream:
                while block := stream.read(BLOCK_BYTES):
                    digest.update(block)
            yield str(path.relative_to(folder)), digest.hexdigest()


def _count(database: Path) -> dict[str, int]:
    try:
        with read_only(database) as db:
            [[good], *_] = db.execute("PRAGMA quick_check")
            if good != "ok":
                raise BackendError(f"the copy of the database is broken: {good}", AGAIN)
            rows = {
                noun: db.execute(f"SELECT COUNT(*) FROM {where}") for noun, where in COUNTED.items()
            }
            return {noun: int(found.fetchone()[0]) for noun, found in rows.items()}
    except sqlite3.DatabaseError as error:
        raise BackendError(f"the copy of the database is broken: {error}", AGAIN) from error
