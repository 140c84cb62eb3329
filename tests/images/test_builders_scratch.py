"""A command that is killed in a push: its password goes with the next command, its tool at once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from deployer.images.builders import open_scratch, remove_abandoned

# Asks for the login as docker does, and pushes for ever by a program of its own.
SLOW_DOCKER = """#!/bin/sh
cat "$DOCKER_CONFIG/config.json" > "{log}.config"
sleep 1000 &
echo "$DOCKER_CONFIG $$ $!" > "{log}.partial"
mv "{log}.partial" "{log}"
wait
"""
PUSH = """
import os
from deployer.images.builders import Builder, LoginFiles
from deployer.images.registry import RegistryUser, write_auth_file
with write_auth_file(RegistryUser("carol", "s3cret", "the test"), "r.example", {}) as folder:
    Builder("docker", dict(os.environ)).push("r.example/x:1", LoginFiles(folder), "r.example")
"""
SECONDS = 30.0


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for temporary files of this process and what it starts."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


def _wait_for(path: Path) -> str:
    until = time.monotonic() + SECONDS
    while not path.exists():
        assert time.monotonic() < until, f"{path} does not come"
        time.sleep(0.02)
    return path.read_text()


def _wait_for_end(pid: int) -> None:
    until = time.monotonic() + SECONDS
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < until, f"process {pid} goes on"
            time.sleep(0.02)


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_a_push_that_is_killed(tmp_path: Path, temporary: Path, by: signal.Signals) -> None:
    programs, log = tmp_path / "programs", tmp_path / "log"
    programs.mkdir()
    (programs / "docker").write_text(SLOW_DOCKER.format(log=log))
    (programs / "docker").chmod(0o755)
    given = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", PUSH], env=given, stderr=subprocess.DEVNULL
    ) as push:
        folder, tool, helper = _wait_for(log).split()
        assert "r.example" in Path(f"{log}.config").read_text()
        push.send_signal(by)
    _wait_for_end(int(tool))
    _wait_for_end(int(helper))
    assert Path(folder).exists() == (by == signal.SIGKILL)
    remove_abandoned()
    assert list(temporary.iterdir()) == []


def test_a_folder_in_use_stays(temporary: Path) -> None:
    with open_scratch() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        with open_scratch() as other:
            assert folder.is_dir()
            assert other != folder
        remove_abandoned()
        assert folder.is_dir()
    assert list(temporary.iterdir()) == []
