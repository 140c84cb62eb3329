"""Runs that end by themselves without a word to W&B, and runs that are always killed."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from deployer.agent.runs.local_runs import has_left_its_core
from deployer.agent.settings import WARM_VARIABLE
from deployer.backend.scheduling.lifecycle import STALLED_KILLS
from deployer.wandb_api.model import RunInfo
from deployer.wandb_api.operations import create_sweep
from tests.agent.conftest import Bench
from tests.agent.trainers import ENDING, ENDING_SWEEP

pytestmark = pytest.mark.slow

STARTS = [pytest.param("0", id="cold"), pytest.param("1", id="warm")]


def run_to_the_end(bench: Bench, end: str, warm: str, retries: int) -> RunInfo:
    """Return what became of a sweep's only run, which ends in the same way at each attempt."""
    (bench.folder / "train.py").write_text(ENDING)
    name = f"agent-{uuid.uuid4().hex[:8]}"
    text = ENDING_SWEEP.format(end=end) + f"retries: {retries}\n"
    path, _ = create_sweep(bench.client, text, bench.backend.entity, name, uuid.uuid4().hex)
    code, output = bench.start_with_own_key(path, **{WARM_VARIABLE: warm}).wait()
    assert code in (0, 3), output
    [run] = bench.runs(path)
    return run


@pytest.mark.parametrize("warm", STARTS)
@pytest.mark.parametrize(
    ("end", "retries", "code"),
    [("os._exit(3)", 0, 3), ("os._exit(0)", 0, 1), ("os.kill(os.getpid(), 11)", 1, 139)],
)
def test_a_run_that_ends_without_a_record_has_failed_by_itself(
    bench: Bench, end: str, retries: int, code: int, warm: str
) -> None:
    run = run_to_the_end(bench, end, warm, retries)
    assert (run.state, run.exit_code) == ("failed", code)
    assert [attempt.cause for attempt in run.attempts] == ["own failure"] * (1 + retries)


def test_a_run_that_is_killed_again_and_again_at_the_same_step_is_given_up(bench: Bench) -> None:
    run = run_to_the_end(bench, "os.kill(os.getpid(), 9)", warm="1", retries=0)
    assert run.state == "failed"
    causes = [attempt.cause for attempt in run.attempts]
    assert set(causes) == {"signal"}
    assert STALLED_KILLS <= len(causes) <= STALLED_KILLS + 3  # the last rows may not arrive
    assert {attempt.exit_code for attempt in run.attempts} == {137}


@pytest.mark.parametrize("warm", STARTS)
def test_a_run_whose_core_was_killed_has_not_failed_by_itself(bench: Bench, warm: str) -> None:
    run = run_to_the_end(bench, "lose_core()", warm, retries=0)
    assert run.state == "finished"
    assert [attempt.cause for attempt in run.attempts] == ["signal", "finished"]


STARTED = '{{"msg":"server: will exit if parent process dies","ppid":{}}}\n'
NOBODY = 2**22 + 1  # beyond the highest process id
LEFT = '{"msg":"server: parent process exited, terminating service process"}\n'
TOLD = '{"msg":"handleInformTeardown: server teardown initiated"}\n'


@pytest.mark.parametrize(
    ("log", "left"),
    [
        (STARTED.format(NOBODY) + LEFT, True),
        (STARTED.format(NOBODY), False),
        (STARTED.format(os.getpid()) + STARTED.format(NOBODY) + LEFT, True),
        (STARTED.format(NOBODY) + STARTED.format(NOBODY) + LEFT + TOLD, True),
        (STARTED.format(NOBODY) + STARTED.format(NOBODY) + LEFT, False),
        (STARTED.format(NOBODY) + STARTED.format(NOBODY) + TOLD, False),
        ("", False),
    ],
    ids=["left", "killed", "agents", "told", "one-killed", "killed-beside-one", "other-wandb"],
)
def test_cores_that_share_a_log_are_told_apart(log: str, left: bool, tmp_path: Path) -> None:
    folder = tmp_path / "agent-1" / "wandb" / "run-20260101_000000-r1"
    (folder / "logs").mkdir(parents=True)
    (folder / "run-r1.wandb").touch()
    (folder / "logs" / "debug-core.log").write_text(log)
    assert has_left_its_core(str(tmp_path), "r1") == left
