"""What a run writes to its folder for outputs, and where it is kept."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deployer.outputs.places import find_loss
from deployer.wandb_api.artifacts import list_artifacts
from tests.agent.conftest import Bench, wait_for

WRITER = """
import os, pathlib, sys, time
import wandb

folder = pathlib.Path(os.environ["DEPLOYER_OUTPUT_DIR"])
if len(sys.argv) == 3:
    assert sys.argv[1:] == [f"--out={folder}", f"--saved={os.environ['DEPLOYER_CHECKPOINT_DIR']}"]
run = wandb.init()
run.log({"loss": 1.0})
(folder / "deep er").mkdir()
(folder / "best.pt").write_bytes(b"weights")
(folder / "deep er" / "ü.json").write_text("{}")
(folder / "nowhere").symlink_to("gone")
"""
FINISHED = WRITER + "run.finish()\n"
NOT_UTF8 = "(folder / os.fsdecode(b'\\xff')).touch()\n"  # which no artifact takes
INTERRUPTED = WRITER + "pathlib.Path('at-work').touch()\ntime.sleep(60)\n"
# A shell and a macro know the run's folders, too.
BY_SHELL = """
command:
  - bash
  - -c
  - set -e; echo early > "$DEPLOYER_OUTPUT_DIR/shell.log"; ls "$DEPLOYER_CHECKPOINT_DIR"; exec "$@"
  - "-"
  - ${interpreter}
  - ${program}
  - --out=${envvar:DEPLOYER_OUTPUT_DIR}
  - --saved=${envvar:DEPLOYER_CHECKPOINT_DIR}
"""
SHOW = """
import os, pathlib
folder = pathlib.Path(os.environ["DEPLOYER_OUTPUT_DIR"])
print(*sorted(str(p.relative_to(folder)) for p in folder.rglob("*")))
(folder / "deep").mkdir(exist_ok=True)
(folder / "deep" / "half").touch()
(folder / "model").touch()
"""


@pytest.fixture
def environment(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Add what a supervisor sets where outputs are kept."""
    return {**environment, "DEPLOYER_OUTPUT_ROOT": str(tmp_path / "outputs")}


def attempt(environment: dict[str, str], programs: int = 1) -> list[str]:
    """Run an attempt's programs, which say what they find; each attempt is a process group."""
    program = f"{sys.executable} -c '{SHOW}'"
    answer = subprocess.run(
        ["sh", "-c", "\n".join([program] * programs)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        process_group=0,
    )
    assert not answer.stderr
    return answer.stdout.splitlines()


def test_an_attempt_afresh_finds_its_folder_empty(environment: dict[str, str]) -> None:
    assert attempt(environment) == [""]
    assert attempt(environment) == [""]


def test_an_attempt_that_resumes_finds_what_was_written(
    environment: dict[str, str], tmp_path: Path
) -> None:
    attempt(environment)
    (tmp_path / "checkpoints" / "s1" / "r1" / "last").touch()
    assert attempt(environment) == ["deep deep/half model"]


def test_the_second_program_of_an_attempt_finds_what_the_first_wrote(
    environment: dict[str, str],
) -> None:
    assert attempt(environment, programs=2) == ["", "deep deep/half model"]


def test_trouble_with_the_folder_is_one_line(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("not a folder")
    show = "import os; print(os.environ.get('DEPLOYER_OUTPUT_DIR'))"
    answer = subprocess.run(
        [sys.executable, "-c", show], env=environment, capture_output=True, text=True, check=True
    )
    assert answer.stdout == "None\n"
    said = "deployer: the run's folder for outputs is not ready: NotADirectoryError"
    assert answer.stderr.startswith(said)
    assert answer.stderr.count("\n") == 1


NEWER_RUN = """
import os

class Run:
    def __init__(self):
        self.id, self.dir, self.summary = os.environ["WANDB_RUN_ID"], os.getcwd(), {}
    def finish(self):
        print("finished with", self.summary)
"""
EMPTY_RUN = "class Session: pass"


@pytest.mark.parametrize(
    ("module", "end", "said"),
    [
        (NEWER_RUN, "run.finish()", "finished with {'deployer_outputs_not_kept': \"AttributeEr"),
        (NEWER_RUN, "run", ""),
        (EMPTY_RUN, "print('trained')", "trained"),
    ],
    ids=["finishes", "exits", "unknown"],
)
def test_an_sdk_without_the_hooks_that_we_know_is_imported(
    environment: dict[str, str], tmp_path: Path, module: str, end: str, said: str
) -> None:
    sdk = tmp_path / "newer" / "wandb" / "sdk"
    sdk.mkdir(parents=True)
    for folder in (sdk.parent, sdk):
        (folder / "__init__.py").touch()
    (sdk / "wandb_run.py").write_text(module)
    begin = "run = wandb_run.Run()" if module == NEWER_RUN else "run = None"
    make = "import os; open(os.environ['DEPLOYER_OUTPUT_DIR'] + '/best.pt', 'w').close()"
    script = "\n".join(["from wandb.sdk import wandb_run", make, begin, end])
    environment["PYTHONPATH"] += os.pathsep + str(tmp_path / "newer")
    answer = subprocess.run(
        [sys.executable, "-c", script],
        env={**environment, "DEPLOYER_OUTPUT_KEEP": "wandb"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stdout[: len(said)]) == (0, said), answer.stderr
    known = "the outputs of run r1 could not be kept: AttributeError: module 'wandb'"
    unknown = "this wandb's wandb.sdk.wandb_run is unknown, and stays unchanged: AttributeError"
    [line] = answer.stderr.splitlines()
    assert line.startswith(f"deployer: {unknown if module == EMPTY_RUN else known}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(WRITER, id="exits"),
        pytest.param(FINISHED, id="finishes", marks=pytest.mark.full),
    ],
)
def test_outputs_are_an_artifact_by_the_end_of_the_run(bench: Bench, script: str) -> None:
    (bench.folder / "train.py").write_text(script)
    path = bench.create_sweep(more=BY_SHELL)
    supervised = bench.start_with_own_key(path, DEPLOYER_OUTPUT_KEEP="wandb")
    _, log = supervised.wait()
    assert "Traceback" not in log
    [run] = bench.runs(path)
    [artifact] = list_artifacts(bench.client, path, run.run_id)[-1:]
    assert (artifact.name, artifact.kind) == (f"run-{run.run_id}-output", "output")
    assert {file.path: file.sha256 for file in artifact.files} == {
        "best.pt": hashlib.sha256(b"weights").hexdigest(),
        "shell.log": hashlib.sha256(b"early\n").hexdigest(),
        "deep er/ü.json": hashlib.sha256(b"{}").hexdigest(),
    }


@pytest.mark.slow
def test_a_run_whose_outputs_are_lost_finishes_and_names_them(bench: Bench) -> None:
    (bench.folder / "train.py").write_text(WRITER + NOT_UTF8)
    path = bench.create_sweep()
    _, log = bench.start_with_own_key(path, DEPLOYER_OUTPUT_KEEP="wandb").wait()
    [run] = bench.runs(path)
    said = "ValueError: "
    assert f"deployer: the outputs of run {run.run_id} could not be kept: {said}" in log
    assert run.state == "finished"
    assert find_loss(run).startswith(said)


@pytest.mark.full
@pytest.mark.slow
def test_an_attempt_that_is_interrupted_sends_nothing(bench: Bench) -> None:
    (bench.folder / "train.py").write_text(INTERRUPTED)
    path = bench.create_sweep()
    supervised = bench.start_with_own_key(path, DEPLOYER_OUTPUT_KEEP="wandb")
    wait_for((bench.folder / "at-work").exists, "a run at work")
    supervised.process.terminate()
    supervised.wait()
    [run] = bench.runs(path)
    assert run.state == "preempted"
    assert list_artifacts(bench.client, path, run.run_id) == ()
