"""A part of the real MNIST, small enough for a test, in torchvision's layout."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

RAW = Path("MNIST", "raw")
PARTS = {"train": 4000, "t10k": 1000}  # images of each


def write_mnist_part(source: Path, target: Path) -> None:
    """Write the first images and labels of the data set in `source` into a folder."""
    (target / RAW).mkdir(parents=True)
    for part, count in PARTS.items():
        for kind, header, size in (("images-idx3", 16, 28 * 28), ("labels-idx1", 8, 1)):
            name = RAW / f"{part}-{kind}-ubyte"
            content = gzip.decompress((source / f"{name}.gz").read_bytes())
            counted = content[:4] + struct.pack(">I", count) + content[8:header]
            (target / name).write_bytes(counted + content[header : header + count * size])
