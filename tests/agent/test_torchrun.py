"""A run of several processes: `torchrun` in the sweep's command, on one node."""

from __future__ import annotations

import uuid

import psutil
import pytest

from deployer.wandb_api.model import SweepPath
from deployer.wandb_api.operations import create_sweep, get_sweep
from tests.agent.conftest import Bench, Supervised
from tests.agent.test_requeue import processes_of
from tests.agent.trainers import PARALLEL, PARALLEL_SWEEP

pytestmark = pytest.mark.slow

STEPS = 6
WAITS_AT = 3


def create_parallel_sweep(bench: Bench, lrs: str) -> SweepPath:
    """Make a sweep whose runs have two processes each."""
    (bench.folder / "train.py").write_text(PARALLEL)
    text = PARALLEL_SWEEP.format(lrs=lrs, steps=STEPS)
    name = f"torchrun-{uuid.uuid4().hex[:8]}"
    path, _ = create_sweep(bench.client, text, bench.backend.entity, name, uuid.uuid4().hex)
    return path


def count_ranks(supervised: Supervised) -> int:
    """Count the processes that train, without `torchrun` itself."""
    commands = [process.cmdline() for process in processes_of(supervised, "train.py")]
    return sum(not any("torchrun" in word for word in command) for command in commands)


def test_a_run_of_two_processes_is_interrupted_as_a_whole_and_resumes(bench: Bench) -> None:
    path = create_parallel_sweep(bench, "[0.01]")
    first = bench.start_with_own_key(path, grace=30.0)
    bench.wait_for_step(WAITS_AT)
    assert count_ranks(first) == 2
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
    assert [len(run.attempts) for run in bench.runs(path)] == [2]


def test_ranks_do_not_outlive_a_launcher_that_was_killed(bench: Bench) -> None:
    path = create_parallel_sweep(bench, "[0.01]")
    supervised = bench.start_with_own_key(path, grace=30.0)
    bench.wait_for_step(WAITS_AT)
    processes = processes_of(supervised, "train.py")
    [launcher] = [p for p in processes if any("torchrun" in word for word in p.cmdline())]
    ranks = [process for process in processes if process != launcher]
    launcher.kill()
    gone, alive = psutil.wait_procs(ranks, timeout=30)
    assert (len(gone), alive) == (2, [])
    bench.release()
    code, output = supervised.wait()
    assert code == 0, output
    run = bench.read_run(path)
    assert (run.state, run.steps) == ("finished", tuple(range(STEPS)))
    assert [attempt.cause for attempt in bench.runs(path)[0].attempts] == ["signal", "finished"]
