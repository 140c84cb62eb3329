"""The backend's program as its ConfigMaps bring it, in a Python that has no packages at all."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests  # noqa: TID251 - a browser is a client of its own

from deployer.backend.data_folder import read_key
from deployer.backend.scheduling.search import STARTUP_RUNS
from deployer.config.kubernetes import ClusterConfig
from deployer.config.settings import BackendConfig
from deployer.executors.kubernetes.backend.deployment import build_backend, load_backend_templates
from deployer.images.code_archive import PACKAGES, PART_BYTES, build_backend_archive
from tests.backend.client import UPSERT_SWEEP, Client, grid
from tests.backend.pages_browser import log_in

BAYES = {
    "program": "train.py",
    "method": "bayes",
    "metric": {"name": "loss", "goal": "minimize"},
    "parameters": {"lr": {"min": 0.1, "max": 0.2}},
}


def write_program(folder: Path) -> list[str]:
    """Write what the volume of the pod has; return the names of the ConfigMaps."""
    cluster = ClusterConfig(image="trainer:1")
    program = build_backend_archive()
    built = build_backend(load_backend_templates(), program, BackendConfig(), cluster)
    folder.mkdir()
    config_maps = [one for one in built if one["kind"] == "ConfigMap"]
    for one in config_maps:
        for name, text in one["data"].items():
            (folder / name).write_text(text)
        for name, encoded in one["binaryData"].items():
            (folder / name).write_bytes(base64.b64decode(encoded))
    names = [one["metadata"]["name"] for one in config_maps]
    [volume] = (
        one for one in built[-1]["spec"]["template"]["spec"]["volumes"] if one["name"] == "program"
    )
    sources = volume["projected"]["sources"]
    assert [one["configMap"]["name"] for one in sources] == names
    return names


@contextmanager
def serve(folder: Path, **environment: str) -> Iterator[Client]:
    """Run the program as the pod does, in a Python that has no packages."""
    assert len(write_program(folder / "program")) == 2
    venv.create(folder / "python", symlinks=True)
    # What lies where the image's programs start is not taken for ours.
    (folder / "graphql.py").write_text("raise SystemExit('not ours')")
    process = subprocess.Popen(
        [folder / "python/bin/python", folder / "program", "127.0.0.1", "0", folder / "data"],
        env={"TMPDIR": str(folder), "HOME": str(folder), "USER": "tester", **environment},
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout
            url = process.stdout.readline().strip()
            yield Client(url, read_key(folder / "data"), "tester")
            assert "site-packages" not in Path(f"/proc/{process.pid}/maps").read_text()
        finally:
            process.terminate()
    assert process.returncode == 0


def test_it_serves_in_a_python_without_packages(tmp_path: Path) -> None:
    with serve(tmp_path) as client:
        sweep = client.create_sweep(grid(lr=[0.1]))
        assert client.work_once(client.create_agent(sweep), loss=0.5)
        browser = requests.Session()
        log_in(browser, client.url, client.key)
        shown = browser.get(f"{client.url}/tester/{client.project}/sweeps/{sweep}")
        assert "<script" in shown.text
        refused = client.post(UPSERT_SWEEP, config=json.dumps(BAYES)).text
        assert "bayes needs scikit-learn: add `RUN pip install scikit-learn` to its" in refused


@pytest.mark.full
def test_bayes_needs_nothing_of_the_image_but_scikit_learn(tmp_path: Path) -> None:
    """The image has all that this Python has, without what the archive brings."""
    (tmp_path / "image").mkdir()
    brought = (*PACKAGES, "deployer")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(brought) and path.suffix != ".pth":
            (tmp_path / "image" / path.name).symlink_to(path)
    with serve(tmp_path, PYTHONPATH=str(tmp_path / "image")) as client:
        agent = client.create_agent(client.create_sweep(BAYES))
        ran = 0
        while ran < STARTUP_RUNS + 1:
            if client.work_once(agent, loss=0.5 / (ran + 1)):
                ran += 1


def test_what_every_room_shares_needs_the_standard_library_alone() -> None:
    shared = ("errors", "model", "text", "waiting")
    program = "import importlib, sys; sys.path.insert(0, sys.argv.pop())\n" + "\n".join(
        f"importlib.import_module('deployer.{name}')" for name in shared
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program, root], check=False)
    assert done.returncode == 0


def test_the_archive_has_sources_alone_and_is_the_same_again() -> None:
    packed = build_backend_archive()
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        contents = {one: archive.extractfile(one) for one in archive.getmembers()}
        binary = [one.name for one, file in contents.items() if file and b"\0" in file.read()]
    assert not binary
    assert len(packed) < 2 * PART_BYTES
    build_backend_archive.cache_clear()
    assert build_backend_archive() == packed


def test_an_older_python_is_named(tmp_path: Path) -> None:
    write_program(tmp_path / "program")
    path = str(tmp_path / "program")
    code = f"import runpy, sys; sys.version_info = (3, 10); runpy.run_path({path!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 78
    assert done.stderr.startswith(f"Python 3.11 or newer is needed, and {sys.executable} is Python")
