"""Archives for tests, good ones and hostile ones."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path


def write_tar(
    archive: Path, files: Mapping[str, bytes], *special: tarfile.TarInfo, mode: str = "w:gz"
) -> Path:
    """Write a tar with these files, then with members that have no content."""
    with tarfile.open(archive, mode) as opened:  # type: ignore[call-overload]
        for name, held in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(held)
            opened.addfile(info, io.BytesIO(held))
        for info in special:
            opened.addfile(info)
    return archive


def build_special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """Return a member without content: a link, a device, a pipe."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def write_zip(archive: Path, files: Mapping[str, bytes], links: Mapping[str, str] = {}) -> Path:
    """Write a zip with these files and symbolic links."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, held in files.items():
            opened.writestr(zipfile.ZipInfo(name), held, zipfile.ZIP_DEFLATED)
        for name, target in links.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = 0o120777 << 16
            opened.writestr(info, target)
    return archive
