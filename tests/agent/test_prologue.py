"""What Python does before a run's trainer begins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SHOW = "import os; print(os.environ.get('DEPLOYER_CHECKPOINT_DIR'), os.environ.get('WANDB_RESUME'))"


def run(
    code: str, environment: dict[str, str], check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program that a prologue precedes."""
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=check
    )


def test_a_new_run_gets_its_folder_and_does_not_resume(
    environment: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoints" / "s1" / "r1"
    answer = run(SHOW, environment)
    assert answer.stdout == f"{folder} None\n"
    assert answer.stderr == ""
    assert list(folder.iterdir()) == []


def test_a_run_with_a_checkpoint_resumes(environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints" / "s1" / "r1"
    folder.mkdir(parents=True)
    (folder / "last").touch()
    assert run(SHOW, environment).stdout == f"{folder} allow\n"
    assert run(SHOW, {**environment, "WANDB_RESUME": "must"}).stdout == f"{folder} must\n"


def test_children_of_a_run_do_not_do_it_again(environment: dict[str, str]) -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', CODE])"
    deed = "import os; open(os.environ['DEPLOYER_CHECKPOINT_DIR'] + '/x', 'w'); "
    answer = run(deed + child.replace("CODE", repr(SHOW)), environment)
    assert answer.stdout.endswith("/r1 None\n")


def test_outside_a_run_nothing_happens(environment: dict[str, str], tmp_path: Path) -> None:
    del environment["WANDB_RUN_ID"]
    assert run(SHOW, environment).stdout == "None None\n"
    assert not (tmp_path / "checkpoints").exists()


def test_the_next_sitecustomize_is_run_too(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('theirs', __name__)")
    environment["PYTHONPATH"] += os.pathsep + str(tmp_path)
    assert run(SHOW, environment).stdout.splitlines()[0] == "theirs sitecustomize"


def test_trouble_is_one_line_and_the_run_goes_on(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "checkpoints").write_text("not a folder")
    answer = run(SHOW, environment)
    assert answer.stdout == "None None\n"
    [line] = answer.stderr.splitlines()
    assert line.startswith("deployer: the run's checkpoint folder is not ready: NotADirectoryError")


def test_another_attempt_keeps_its_folder_until_it_ends(environment: dict[str, str]) -> None:
    wait = "import sys; print('ready', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", wait],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    # A second program of the same attempt does not wait for the first.
    assert run(SHOW, environment).stdout.endswith("/r1 None\n")
    later = subprocess.Popen(
        [sys.executable, "-c", "print('mine')"],
        env={**environment, "DEPLOYER_AGENT_START": "agent-2 b"},
        stdout=subprocess.PIPE,
        text=True,
    )
    with pytest.raises(subprocess.TimeoutExpired):
        later.wait(2)
    holder.communicate("")
    assert later.communicate(timeout=20)[0] == "mine\n"


# Answers are on their way while the program ends; W&B's own client then hangs every other time.
ENDS_AMID_ANSWERS = """
import sys, wandb
run = wandb.init(mode="offline")
for step in range(100):
    run.log({"step": step, "text": "x" * 20_000})
    run._interface.deliver_network_status()
sys.exit(5)
"""


@pytest.mark.slow
def test_a_run_ends_although_its_core_is_about_to_answer(
    environment: dict[str, str], tmp_path: Path
) -> None:
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", ENDS_AMID_ANSWERS],
            env={**environment, "HOME": str(tmp_path), "WANDB_RUN_ID": f"r{number}"},
            cwd=tmp_path,
            start_new_session=True,
        )
        for number in range(5)
    ]
    try:
        assert [program.wait(60) for program in programs] == [5] * 5
    finally:
        for program in programs:
            program.kill()
