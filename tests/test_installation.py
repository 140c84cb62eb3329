"""The wheel, beside a user's own packages, and the command that adds an extra to what is there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.contract.sdks import run_uv

ROOT = Path(__file__).parents[1]
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


@pytest.mark.slow
@pytest.mark.parametrize("seed", [(), ("--seed",)], ids=["uv", "pip"])
def test_the_command_adds_an_extra_where_deployer_is(
    seed: tuple[str, ...], wheel: Path, tmp_path: Path
) -> None:
    """In an environment with pip, and in one that uv made."""
    environment = tmp_path / "environment"
    run_uv("venv", *seed, "--python", sys.executable, str(environment))
    python = str(environment / "bin" / "python")
    run_uv("pip", "install", "--no-deps", "--python", python, str(wheel))
    code = "from deployer.installation import install_command; print(install_command('s3'))"
    said = shlex.split(subprocess.check_output([python, "-c", code], text=True))
    pip = [python, "-m", "pip"] if seed else ["uv", "pip"]
    where = [] if seed else ["--python", python]
    assert said == [*pip, "install", *where, "s3fs>=2026"]


@pytest.mark.slow
def test_a_tool_of_uvs_gets_an_extra_beside_those_that_it_has(wheel: Path, tmp_path: Path) -> None:
    """With the receipt that uv 0.9 writes for `uv tool install 'FOLDER[gcs]'`."""
    environment = tmp_path / "environment"
    run_uv("venv", "--python", sys.executable, str(environment))
    python = str(environment / "bin" / "python")
    run_uv("pip", "install", "--no-deps", "--python", python, str(wheel))
    named = '{ name = "sweep-deployer", extras = ["gcs"], directory = "/src/deployer" }'
    (environment / "uv-receipt.toml").write_text(f"[tool]\nrequirements = [{named}]\n")
    code = "from deployer.installation import install_command; print(install_command('s3'))"
    said = subprocess.check_output([python, "-c", code], text=True)
    assert said == "uv tool install '/src/deployer[gcs,s3]'\n"


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
