"""A dress rehearsal in a real container of podman, and of buildah: `--in-image`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.control_plane.image import build_image
from tests.cluster.control_plane.packages import find_runtime
from tests.cluster.foreign import write_foreign_python
from tests.images.tools import find_buildah, find_podman

pytestmark = [pytest.mark.slow, pytest.mark.kube, pytest.mark.full]
IMAGE = "registry.example/team/trainer:1"
TRAINER = """
import argparse, os
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
arguments = parser.parse_args()
with wandb.init() as run:
    run.log({"loss": arguments.lr})
with open("/sys/fs/cgroup/memory/memory.limit_in_bytes") as limit:
    print("limit", limit.read().strip())
print("as", os.getuid(), os.getgroups(), os.environ["MODE"], os.environ["HF_TOKEN"] == "hush")
print("sees", os.listdir("/data"), os.listdir("/models"), flush=True)
"""
SLOW = "import time; print('began', flush=True); time.sleep(600)"
SWEEP = {
    "program": "train.py",
    "method": "grid",
    "metric": {"name": "loss", "goal": "minimize"},
    "parameters": {"lr": {"values": [0.1, 0.2]}},
}
SECTION = {
    "image": IMAGE,
    "cpu": "500m",
    "memory": "512Mi",
    "env": {"MODE": "fast"},
    "secrets": {"HF_TOKEN": {"name": "hugging-face", "key": "token"}},
    "volumes": [{"name": "models", "mount_path": "/models", "pvc": "models"}],
}
DATA = [{"name": "digits", "path": "/data", "folder": "digits"}]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Let podman and buildah work in one place, with an image of this machine's own files."""
    folder = tmp_path_factory.mktemp("containers")
    (folder / "tmp").mkdir()
    podman = find_podman()
    storage = f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/images"\n'
    (folder / "storage.conf").write_text(f'{storage}runroot = "{folder}/run"\n')
    # A machine that may not raise its limits has no room for podman's own defaults.
    limits = '"nofile=1024:1024", "nproc=4096:4096"'
    (folder / "containers.conf").write_text(
        f'[containers]\ndefault_ulimits = [{limits}]\n[engine]\ncgroup_manager = "cgroupfs"\n'
        f'runtime = "runc"\nconmon_path = ["{podman}/usr/bin/conmon"]\n'
        f'events_logger = "file"\n[engine.runtimes]\nrunc = ["{podman}/usr/sbin/runc"]\n'
    )
    settings = folder / "home/.config/containers"
    settings.mkdir(parents=True)
    (settings / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    programs = f"{podman}/usr/bin:{find_buildah().parent}:{os.environ['PATH']}"
    made = {
        **os.environ,
        "PATH": programs,
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "BUILDAH_ISOLATION": "chroot",
    }
    write_image(folder / "image.tar", folder / "parts")
    subprocess.run(["podman", "load", "--input", folder / "image.tar"], env=made, check=True)
    yield made
    subprocess.run(["umount", "--quiet", folder / "images/overlay"])
    shutil.rmtree(folder)


def write_image(path: Path, folder: Path) -> None:
    """Write an image with Python, wandb, the libraries that they load, and `/usr/bin/env`."""
    opt, libraries, loader, programs = (folder / name for name in ("opt", "lib", "lib64", "bin"))
    write_foreign_python(folder / "links")
    shutil.copytree(folder / "links", opt)  # a container of podman does not see this machine's
    for one in (libraries, loader, programs):
        one.mkdir()
    files = [one for one in opt.rglob("*") if ".so" in one.suffixes or one.parent.name == "bin"]
    asked = subprocess.run(["ldd", *files], capture_output=True, text=True)
    for library in set(re.findall(r"(/\S+) \(0x", asked.stdout)):
        at = loader if library.startswith("/lib64/") else libraries
        if not library.startswith(str(folder)):
            shutil.copy2(library, at)
    (programs / "env").symlink_to("/busybox/busybox")
    multiarch = f"/usr/lib/{os.uname().machine}-linux-gnu"
    folders = {"/opt": opt, multiarch: libraries, "/usr/lib64": loader, "/usr/bin": programs}
    build_image(path, find_runtime() / "bin/busybox", [IMAGE], folders)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits/one.npz").touch()
    (tmp_path / "train.py").write_text(TRAINER)
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(SWEEP))
    return tmp_path


def begin(
    project: Path, environment: dict[str, str], tool: str, *words: str
) -> subprocess.Popen[str]:
    settings = {"on": "kubernetes", "kubernetes": SECTION, "data": DATA}
    text = yaml.safe_dump({**settings, "image": {"builder": tool}})
    (project / "deployer.yaml").write_text(text)
    return subprocess.Popen(
        [sys.executable, "-m", "deployer", *words],
        cwd=project,
        env={**environment, "HF_TOKEN": "hush"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def check_nothing_is_left(environment: dict[str, str]) -> None:
    for tool, words in (("podman", ("ps", "--all")), ("buildah", ("containers",))):
        listed = subprocess.check_output([tool, *words, "--quiet"], env=environment, text=True)
        assert listed == ""
    assert os.listdir(environment["TMPDIR"]) == []
    processes = subprocess.check_output(["ps", "-eo", "args"], text=True)
    assert environment["TMPDIR"] not in processes
    assert "slow.py" not in processes


def test_probe_in_the_pods_image(project: Path, environment: dict[str, str]) -> None:
    with begin(project, environment, "podman", "up", "sweep.yaml", "--probe", "--in-image") as up:
        said = up.communicate()[0]
    assert up.returncode == 0, said
    assert f"  | limit {512 << 20}\n" in said
    assert "  | as 1000 [1000] fast True\n" in said
    assert "  | sees ['one.npz'] []\n" in said
    assert "  metric    loss 0.1\n" in said
    assert said.endswith("to start it in the cluster: deployer up sweep.yaml\n")
    assert "hush" not in said
    check_nothing_is_left(environment)


@pytest.mark.parametrize("tool", ["podman", "buildah"])
def test_interrupted(tool: str, project: Path, environment: dict[str, str]) -> None:
    words = ("run", "--in-image", "--no-check", "--", "python", "slow.py")
    with begin(project, environment, tool, *words) as run:
        assert run.stdout is not None
        said = next(line for line in run.stdout if "| began" in line or "error" in line)
        run.send_signal(signal.SIGINT)
        rest = run.stdout.read()
    assert (said, run.returncode) == ("  | began\n", 130), rest
    check_nothing_is_left(environment)
