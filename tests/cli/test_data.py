"""`deployer data` as a user types it: from an archive to a run that has it, and back."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Project
from tests.data.archives import write_tar
from tests.data.object_servers import BUCKET, SECRET, ObjectServer, serve_nanio
from tests.data.stores import make_tree

FILES = {"set/a": b"1" * 5000, "set/b": b"2"}


@pytest.fixture(scope="module")
def object_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    with serve_nanio(tmp_path_factory.mktemp("objects")) as server:
        yield server


@pytest.mark.slow
def test_from_an_archive_to_a_folder_and_back(project: Project, tmp_path: Path) -> None:
    project.write_grid()
    assert "deployer.yaml has no data set" in project.run("data", "list").stderr
    project.write("deployer.yaml", "data: {path: /data, folder: held}\n")
    refused = project.run("up", "grid.yaml", code=1)
    assert refused.stderr.splitlines()[-1] == "hint: deployer data put SOURCE data"
    archive = write_tar(tmp_path / "set.tar.gz", FILES)
    held = project.folder / "held"
    done = project.run("data", "put", str(archive))
    assert done.stdout == f"data: 2 files, 5 kB, in {held}\n"
    assert done.stderr == f"unpacking {archive}\n"  # no bar in a pipe
    again = json.loads(project.run("data", "put", str(archive), "data", "-o", "json").stdout)
    assert again["copied"]["equal_files"] == 2
    [listed] = json.loads(project.run("data", "list", "-o", "json").stdout)
    assert (listed["place"], listed["files"], listed["state"]) == (str(held), 2, "whole")
    project.run("data", "get", "--to", "out")
    assert (project.folder / "out/set/a").read_bytes() == FILES["set/a"]
    (project.folder / "out/set/a").write_text("own")
    refused = project.run("data", "get", "--to", "out", code=1)
    assert refused.stderr.splitlines()[0].endswith(
        "out already has 1 file with other content: set/a"
    )
    assert (project.folder / "out/set/a").read_text() == "own"
    done = project.run("data", "get", "--to", "out", "--overwrite")
    assert done.stdout == "data: 2 files, 5 kB, 1 already there, 1 replaced, in out\n"
    assert project.run("data", "get", "--to", "", code=2).stderr.startswith("error: --to: is empty")
    refused = project.run("data", "delete", code=2)
    assert "--yes: is missing" in refused.stderr
    project.run("data", "delete", "--yes")
    assert not held.exists()
    refused = project.run("data", "delete", code=1)
    assert refused.stderr.splitlines()[0].endswith("nothing was deleted")
    held.touch()
    listed = project.run("data", "list", code=1)
    assert (listed.stdout.count("is not a folder"), listed.stderr.count("is not a folder")) == (
        1,
        1,
    )


@pytest.mark.slow
def test_an_object_store_with_keys_that_no_message_shows(
    project: Project, object_server: ObjectServer, tmp_path: Path
) -> None:
    where = f"s3://{BUCKET}/{tmp_path.name}"
    project.write(
        "deployer.yaml",
        f"data: {{name: cats, path: /cats, url: '{where}', endpoint_url: {object_server.url}}}\n",
    )
    project.write_grid()
    make_tree(tmp_path / "from", {"a": 5})
    keys = object_server.environment
    done = project.run("data", "put", str(tmp_path / "from"), **keys)
    assert done.stderr == "to make it visible to runs: deployer data preload cats\n"
    refused = project.run("up", "grid.yaml", code=1)
    assert refused.stderr.splitlines()[-1] == "hint: deployer data preload cats"
    assert "cats: 1 file, 1 kB, in " in project.run("data", "preload", **keys).stdout
    assert project.run("data", "preload", **keys).stdout.startswith("cats: all already there")
    for name, said in (
        ("AWS_SECRET_ACCESS_KEY", "the secret key is wrong"),
        ("AWS_ACCESS_KEY_ID", "the access key is unknown"),
    ):
        refused = project.run("data", "preload", code=1, **{**keys, name: "wrong"})
        error, hint = refused.stderr.splitlines()
        assert error == f"error: {where} at {object_server.url}: {said}"
        assert hint.startswith(f"hint: check {name}")
        assert SECRET not in refused.stderr


@pytest.mark.slow
def test_a_bar_in_a_terminal(project: Project, tmp_path: Path) -> None:
    project.write("deployer.yaml", "data: {path: /data, folder: held}\n")
    make_tree(tmp_path / "from", {"a": 3_000_000})
    command = [sys.executable, "-m", "deployer", "data", "put", str(tmp_path / "from")]
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, cwd=project.folder, stderr=theirs, stdout=theirs) as process:
        os.close(theirs)
        seen = b""
        try:
            while block := os.read(ours, 4096):
                seen += block
        except OSError:  # a terminal whose other side is closed
            pass
    os.close(ours)
    assert process.returncode == 0
    assert b"put data" in seen
    assert b"1 file, 3 MB, in" in seen


@pytest.mark.full
def test_a_gibibyte_is_killed_at_ten_moments_and_right_in_the_end(
    project: Project, tmp_path: Path
) -> None:
    """Each kill comes when so much of the file is on the disk, not after some time."""
    project.write("deployer.yaml", "data: {path: /data, folder: held}\n")
    file = tmp_path / "from/big.bin"
    file.parent.mkdir()
    with file.open("wb") as written:
        for _ in range(1024):
            written.write(os.urandom(1 << 20))
    partial = project.folder / "held/.deployer-partial"
    for kill in range(1, 11):
        process = project.start("data", "put", str(file.parent))
        while process.poll() is None and _measure(partial) < kill * 95_000_000:
            pass
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not (project.folder / "held/big.bin").exists()
    done = json.loads(project.run("data", "put", str(file.parent), "-o", "json").stdout)
    assert done["copied"]["resumed_bytes"] >= 950_000_000
    same = ["cmp", str(file), str(project.folder / "held/big.bin")]
    assert subprocess.run(same, check=False).returncode == 0
    assert not partial.exists()


def _measure(folder: Path) -> int:
    try:
        return sum(file.stat().st_size for file in folder.iterdir())
    except FileNotFoundError:
        return 0
