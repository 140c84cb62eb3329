"""How long many small files take through a data loader: together, and one by one."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from deployer.data.copy import copy
from deployer.data.folder_store import FolderStore
from tests.bench.figures import Figure, compare
from tests.data.stores import make_tree
from tests.loader.loader import open_volume

FILES = 10_000
SIZE_BYTES = 1000
ROUNDS = 1


def bench_small_files(folder: Path) -> list[Figure]:
    """Compare the two ways to a volume, without a cluster in between."""
    make_tree(folder / "from", {f"{one % 100}/{one}": SIZE_BYTES for one in range(FILES)})
    numbers = itertools.count()

    def put(together: bool) -> Callable[[], float]:
        return lambda: _put(folder, f"volume-{next(numbers)}", together)

    name = f"{FILES} files of {SIZE_BYTES} B to a loader"
    return [compare(name, 0.5, ROUNDS, put(True), put(False))]


def _put(folder: Path, name: str, together: bool) -> float:
    root = folder / name / "root"
    root.mkdir(parents=True)
    with open_volume(root) as volume:
        volume.batches = together
        began = time.monotonic()
        copy(FolderStore(folder / "from"), volume)
        took = time.monotonic() - began
    shutil.rmtree(root)
    return took
