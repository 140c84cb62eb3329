"""A run whose attempt was ended from outside is handed out again, and ends as if nothing was."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable

import psutil
import pytest

from deployer.agent.host.processes import send_signal
from deployer.agent.settings import WARM_VARIABLE
from deployer.model import SweepPath
from deployer.wandb_api.operations import list_agents
from tests.agent.conftest import Bench, Supervised, wait_for
from tests.faults.memory import small_memory

pytestmark = pytest.mark.slow

PAUSE_SECONDS = 0.05
LIMIT_BYTES = 600 << 20  # a supervisor, an agent and a modest trainer need half of it

# tests/faults has whole sweeps of the other kinds.
KINDS = [
    "quitting",
    *(
        pytest.param(kind, marks=pytest.mark.full)
        for kind in ("deaf", "plain", "forking", "forgetful")
    ),
]


def processes_of(supervised: Supervised, *words: str) -> list[psutil.Process]:
    """Return an agent's processes whose command line holds one of the words."""
    found = []
    for process in supervised.left():
        with contextlib.suppress(psutil.NoSuchProcess):  # it may end at any moment
            one = psutil.Process(process.id)
            if any(word in part for word in words for part in one.cmdline()):
                found.append(one)
    return found


def kill_supervisor(supervised: Supervised) -> None:
    """Kill a supervisor; its agent and its run go on."""
    supervised.process.kill()
    supervised.process.wait()


def end_by_stop(supervised: Supervised) -> None:
    """Stop a supervisor as Kubernetes and `down` do."""
    supervised.process.terminate()
    assert supervised.wait()[0] == 143
    assert supervised.left() == []


def end_by_agents_death(supervised: Supervised) -> None:
    """Kill the `wandb agent` alone."""
    assert supervised.status is not None
    send_signal(supervised.status.agent_process_id or 0, signal.SIGKILL)
    assert supervised.wait()[0] == 137
    assert supervised.left() == []


def kill_everything(supervised: Supervised) -> None:
    """Kill all at the same moment, as when a machine dies."""
    kill_supervisor(supervised)
    for process in supervised.left():
        send_signal(process.id, signal.SIGKILL)
    wait_for(lambda: not supervised.left(), "the end of all processes")


def lose_machine(supervised: Supervised) -> None:
    """Kill all; the successor is on another machine."""
    kill_everything(supervised)
    record = supervised.folder / "witness.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "boot": "another"}))


def finish(bench: Bench, path: SweepPath, steps: int, folder: str = "agent-1") -> None:
    """Let a successor, of the same name or another, see the run through; check all that it left."""
    code, output = bench.start_with_own_key(path, folder=folder).wait()
    assert code == 0, output
    run = bench.read_run(path)
    assert (run.state, run.exit_code) == ("finished", 0)
    assert run.steps == tuple(range(steps)), output


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_run_is_free_at_once_and_ends_right(bench: Bench, kind: str) -> None:
    path = bench.create_stepping_sweep(kind, pause=PAUSE_SECONDS)
    hold = bench.folder / "hold"
    hold.write_text("2")
    # What a run has left behind must not use up the time that is the run's.
    supervised = bench.start_with_own_key(path, grace=2.0 if kind == "deaf" else 3600.0)
    bench.wait_for_step(2)
    end_by_stop(supervised)
    hold.unlink()
    assert bench.read_run(path).state == "preempted"
    assert bench.causes(path) == ["interrupted"]
    finish(bench, path, 8)
    assert bench.causes(path) == ["interrupted", "finished"]
    assert (bench.firsts()[1] == 0) == (kind == "forgetful")


@pytest.mark.full
def test_a_run_whose_agent_died_is_free_at_once_and_resumes_with_any_other(bench: Bench) -> None:
    path = bench.create_stepping_sweep()
    supervised = bench.start_with_own_key(path)
    bench.wait_for_step(2)
    end_by_agents_death(supervised)
    assert bench.causes(path) == ["signal"]
    finish(bench, path, 8, folder="agent-2")
    run = bench.read_run(path)
    [kept] = (bench.folder / "agents").glob(f"checkpoints/{path.sweep_id}/{run.name}/last.json")
    assert kept.read_text() == "7"
    assert bench.firsts()[1] > 2
    assert os.listdir(kept.parent) == ["last.json"]


@pytest.mark.full
def test_a_run_is_free_that_was_assigned_and_has_not_started(bench: Bench) -> None:
    path = bench.create_stepping_sweep()
    supervised = bench.start_with_own_key(path)
    wait_for(lambda: bench.runs(path), "the assignment")
    assert [agent.state for agent in list_agents(bench.client, path)] == ["RUNNING"]
    end_by_stop(supervised)
    assert [agent.state for agent in list_agents(bench.client, path)] == ["FINISHED"]
    assert bench.read_run(path).state == "preempted"
    assert bench.causes(path) == ["interrupted"]
    finish(bench, path, 8)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["plain", "quitting"])
def test_a_successor_clears_away_what_a_killed_supervisor_left(bench: Bench, kind: str) -> None:
    path = bench.create_stepping_sweep(kind, steps=20)
    supervised = bench.start_with_own_key(path)
    bench.wait_for_step(2)
    kill_supervisor(supervised)
    assert processes_of(supervised, "train.py")
    finish(bench, path, 20)
    assert bench.causes(path) == ["signal", "finished"]


@pytest.mark.full
def test_a_run_that_dies_by_signal_is_handed_out_again_at_once(bench: Bench) -> None:
    path = bench.create_stepping_sweep(steps=20)
    supervised = bench.start_with_own_key(path)
    bench.wait_for_step(2)
    [trainer] = processes_of(supervised, "train.py")
    trainer.kill()
    trainer.wait()
    killed = time.monotonic()
    wait_for(lambda: bench.causes(path)[0] == "signal", "the report of its death")
    # The agent looks every 5 s; the server by itself would wait 20 s for an exit record.
    assert time.monotonic() - killed < 12
    assert supervised.wait()[0] == 0
    assert bench.read_run(path).steps == tuple(range(20))
    assert bench.causes(path) == ["signal", "finished"]


BOOTING = """
import pathlib, time
while not pathlib.Path("booted").exists():
    time.sleep(0.05)
"""


@pytest.mark.full
def test_a_run_that_is_killed_while_it_boots_does_not_wait_for_all_others(bench: Bench) -> None:
    trainer = bench.folder / "train.py"
    trainer.write_text(BOOTING + trainer.read_text())
    path = bench.create_sweep("[1.0, 2.0, 3.0]")
    supervised = bench.start_with_own_key(path)
    wait_for(lambda: processes_of(supervised, "train.py"), "a run")
    [booting] = processes_of(supervised, "train.py")
    [first] = bench.runs(path)
    booting.kill()
    wait_for(lambda: bench.causes_of(path, first.run_id)[0] == "signal", "the report of its death")
    (bench.folder / "booted").touch()
    code, output = supervised.wait()
    assert code == 0, output
    assert bench.causes_of(path, first.run_id) == ["signal", "finished"]
    lines = [line for line in output.splitlines() if "About to run" in line]
    # Its agent may have been given the next one in the same moment.
    assert "--lr=3" in lines[-1], lines


@pytest.mark.kube  # root
@pytest.mark.parametrize(
    "warm", ["0", pytest.param("1", marks=pytest.mark.full)], ids=["cold", "warm"]
)
def test_a_run_that_is_killed_for_its_memory_says_so(bench: Bench, warm: str) -> None:
    path = bench.create_stepping_sweep("greedy", steps=8)
    with small_memory(LIMIT_BYTES) as group:
        supervised = bench.start_with_own_key(path, enter=group, **{WARM_VARIABLE: warm})
        bench.wait_for_step(2)
        wait_for(lambda: len(bench.firsts()) > 1, "another attempt")
        assert supervised.wait()[0] == 0
    assert bench.read_run(path).steps == tuple(range(8))
    assert bench.causes(path) == ["OOM", "finished"]
    assert supervised.status
    assert supervised.status.run_start == ("warm" if warm == "1" else "")


def kill_trainer(supervised: Supervised) -> None:
    """Kill a trainer, then stop its agent."""
    _kill(supervised, "train.py")


def kill_trainer_and_core(supervised: Supervised) -> None:
    """Kill a trainer and, at the same moment, the process that delivers its data."""
    _kill(supervised, "train.py", "wandb-core")


def _kill(supervised: Supervised, *words: str) -> None:
    for process in processes_of(supervised, *words):
        process.kill()
    supervised.process.terminate()
    supervised.wait()


@pytest.mark.parametrize(
    "kill",
    [
        lose_machine,
        *(
            pytest.param(kill, marks=pytest.mark.full)
            for kill in (kill_trainer, kill_trainer_and_core)
        ),
    ],
)
def test_no_step_is_lost_or_doubled_by_a_kill(
    bench: Bench, kill: Callable[[Supervised], None]
) -> None:
    path = bench.create_stepping_sweep(steps=12, pause=PAUSE_SECONDS)
    hold = bench.folder / "hold"
    hold.write_text("4")
    # The server has heard nothing but the first row when the kill comes.
    settings = {"WANDB_X_FILE_STREAM_TRANSMIT_INTERVAL": "60"}
    supervised = bench.start_with_own_key(path, **settings)
    bench.wait_for_step(4)
    time.sleep(0.05)  # the pause itself: what was logged is on disk after 0.001 s
    kill(supervised)
    assert len(bench.read_run(path).steps) < 5 or kill is not lose_machine
    hold.unlink()
    finish(bench, path, 12)
    assert bench.firsts()[1] >= 5
    assert kill is not lose_machine or bench.causes(path) == ["node", "finished"]
