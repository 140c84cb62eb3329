"""A run of several processes: `torchrun` in the sweep's command, on one node."""

from __future__ import annotations

import uuid

import psutil
import pytest

from deployer.model import SweepPath
from deployer.wandb_api.operations import create_sweep, get_sweep
from tests.agent.conftest import Bench
from tests.agent.test_requeue import processes_of
from tests.agent.trainers import PARALLEL, PARALLEL_SWEEP

pytestmark = pytest.mark.full

STEPS = 6
WAITS_AT = 3


def create_parallel_sweep(bench: Bench, lrs: str) -> SweepPath:
    """Make a sweep whose runs have two processes each."""
    (bench.folder / "train.py").write_text(PARALLEL)
    text = PARALLEL_SWEEP.format(lrs=lrs, steps=STEPS)
    name = f"torchrun-{uuid.uuid4().hex[:8]}"
    path, _ = create_sweep(bench.client, text, bench.backend.entity, name, uuid.uuid4().hex)
    return path


def is_torchrun(process: psutil.Process) -> bool:
    return any("torchrun" in word for word in process.cmdline())


def test_a_run_of_two_processes_ends_as_a_whole_and_resumes(bench: Bench) -> None:
    path = create_parallel_sweep(bench, "[0.01]")
    first = bench.start_with_own_key(path, grace=30.0)
    bench.wait_for_step(WAITS_AT)
    processes = processes_of(first, "train.py")
    [launcher] = [process for process in processes if is_torchrun(process)]
    ranks = [process for process in processes if process != launcher]
    assert len(ranks) == 2
    launcher.kill()
    assert psutil.wait_procs(ranks, timeout=30)[1] == []

    bench.wait_for_step(WAITS_AT + 1)
    first.process.terminate()
    code, output = first.wait()
    assert code == 143, output
    assert first.left() == []

    bench.release()
    second = bench.start_with_own_key(path, grace=30.0)
    code, output = second.wait()
    assert code == 0, output
    assert get_sweep(bench.client, path).state == "FINISHED"
    run = bench.read_run(path)
    assert (run.state, run.steps) == ("finished", tuple(range(STEPS)))
    [row] = bench.runs(path)
    assert [attempt.cause for attempt in row.attempts] == ["signal", "interrupted", "finished"]
