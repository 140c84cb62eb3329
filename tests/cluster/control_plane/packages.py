"""Programs from Debian's packages, unpacked but not installed: what runs the real node's
containers, and in `tests/images/tools.py` what builds and keeps images.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.cache import CACHE

# The second line is nft for kube-proxy, with the libraries that a small machine may lack.
PACKAGES = (
    *("runc", "containernetworking-plugins", "busybox-static"),
    *("nftables", "libnftables1", "libnftnl11", "libmnl0", "libjansson4", "libxtables12"),
)


def find_runtime() -> Path:
    """Return the folder with `usr/sbin/runc` and the rest; download it when it is missing."""
    return find_packages("runtime", PACKAGES)


def find_packages(
    kind: str,
    packages: Sequence[str],
    finish: Callable[[Path, Path], None] = lambda _unpacked, _place: None,
) -> Path:
    """Return the folder into which these packages were unpacked; download them when it is missing.

    `finish` gets the new folder, and the place where it will lie. Needs `apt-get` and `dpkg`
    (Debian or Ubuntu), no root.
    """
    digest = hashlib.sha256(repr(packages).encode()).hexdigest()
    folder = CACHE / f"{kind}-{digest[:12]}"
    if folder.is_dir():
        return folder
    if not shutil.which("apt-get"):
        raise RuntimeError(f"the {kind} is made of Debian's packages: no apt-get on this machine")
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{kind}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
                root = Path(scratch) / "root"
                _unpack(Path(scratch), root, packages)
                finish(root, folder)
                root.rename(folder)
    return folder


def library_path(runtime: Path) -> dict[str, str]:
    """Return the environment in which the unpacked programs find their libraries."""
    libraries = next((runtime / "usr/lib").glob("*-linux-gnu"))
    return {"LD_LIBRARY_PATH": str(libraries)}


def _unpack(scratch: Path, root: Path, packages: Sequence[str]) -> None:
    command = ["apt-get", "download", "-qq", *packages]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"apt-get download failed (try `apt-get update`)\n{done.stderr}")
    for package in scratch.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(root)], check=True)
