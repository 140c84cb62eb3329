"""What tests of every store share: a tree of files, and what is in one."""

from __future__ import annotations

import random
from pathlib import Path

from deployer.data.store import Store

TREE = {"labels.csv": 300, "train/a.bin": 1_300_000, "train/b.bin": 4_000_000, "train/empty": 0}


def make_tree(folder: Path, sizes: dict[str, int] | None = None, seed: int = 1) -> dict[str, bytes]:
    """Write files of these sizes below a folder, and return what they hold."""
    draw = random.Random(seed)
    content = {path: draw.randbytes(size) for path, size in (sizes or TREE).items()}
    for path, held in content.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(held)
    return content


def read_tree(store: Store) -> dict[str, bytes]:
    """Return what every file of a store holds."""
    return {entry.path: b"".join(store.read(entry.path)) for entry in store.list_entries()}
