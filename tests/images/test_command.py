"""The command line: what is on stdout, and how it fails."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cluster.control_plane.image import build_image
from tests.forked import run_forked
from tests.images.registry import PASSWORD, serve_registry


def _deployer(
    folder: Path, *words: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return run_forked(["image", *words], folder, {**os.environ, **(environment or {})})


@pytest.mark.slow
@pytest.mark.kube  # Debian's docker-registry
def test_load(tmp_path: Path) -> None:
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"#!/bin/true\n")
    build_image(tmp_path / "image.tar", busybox, ["registry.example/trainer:abc"])
    with serve_registry(tmp_path / "registry") as registry:
        repository = f"{registry.address}/team/trainer"
        (tmp_path / "deployer.yaml").write_text(f"image: {{repository: '{repository}'}}\n")
        given = registry.environment
        done = _deployer(tmp_path, "load", "image.tar", environment=given)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"{repository}@sha256:")
        first, *others = done.stderr.splitlines()
        assert first.startswith("image.tar: registry.example/trainer:abc, ")
        assert others[-1].startswith(f"loaded {repository}:abc: ")
        again = _deployer(tmp_path, "load", "image.tar", "-o", "json", environment=given)
        assert json.loads(again.stdout)["reference"] == done.stdout.strip()
        assert json.loads(again.stdout)["uploaded_bytes"] == 0
        assert PASSWORD not in done.stdout + done.stderr + again.stderr


def test_failures(tmp_path: Path) -> None:
    done = _deployer(tmp_path, "save", "image.tar")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Dockerfile: file not found" in done.stderr
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    done = _deployer(tmp_path, "push")
    assert done.returncode == 2
    assert done.stderr.startswith("error: deployer.yaml: image.repository: is missing\n")
    done = _deployer(tmp_path, "save", "image.tar", environment={"PATH": str(tmp_path)})
    assert done.returncode == 1
    assert done.stderr.startswith("error: no working image builder found (docker: not installed; ")
    done = _deployer(tmp_path, "load", "nowhere.tar", "--repository", "r.example/x", "-o", "json")
    assert done.returncode == 1
    assert json.loads(done.stderr)["error"]["code"] == "image"
