"""A pod whose image has no wandb: pip and an index of real wheels, which hold almost nothing."""

from __future__ import annotations

import ensurepip
import functools
import http.server
import json
import shutil
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from importlib.metadata import metadata, version
from pathlib import Path

import pytest

from deployer.agent.exit_codes import MISCONFIGURED
from deployer.agent.wandb_install import OLDEST_PYTHON, PIN
from deployer.images.code_archive import build_supervisor_zip
from tests.users_python import create_environment

VERSION = PIN.partition("==")[2]
# By name: version, requirements, and what is in the image.
WHEELS = {
    "wandb": (VERSION, ("pydantic<3,>=2", "typing-extensions>=4.8", "gone; extra == 'aws'"), ""),
    "pydantic": ("2.5", ("pydantic-core==2.5.1",), "1.10"),
    "pydantic-core": ("2.5.1", ("typing-extensions>=4.6",), ""),
    "typing-extensions": ("4.16", (), "4.9"),
}
# An agent of a pod, and what a run of it imports then.
CODE = """
import json, os, signal, subprocess, sys
sys.path.insert(0, {zip!r})
from agent.host.processes import WATCHED_SIGNALS, Signals
from agent.wandb_install import ensure_wandb
signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED_SIGNALS)
ending = ensure_wandb(os.environ, Signals(), print)
names = ("wandb", "pydantic", "pydantic_core", "typing_extensions")
code = "import json, %s; print(json.dumps([%s]))" % (
    ", ".join(names), ", ".join(name + ".version" for name in names))
run = [] if ending else json.loads(subprocess.check_output([sys.executable, "-c", code]))
print(json.dumps([run, ending and [ending.exit_code, ending.reason]]))
"""


def write_wheel(folder: Path, name: str, number: str, requires: tuple[str, ...]) -> None:
    """Write a wheel of one module, which has its version."""
    module = name.replace("-", "_")
    info = f"{module}-{number}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {number}"]
    lines += [f"Requires-Dist: {one}" for one in requires]
    path = folder / name / f"{module}-{number}-py3-none-any.whl"
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{module}/__init__.py", f"version = '{number}'\n")
        wheel.writestr(f"{info}/METADATA", "\n".join(lines) + "\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """Serve the wheels as a package index; yield its address."""
    for name, (number, requires, _) in WHEELS.items():
        write_wheel(tmp_path / "index", name, number, requires)
    folder = str(tmp_path / "index")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def write_image(folder: Path) -> Path:
    """Make an image with some packages and pip; return its Python."""
    python = create_environment(folder)
    [packages] = folder.glob("lib/python3*/site-packages")
    for name, (_, _, number) in WHEELS.items():
        if number:
            module = name.replace("-", "_")
            (packages / f"{module}.py").write_text(f"version = '{number}'\n")
            info = packages / f"{module}-{number}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Name: {name}\nVersion: {number}\n")
    return python


def start_agent(folder: Path, index: str) -> subprocess.Popen[str]:
    """Start an agent in the image of a folder."""
    (folder / "agent.zip").write_bytes(build_supervisor_zip())
    (folder / "home").mkdir(exist_ok=True)
    environment = {
        "HOME": str(folder / "home"),
        "PIP_INDEX_URL": index,
        "PIP_CONSTRAINT": "/no/such/file",  # as NVIDIA's images set it
        "DEPLOYER_INSTALL_WANDB": "1",
    }
    command = [str(folder / "image/bin/python"), "-c", CODE.format(zip=str(folder / "agent.zip"))]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def read_answer(agent: subprocess.Popen[str]) -> tuple[str, list[object]]:
    """Return what an agent says, and how it ends."""
    said, _ = agent.communicate()
    assert agent.returncode == 0
    *lines, last = said.splitlines()
    return "\n".join(lines), json.loads(last)


@pytest.mark.full
def test_runs_find_wandb_and_the_image_keeps_what_fits(tmp_path: Path, index: str) -> None:
    """Two agents of a pod begin at a time; the image has no pip but ensurepip's."""
    write_image(tmp_path / "image")
    pack = [start_agent(tmp_path, index) for _ in range(2)]
    answers = [read_answer(agent) for agent in pack]
    assert any(f"installing {PIN}, which" in said for said, _ in answers)
    # The image's pydantic is too old, and its typing-extensions is not.
    assert [result for _, result in answers] == [[[VERSION, "2.5", "2.5.1", "4.9"], None]] * 2
    left = {path.name for path in (tmp_path / "home").iterdir()}
    assert left == {"wandb-packages", "wandb-packages.lock"}


@pytest.mark.full
def test_what_failed_is_named_with_its_index(tmp_path: Path, index: str) -> None:
    python = write_image(tmp_path / "image")
    [pip] = Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl")
    [packages] = python.parents[1].glob("lib/python3*/site-packages")
    shutil.unpack_archive(pip, packages, "zip")  # which is read faster, the second time
    refused = "http://me:secret@127.0.0.1:1/"
    for address, reason in (
        (f"{index}pydantic/", f"{index}pydantic/: Could not find a version that satisfies"),
        (refused, "http://127.0.0.1:1/: Failed to establish a new connection: [Errno 111]"),
    ):
        _, [_, ending] = read_answer(start_agent(tmp_path, address))
        assert isinstance(ending, list)
        code, sentence = ending
        assert code == MISCONFIGURED
        assert sentence.startswith(f"{PIN} cannot be installed: {reason}"), sentence
        assert sentence.endswith(f"`FROM IMAGE` and `RUN python3 -m pip install {PIN}`")
        assert "secret" not in sentence


def test_the_pin_is_that_of_the_lock_file() -> None:
    assert f"wandb=={version('wandb')}" == PIN
    assert metadata("wandb")["Requires-Python"] == f">={'.'.join(map(str, OLDEST_PYTHON))}"
