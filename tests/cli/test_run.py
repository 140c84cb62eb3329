"""`deployer run`: one command whose words are its own, with or without wandb in it."""

from __future__ import annotations

import json
import time

import pytest

from tests.cli.conftest import Project
from tests.sweeps.test_sweep_file_command import HOSTILE

# Knows no wandb: writes its words and goes on from its checkpoint.
SCRIPT = """
import json, os, sys, time
with open(os.path.join(os.environ["DEPLOYER_OUTPUT_DIR"], "words.json"), "w") as file:
    json.dump(sys.argv[1:], file)
path = os.path.join(os.environ["DEPLOYER_CHECKPOINT_DIR"], "attempts")
with open(path, "a") as file:
    file.write("x")
while os.path.exists("hold"):
    time.sleep(0.1)
sys.exit(7 if os.path.getsize(path) < int(os.environ.get("TRIES", "1")) else 0)
"""


def read_results(project: Project) -> dict[str, object]:
    found: dict[str, object] = json.loads(project.run("results", "-o", "json").stdout)
    return found


@pytest.mark.slow
def test_a_command_runs_word_for_word_and_may_fail_once(project: Project) -> None:
    """Without wandb in the script: its exit code decides, its words and its output are its own."""
    project.write("plain.py", SCRIPT)
    words = HOSTILE[2:]
    done = project.run("run", "--", "python", "plain.py", *words, TRIES="2")
    assert "1/1 configurations finished, 0 duplicates, 0 lost" in done.stdout
    run = read_results(project)["runs"][0]  # type: ignore[index]
    assert [one["exit_code"] for one in run["attempts"]] == [7, 0]
    project.run("results", "get")
    (kept,) = (project.folder / "results").rglob("words.json")
    assert json.loads(kept.read_text()) == list(words)


@pytest.mark.full
@pytest.mark.slow
def test_a_command_that_logs_with_wandb_is_one_run_that_goes_on(project: Project) -> None:
    (project.folder / "hold").touch()
    project.run("run", "--detach", "--", "python", "train.py", "--lr", "2")
    deadline = time.monotonic() + 60
    while read_results(project)["coverage"]["running"] == 0:  # type: ignore[index]
        assert time.monotonic() < deadline
        time.sleep(0.2)
    project.run("down")
    assert read_results(project)["coverage"]["waiting"] == 1  # type: ignore[index]
    (project.folder / "hold").unlink()
    project.run("agents", "up")
    project.run("watch")
    found = read_results(project)
    assert found["coverage"]["sentence"] == (  # type: ignore[index]
        "1/1 configurations finished, 0 duplicates, 0 lost, 1 healed"
    )
    assert len(found["runs"]) == 1  # type: ignore[arg-type]


@pytest.mark.slow
def test_all_that_a_command_prints_counts_where_no_metric_is_named(project: Project) -> None:
    project.write("deployer.yaml", "metrics: {from: stdout}\n")
    project.write("plain.py", "print('loss=0.5 acc=0.9')")
    project.run("run", "--", "python", "plain.py")
    run = read_results(project)["runs"][0]  # type: ignore[index]
    assert (run["summary"]["loss"], run["summary"]["acc"]) == (0.5, 0.9)


def test_the_command_stands_behind_two_dashes(project: Project) -> None:
    refused = project.run("run", "--on", "local", "python", "train.py", "--lr", "a b", code=2)
    assert "hint: deployer run --on local -- python train.py --lr 'a b'" in refused.stderr
    assert "write a command after --" in project.run("run", "--", code=2).stderr
    missing = project.run("run", "--", "python", "trian.py", "-o", "json", code=2)
    assert "error: deployer run: command: trian.py: file not found" in missing.stderr
    assert "hint: did you mean train.py?" in missing.stderr
