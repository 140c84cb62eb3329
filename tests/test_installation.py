"""The wheel, beside a user's own packages, and the command that adds an extra to what is there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from deployer.installation import build_install_command
from tests.contract.sdks import run_uv

ROOT = Path(__file__).parents[1]
PACKAGES = ["s3fs>=2026"]
TRAINER = """
import wandb

with wandb.init() as run:
    run.log({"loss": 7.0})
"""
SWEEP = """
program: trainer/train.py
command: ["${env}", "${interpreter}", -m, trainer.train, "${args_no_hyphens}"]
method: grid
metric: {name: loss, goal: minimize}
parameters: {lr: {values: [0.1]}}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel as a user does."""
    folder = tmp_path_factory.mktemp("dist")
    run_uv("build", "--wheel", "--out-dir", str(folder), str(ROOT))
    [built] = folder.glob("sweep_deployer-*.whl")
    return built


@pytest.mark.full
@pytest.mark.slow
def test_the_wheel_leaves_a_users_trainer_alone(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package `trainer` in it would come before a folder of that name without `__init__.py`."""
    tops = {name.split("/")[0] for name in ZipFile(wheel).namelist()}
    assert tops == {"deployer", wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info"}
    environment, project = tmp_path / "environment", tmp_path / "project"
    run_uv("venv", "--python", sys.executable, str(environment))
    python = environment / "bin" / "python"
    run_uv("pip", "install", "--no-deps", "--python", str(python), str(wheel))
    [packages] = environment.glob("lib/python*/site-packages")
    (packages / "required.pth").write_text(os.path.dirname(os.path.dirname(pytest.__file__)))
    (project / "trainer").mkdir(parents=True)
    (project / "trainer" / "train.py").write_text(TRAINER)
    (project / "sweep.yaml").write_text(SWEEP)
    monkeypatch.setenv("PATH", f"{python.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.chdir(project)
    up = subprocess.run(["deployer", "up", "sweep.yaml"], capture_output=True, text=True)
    subprocess.run(["deployer", "down", "--all"], check=True, capture_output=True)
    assert up.returncode == 0, up.stderr
    assert "1/1 configurations finished" in up.stderr + up.stdout
    assert "loss=7" in up.stderr + up.stdout


def place_receipt(prefix: Path, text: str) -> None:
    prefix.mkdir(parents=True, exist_ok=True)
    (prefix / "uv-receipt.toml").write_text(f"[tool]\nrequirements = [{text}]\n")


def test_the_command_follows_the_installation(tmp_path: Path) -> None:
    folder, file = tmp_path / "my clone", tmp_path / "sweep_deployer-1-py3-none-any.whl"
    folder.mkdir()
    file.touch()
    tool, made, gone = tmp_path / "tool", folder / ".venv", tmp_path / "gone.whl"
    receipt = '{ name = "sweep-deployer", extras = ["gcs"] }, { name = "torch", specifier = "<3" }'
    place_receipt(tool, f'{receipt}, {{ name = "mine", directory = "/my" }}')
    made.mkdir()
    (made / ".setup").touch()
    in_folder: dict[str, Any] = {"url": folder.as_uri(), "dir_info": {}}
    editable: dict[str, Any] = {"url": folder.as_uri(), "dir_info": {"editable": True}}
    in_wheel: dict[str, Any] = {"url": file.as_uri(), "archive_info": {}}
    of_git = {"url": "https://x.test/d.git", "vcs_info": {"vcs": "git", "commit_id": "f00"}}
    for origin, prefix, command in (
        (in_folder, tmp_path, f"pip install '{folder}[s3]'"),
        (editable, tmp_path, f"pip install -e '{folder}[s3]'"),
        (editable, made, f"make -B -C '{folder}' setup"),
        (in_wheel, tmp_path, f"pip install '{file}[s3]'"),
        (of_git, tmp_path, "pip install 'sweep-deployer[s3] @ git+https://x.test/d.git@f00'"),
        ({"url": gone.as_uri(), "archive_info": {}}, tmp_path, "pip install 's3fs>=2026'"),
        ({}, tmp_path, "pip install 's3fs>=2026'"),
        (in_wheel, tool, f"uv tool install --with 'torch<3' --with /my '{file}[gcs,s3]'"),
    ):
        assert build_install_command("s3", origin, PACKAGES, prefix, ["pip", "install"]) == command


@pytest.mark.slow
def test_the_command_of_uvs_tool_adds_the_extra(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is required is left out: only the receipt is looked at, and nothing is downloaded."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    required = [*project["dependencies"], *extras["gcs"], *extras["s3"]]
    names = [re.split("[<>=]", one)[0] for one in required]
    overrides = tmp_path / "overrides.txt"
    overrides.write_text("".join(f"{name}; python_version < '3'\n" for name in names))
    monkeypatch.setenv("UV_OVERRIDE", str(overrides))
    monkeypatch.setenv("UV_TOOL_DIR", str(tmp_path / "tools"))
    monkeypatch.setenv("UV_TOOL_BIN_DIR", str(tmp_path / "bin"))
    run_uv("tool", "install", "--python", sys.executable, f"{wheel}[gcs]")
    tool = tmp_path / "tools" / "sweep-deployer"
    code = "from deployer.installation import install_command; print(install_command('s3'))"
    command = [str(tool / "bin" / "python"), "-c", code]
    said = shlex.split(subprocess.check_output(command, text=True))
    assert said == ["uv", "tool", "install", f"{wheel}[gcs,s3]"]
    run_uv(*said[1:])
    [ours] = tomllib.loads((tool / "uv-receipt.toml").read_text())["tool"]["requirements"]
    assert (ours["name"], ours["extras"]) == ("sweep-deployer", ["gcs", "s3"])


FROM_INDEX = re.compile(
    r"(?:pip|pipx|uv tool) install (?:-\S+ )*['\"]?(?:sweep-)?deployer\b(?!/|\S* @)"
)


@pytest.mark.parametrize(
    ("text", "is_from_index"),
    [
        ("pip install deployer", True),
        ("pip install 'deployer[s3]'", True),
        ("`pip install --upgrade deployer`", True),
        ("uv tool install sweep-deployer", True),
        ("pip install 'sweep-deployer[s3]'", True),
        ("pip install ./deployer", False),
        ("uv tool install './deployer[s3,analysis]'", False),
        ("pip install 'sweep-deployer[s3] @ git+https://", False),
    ],
)
def test_how_an_installation_from_the_index_looks(text: str, is_from_index: bool) -> None:
    assert bool(FROM_INDEX.search(text)) == is_from_index


def test_nothing_tells_to_install_from_the_index() -> None:
    """`deployer` is another project there, and `sweep-deployer` is not registered."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
    told = [
        f"{name}: {found[0]}"
        for name in listed
        if name
        and not name.startswith(("tests/", "uv.lock"))
        and (ROOT / name).is_file()
        and (found := FROM_INDEX.search((ROOT / name).read_text(errors="replace")))
    ]
    assert len(listed) > 100
    assert told == []
