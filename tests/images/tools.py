"""Debian's buildah and docker-registry, and a small root file system with Python to build on."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
import tarfile
from pathlib import Path

from tests.cluster.control_plane.packages import find_packages

BUILDAH = (
    *("buildah", "patchelf", "libgpgme11", "libassuan0", "libgpg-error0"),
    *("libseccomp2", "libdevmapper1.02.1"),
)
# What Debian's Python and pip need; which libraries those are differs between releases.
BASE = ("python3", "python3-pip", "libstdc++6", "busybox-static")
WITHOUT = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
# pip only recommends these, and perl and debconf only set packages up.
UNWANTED = ("perl", "libperl", "debconf", "cdebconf", "dpkg", "libdebian", "libnewt", "libslang")


def find_registry() -> Path:
    """Return Debian's docker-registry; needs no root."""
    return find_packages("registry", ("docker-registry",)) / "usr/bin/docker-registry"


def find_buildah() -> Path:
    """Return Debian's buildah, with its libraries; builds need root."""
    return find_packages("buildah", BUILDAH, _set_library_path) / "usr/bin/buildah"


@functools.cache
def find_base() -> Path:
    """Return a tar file with the root file system of a machine that has Python and pip."""
    return find_packages("base", _list_dependencies(), _pack) / "root.tar"


def _set_library_path(unpacked: Path, place: Path) -> None:
    """Write the libraries' path into buildah, which starts itself without an environment."""
    libraries = place / "usr/lib" / f"{platform.machine()}-linux-gnu"
    patch = [unpacked / "usr/bin/patchelf", "--set-rpath", libraries, unpacked / "usr/bin/buildah"]
    subprocess.run(patch, check=True)


def _list_dependencies() -> tuple[str, ...]:
    flags = [f"--no-{one}" for one in WITHOUT]
    command = ["apt-cache", "depends", "--recurse", *flags, *BASE]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {line for line in said.splitlines() if line[:1].isalnum()}
    return tuple(sorted(name for name in names if not name.startswith(UNWANTED)))


def _pack(unpacked: Path, _place: Path) -> None:
    """Turn the unpacked packages into a machine: a shell, users, and a tar file of it all."""
    for folder in ("bin", "sbin", "lib", "lib64"):  # a merged /usr
        (unpacked / "usr" / folder).mkdir(exist_ok=True)
        if (unpacked / folder).is_dir():
            shutil.copytree(unpacked / folder, unpacked / "usr" / folder, True, dirs_exist_ok=True)
            shutil.rmtree(unpacked / folder)
        (unpacked / folder).symlink_to(f"usr/{folder}")
    busybox = unpacked / "usr/bin/busybox"
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    for applet in applets.stdout.split():
        if not os.path.lexists(unpacked / "usr/bin" / applet):
            (unpacked / "usr/bin" / applet).symlink_to("busybox")
    for folder in ("etc", "root", "proc", "sys", "dev", "var"):
        (unpacked / folder).mkdir(exist_ok=True)
    (unpacked / "tmp").mkdir()
    (unpacked / "tmp").chmod(0o1777)
    (unpacked / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (unpacked / "etc/group").write_text("root:x:0:\n")
    names = [path for path in unpacked.iterdir() if path.name != "root.tar"]
    with tarfile.open(unpacked / "root.tar", "w") as packed:
        for path in names:
            packed.add(path, path.name)
    for path in names:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
