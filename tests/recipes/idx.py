"""A part of the real MNIST, small enough for a test, in torchvision's layout."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Mapping
from pathlib import Path

PARTS = {"train": 4000, "t10k": 1000}  # images of each


def write_mnist_part(
    source: Path, target: Path, name: str = "MNIST", parts: Mapping[str, int] = PARTS
) -> None:
    """Write the first images and labels of the data set in `source` into a folder.

    `name` is torchvision's: MNIST, or FashionMNIST, which has the same layout.
    """
    raw = Path(name, "raw")
    (target / raw).mkdir(parents=True)
    for part, count in parts.items():
        for kind, header, size in (("images-idx3", 16, 28 * 28), ("labels-idx1", 8, 1)):
            file = raw / f"{part}-{kind}-ubyte"
            content = gzip.decompress((source / f"{file}.gz").read_bytes())
            counted = content[:4] + struct.pack(">I", count) + content[8:header]
            (target / file).write_bytes(counted + content[header : header + count * size])
