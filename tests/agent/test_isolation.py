"""Each run in a folder of its own: what it finds there, what it changes, what is kept of it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from deployer.agent.prologue import deployer_folder
from deployer.agent.prologue.deployer_shared import SHARED
from deployer.agent.settings import ISOLATE_VARIABLE, WARM_VARIABLE
from deployer.executors.registry import find_executor
from deployer.launch.check import describe_runs
from deployer.launch.planning import build_draft
from deployer.outputs.stores import RunFolder
from deployer.sweeps.doubts import list_doubts
from deployer.sweeps.results import build_results
from deployer.wandb_api.operations import get_sweep
from tests.agent.conftest import Bench
from tests.project_files import read_project

# Reads its file again once another run has written one of that name.
SHARING = """
import argparse, os, pathlib, time
import wandb
import helper

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--wait")
parser.add_argument("--deaf")
lr = parser.parse_args().lr
path = pathlib.Path(__file__).with_name("checkpoints") / "best.pt"
run = wandb.init()
path.parent.mkdir(exist_ok=True)
path.write_text(str(lr))
met = pathlib.Path(os.environ["MEETING"])
(met / run.id).touch()
while len(list(met.iterdir())) < 2:
    time.sleep(0.05)
own = os.getcwd() == os.path.dirname(helper.__file__)
run.log({"loss": float(pathlib.Path("checkpoints/best.pt").read_text()), "own": own})
"""


def ask_git(folder: Path, *words: str) -> None:
    """Have git do something in a folder."""
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with files that git tracks, small ones that it does not, and data."""
    folder = tmp_path / "project"
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "base.yaml").write_text("lr: 1")
    (folder / "train.py").write_text("")
    (folder / "train.py").chmod(0o755)
    (folder / "inside").symlink_to("conf/base.yaml")
    (tmp_path / "elsewhere").write_text("all runs'")
    (folder / "outside").symlink_to("../elsewhere")
    ask_git(folder, "init")
    ask_git(folder, "add", ".")
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "best.pt").write_text("of a trial by hand")
    (folder / "empty").mkdir()
    (folder / "data").mkdir()
    with (folder / "data" / "images").open("wb") as file:
        file.truncate(deployer_folder.MOST_BYTES + 1)
    return folder


@pytest.fixture
def run(tmp_path: Path) -> dict[str, str]:
    """Return by what a run finds its folders."""
    return {
        "DEPLOYER_OUTPUT_ROOT": str(tmp_path / "outputs"),
        "DEPLOYER_CHECKPOINT_ROOT": str(tmp_path / "saved"),
        "WANDB_SWEEP_ID": "s1",
        "WANDB_RUN_ID": "r1",
    }


def read_kept(tmp_path: Path) -> dict[str, str]:
    """Return what `results get` would bring of the run."""
    root = tmp_path / "outputs" / "s1" / "r1"
    return {one.path: (root / one.path).read_text() for one in RunFolder(root).list_entries()}


def test_a_run_may_change_all_but_what_is_linked(project: Path, run: dict[str, str]) -> None:
    folder = Path(deployer_folder.make_folder(str(project), run))
    names = {path.name for path in project.iterdir()}
    assert {path.name for path in folder.iterdir()} == names
    assert (folder / "data").resolve() == project / "data"
    assert os.access(folder / "train.py", os.X_OK)
    assert (folder / "outside").read_text() == "all runs'"
    for name in ("train.py", "inside", "checkpoints/best.pt"):
        (folder / name).write_text("the run's")
    assert (project / "train.py").read_text() == ""
    assert (project / "conf" / "base.yaml").read_text() == "lr: 1"
    assert (project / "checkpoints" / "best.pt").read_text() == "of a trial by hand"


def test_what_a_run_wrote_is_kept_and_nothing_else(
    project: Path, run: dict[str, str], tmp_path: Path
) -> None:
    folder = Path(deployer_folder.make_folder(str(project), run))
    (folder / "checkpoints" / "best.pt").write_text("the run's")
    (folder / "empty" / "new").write_text("new")
    os.utime(folder / "empty" / "new", (0, 0))  # as an unpacked archive has it
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "helper.pyc").touch()
    expected = {
        "working-folder/checkpoints/best.pt": "the run's",
        "working-folder/empty/new": "new",
    }
    deployer_folder.gather(run)  # while the run lives
    assert read_kept(tmp_path) == expected
    deployer_folder.end_folder(run)
    assert read_kept(tmp_path) == expected
    assert [path.name for path in (tmp_path / "outputs" / "s1").iterdir()] == ["r1"]
    assert (project / "data" / "images").exists()


def test_what_an_archive_brought_is_all_copied(project: Path, run: dict[str, str]) -> None:
    told = {**run, "DEPLOYER_CODE_FOLDER": str(project)}
    folder = Path(deployer_folder.make_folder(str(project), told))
    assert not (folder / "data").is_symlink()


def test_a_run_that_resumes_goes_on_in_its_folder(
    project: Path, run: dict[str, str], tmp_path: Path
) -> None:
    (Path(deployer_folder.make_folder(str(project), run)) / "log").touch()
    (tmp_path / "saved" / "s1" / "r1" / "last").touch()
    assert (Path(deployer_folder.make_folder(str(project), run)) / "log").exists()
    deployer_folder.end_folder(run)
    assert [*read_kept(tmp_path)] == ["working-folder/log"]


def test_an_attempt_afresh_finds_the_project(project: Path, run: dict[str, str]) -> None:
    for _ in range(2):
        folder = Path(deployer_folder.make_folder(str(project), run))
        assert not (folder / "config.yaml").exists()
        (folder / "config.yaml").touch()


def test_without_git_what_is_small_is_copied(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / "source").mkdir(parents=True)
    (folder / "source" / "net.py").touch()
    (folder / "state").mkdir()
    found = deployer_folder.look_at(str(folder), str(folder / "state" / "outputs"))
    assert found == (["source", "source/net.py"], ["state"])


def test_many_small_files_are_not_copied(project: Path) -> None:
    """They lie beside one that git tracks, so that it names each of them."""
    for number in range(deployer_folder.MOST_FILES):
        (project / "conf" / f"{number}.png").touch()
    copied, linked = deployer_folder.look_at(str(project))
    assert len(copied) < deployer_folder.MOST_FILES + 10
    assert 0 < len(linked) < 10


def test_the_size_of_the_copies_is_said_before_the_start(project: Path) -> None:
    (project / "deployer.yaml").write_text("isolate: true\n")
    config = read_project(project)
    plan = build_draft(config, "http://localhost", own_keys=True)
    copies, links = describe_runs(find_executor(config), plan).lines[-2:]
    assert copies == "isolate: each run gets a copy of 6 files, 1 kB"
    assert links == "isolate: linked, so shared by all runs: .git, data"


WRITING = """
import os, pathlib, subprocess, sys, torch, wandb

os.makedirs("checkpoints", exist_ok=True)
run = wandb.init()
run.log({"loss": 1.0})
torch.save({}, "checkpoints/best.pt")
pathlib.Path("rows.new").touch()
os.replace("rows.new", "rows")
pathlib.Path(f"own-{run.id}").touch()
pathlib.Path("train.py").read_text()
pathlib.Path("passing").touch()
os.remove("passing")
subprocess.run([sys.executable, "-c", "open('by a child', 'a')"], check=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("warm", ["1", pytest.param("", marks=pytest.mark.full)])
def test_what_two_runs_wrote_is_a_doubt(bench: Bench, warm: str) -> None:
    (bench.folder / "train.py").write_text(WRITING)
    path = bench.create_sweep("[1.0, 2.0]")
    code, output = bench.start_with_own_key(path, **{WARM_VARIABLE: warm}).wait()
    assert code == 0, output
    runs = bench.runs(path)
    [later] = [run.summary[SHARED] for run in runs if SHARED in run.summary]
    assert sorted(json.loads(later)) == ["by a child", "checkpoints/best.pt", "rows"]
    results = build_results(get_sweep(bench.client, path), runs)
    ids = ", ".join(sorted(run.run_id for run in runs))
    said = f"by a child (and 2 other files) was written by 2 runs ({ids})"
    assert list_doubts(results) == (f"{said}: set `isolate: true` in deployer.yaml",)


@pytest.mark.slow
def test_two_agents_write_a_file_of_one_name(bench: Bench, tmp_path: Path) -> None:
    (bench.folder / "train.py").write_text(SHARING)
    (bench.folder / "helper.py").touch()
    (tmp_path / "meeting").mkdir()
    path = bench.create_sweep("[1.5, 2.5]")
    told = {WARM_VARIABLE: "1", ISOLATE_VARIABLE: "1", "PYTHONSAFEPATH": ""}
    told["MEETING"] = str(tmp_path / "meeting")
    agents = [bench.start_with_own_key(path, f"agent-{n}", **told) for n in (1, 2)]
    for agent in agents:
        code, output = agent.wait()
        assert code == 0, output
        assert agent.status
        assert agent.status.run_start == "warm"
    runs = bench.runs(path)
    assert sorted(run.summary["loss"] for run in runs) == [1.5, 2.5]
    assert all(run.summary["own"] for run in runs)
    outputs = bench.folder / "agents" / "outputs" / path.sweep_id
    for run in runs:
        kept = outputs / run.run_id / "working-folder"
        assert [one.name for one in kept.rglob("*") if one.is_file()] == ["best.pt"]
        assert (kept / "checkpoints" / "best.pt").read_text() == str(run.summary["loss"])
        assert not (outputs / f"{run.run_id}.folder").exists()
    assert not (bench.folder / "checkpoints").exists()
