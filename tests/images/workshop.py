"""A place to build in: Debian's buildah, images of its own, and a base made on the spot."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.images.tools import find_base, find_buildah

PROJECT = Path(__file__).parents[2]
BASE = "localhost/base:1"
BASE_DOCKERFILE = "FROM scratch\nADD root.tar /\nENV PATH=/usr/local/bin:/usr/bin:/bin\n"
# What the Dockerfile's own .dockerignore lets in, so that a copy of it is the same project.
PARTS = ("deployer", "trainer", "k8s", "infra")
FILES = ("Dockerfile", ".dockerignore", "pyproject.toml", "uv.lock", "README.md", "LICENSE")


@dataclass(frozen=True)
class Workshop:
    """Images are kept in `folder` until the end."""

    folder: Path

    def buildah(self, *words: str) -> str:
        """Run buildah and return what it says; raise with its own words when it fails."""
        done = subprocess.run(["buildah", *words], capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(f"buildah {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def run(self, image: str, *words: str) -> str:
        """Run a command in a container of an image."""
        container = self.buildah("from", image)
        try:
            return self.buildah("run", container, "--", *words)
        finally:
            self.buildah("rm", container)

    def copy_project(self, folder: Path) -> Path:
        """Copy this project, as far as its image is made of it."""
        folder.mkdir()
        unwanted = shutil.ignore_patterns("__pycache__")
        for part in PARTS:
            shutil.copytree(PROJECT / part, folder / part, ignore=unwanted)
        for file in FILES:
            shutil.copy2(PROJECT / file, folder / file)
        return folder


@contextmanager
def open_workshop(folder: Path) -> Iterator[Workshop]:
    """Make buildah work as `docker` does elsewhere, by settings that its users have, too.

    Needs root, and overlayfs below the folder. Without namespaces of its own (`chroot`) it works in
    most containers.
    """
    if os.geteuid() != 0:
        raise PermissionError("buildah builds as root: run the tests in tests/cluster as root")
    settings = folder / "home/.config/containers"
    settings.mkdir(parents=True)
    policy = {"default": [{"type": "insecureAcceptAnything"}]}
    (settings / "policy.json").write_text(json.dumps(policy))
    storage = f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/images"\n'
    (settings / "storage.conf").write_text(f'{storage}runroot = "{folder}/run"\n')
    workshop = Workshop(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{find_buildah().parent}:{os.environ['PATH']}")
        patch.setenv("CONTAINERS_STORAGE_CONF", f"{settings}/storage.conf")
        patch.setenv("BUILDAH_ISOLATION", "chroot")
        patch.setenv("HOME", str(folder / "home"))
        (folder / "Dockerfile").write_text(BASE_DOCKERFILE)
        base, dockerfile = str(find_base().parent), str(folder / "Dockerfile")
        workshop.buildah("build", "--quiet", "--tag", BASE, "--file", dockerfile, base)
        try:
            yield workshop
        finally:
            workshop.buildah("rm", "--all")
            subprocess.run(["umount", "--quiet", folder / "images/overlay"])
            shutil.rmtree(folder)
