"""The image of the real node's pods: a docker-archive with a static shell, made without a build.

It is empty otherwise. The machine's own `/usr`, Python and project are mounted read-only into every
container at the same paths, so the product's manifests run unchanged under any image name.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

FOLDERS = ("usr", "etc", "proc", "sys", "dev", "run", "var", "root", "busybox")
APPLETS = ("sh", "sleep", "cat", "id", "kill", "env", "wget", "nslookup", "ls", "touch")
USERS = b"root:x:0:0::/root:/busybox/sh\nuser:x:1000:1000::/tmp:/busybox/sh\n"
GROUPS = b"root:x:0:\nuser:x:1000:\n"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def build_image(
    path: Path,
    busybox: Path,
    names: Sequence[str],
    folders: Mapping[str, Path] | None = None,
    labels: Mapping[str, str] | None = None,
) -> None:
    """Write the docker-archive under all of these names: 2 MB, and a copy of these folders.

    `folders`: a place in the image to a folder of this machine; `/opt/bin` comes first on PATH.
    """
    layer = _build_layer(busybox, folders or {})
    config = {
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "config": {
            "Cmd": ["/busybox/sleep", "2147483647"],
            "Env": ["PATH=/opt/bin:/usr/local/bin:/usr/bin:/busybox"],
            "Labels": dict(labels or {}),
        },
    }
    config_bytes = json.dumps(config).encode()
    config_name = f"{hashlib.sha256(config_bytes).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": list(names), "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as archive:
        _add_file(archive, config_name, config_bytes)
        _add_file(archive, "layer.tar", layer)
        _add_file(archive, "manifest.json", json.dumps(manifest).encode())


def _build_layer(busybox: Path, folders: Mapping[str, Path]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as layer:
        for folder in FOLDERS:
            _add_entry(layer, folder, tarfile.DIRTYPE, 0o755)
        _add_entry(layer, "tmp", tarfile.DIRTYPE, 0o1777)
        for link in ("bin", "sbin", "lib", "lib64"):  # a merged /usr like Debian's
            _add_entry(layer, link, tarfile.SYMTYPE, 0o777, f"usr/{link}")
        _add_file(layer, "busybox/busybox", busybox.read_bytes(), 0o755)
        for applet in APPLETS:
            _add_entry(layer, f"busybox/{applet}", tarfile.SYMTYPE, 0o777, "busybox")
        _add_file(layer, "etc/passwd", USERS)
        _add_file(layer, "etc/group", GROUPS)
        for executor, source in folders.items():
            layer.add(source, arcname=executor.strip("/"), filter=_for_everybody)
    return content.getvalue()


def _for_everybody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Give a file to root and let every user of the container read it."""
    entry.uid = entry.gid = 0
    entry.mode |= 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry


def _add_entry(tar: tarfile.TarFile, name: str, kind: bytes, mode: int, target: str = "") -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname = kind, mode, target
    tar.addfile(info)


def _add_file(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.mode, info.size = mode, len(content)
    tar.addfile(info, io.BytesIO(content))
