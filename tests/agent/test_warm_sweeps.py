"""Warm runs of real sweeps: delivered, stopped, killed, and never done twice."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import psutil
import pytest

import deployer.agent
from deployer.agent.host.processes import DRAIN_SIGNAL, is_agent
from deployer.agent.settings import WARM_VARIABLE
from deployer.model import SweepPath
from tests.agent.conftest import Bench, Supervised, wait_for
from tests.agent.trainers import TRAINER

pytestmark = pytest.mark.slow

WARM = {WARM_VARIABLE: "1"}


def start_warm(bench: Bench, steps: int = 20) -> tuple[SweepPath, Supervised]:
    """Start a sweep of one run, which is warm, and wait until it is in the middle."""
    path = bench.create_stepping_sweep(steps=steps)
    supervised = bench.start_with_own_key(path, **WARM)
    bench.wait_for_step(2)
    assert (supervised.folder / "start").read_text() == "warm"
    return path, supervised


def find_process(supervised: Supervised, kind: str) -> psutil.Process:
    """Return the process of the agent that is of this kind."""
    for process in supervised.left():
        with contextlib.suppress(psutil.NoSuchProcess):  # it may end at any moment
            found = psutil.Process(process.id)
            forks = "warm.fork_server" in " ".join(found.cmdline())
            forked = forks and not is_agent(process)
            kinds = {
                "agent": forks and is_agent(process),
                "stand-in": process.is_stand_in,
                "parent": forked and process.session == process.id,
                "run": forked and process.session != process.id,
            }
            if kinds[kind]:
                return found
    raise AssertionError(f"there is no {kind}")


# Notes what a run imports itself.
LOOKING = """
import atexit, pathlib, sys
class Looking:
    def __init__(self):
        self.names = []
    def find_spec(self, name, *_):
        self.names.append(name)
own = Looking()
sys.meta_path.insert(0, own)
@atexit.register
def write():
    packages = ("/site-packages/" in (getattr(sys.modules.get(n), "__file__", "") or "") and n
                for n in own.names)
    with pathlib.Path("own").open("a") as file:
        file.write(f"{sorted(filter(None, packages))}\\n")
"""


def test_all_runs_are_warm(bench: Bench) -> None:
    """None imports anew what the SDK needs late."""
    (bench.folder / "train.py").write_text(f"{LOOKING}{TRAINER}")
    path = bench.create_sweep("[1.0, 2.0, 3.0]")
    supervised = bench.start_with_own_key(path, **WARM)
    code, output = supervised.wait()
    assert code == 0, output
    assert [run.state for run in bench.runs(path)] == ["finished"] * 3
    assert sorted(run.summary["loss"] for run in bench.runs(path)) == [1.0, 2.0, 3.0]
    assert supervised.status
    assert supervised.status.run_start == "warm"
    assert "runs start cold" not in output
    assert supervised.left() == []
    assert (bench.folder / "own").read_text() == "[]\n" * 3


def test_an_agent_forks_its_parent_before_it_is_one(bench: Bench) -> None:
    _, supervised = start_warm(bench)
    agent, parent = (find_process(supervised, kind) for kind in ("agent", "parent"))
    assert parent.ppid() == agent.ppid() == supervised.process.pid
    assert parent.name() == "warm-parent"
    supervised.process.send_signal(signal.SIGTERM)
    code, output = supervised.wait()
    assert code == 143, output
    assert supervised.left() == []


def start_with_torch(bench: Bench, torch: str, path: SweepPath) -> Supervised:
    """Start an agent whose script first imports a package that is called torch."""
    packages = bench.folder.parent / "packages"
    packages.mkdir()
    (packages / "torch.py").write_text(torch)
    (bench.folder / "train.py").write_text(f"import torch\n{TRAINER}")
    own = Path(deployer.agent.__file__).parents[2]
    where = os.pathsep.join(map(str, (own, packages)))
    return bench.start_with_own_key(path, PYTHONPATH=where, **WARM)


def test_an_agent_does_not_pass_on_what_its_imports_set(bench: Bench) -> None:
    path = bench.create_sweep()
    sets = "import os\nos.environ['SET_BY_TORCH'] = '1'"
    supervised = start_with_torch(bench, sets, path)
    code, output = supervised.wait()
    assert code == 0, output
    assert supervised.status
    assert supervised.status.run_start == "warm"  # a run of another environment starts cold
    assert [run.state for run in bench.runs(path)] == ["finished"]


# Ends the process that preloads it, not a run that imports it.
DEADLY = """
import os, signal
if "WANDB_RUN_ID" not in os.environ:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.full
def test_a_package_that_kills_its_parent_does_not_keep_the_agent_from_starting(
    bench: Bench,
) -> None:
    path = bench.create_sweep("[1.0, 2.0]")
    supervised = start_with_torch(bench, DEADLY, path)
    code, output = supervised.wait()
    assert code == 0, output
    assert output.count("the agent ended while preloading packages") == 1
    assert [run.state for run in bench.runs(path)] == ["finished", "finished"]
    assert supervised.status
    assert supervised.status.run_start == "cold: the parent has ended too often"
    assert supervised.left() == []


@pytest.mark.full
@pytest.mark.parametrize("kind", ["run", "stand-in", "parent"])
def test_a_kill_loses_and_doubles_nothing(bench: Bench, kind: str) -> None:
    path, supervised = start_warm(bench)
    # Known while the run goes on.
    wait_for(lambda: supervised.status and supervised.status.run_start == "warm", "its start")
    find_process(supervised, kind).kill()
    code, output = supervised.wait()
    assert code == 0, output
    assert bench.read_run(path).steps == tuple(range(20))
    assert bench.causes(path) == ["signal", "finished"]
    assert len(bench.firsts()) == 2
    assert supervised.left() == []


def test_a_stop_interrupts_once_and_delivers_all(bench: Bench) -> None:
    path, supervised = start_warm(bench, steps=1000)
    supervised.process.send_signal(signal.SIGTERM)
    code, output = supervised.wait()
    assert code == 143, output
    assert output.count("KeyboardInterrupt") == 1
    assert supervised.left() == []
    [run] = bench.runs(path)
    assert run.state == "preempted"
    steps = bench.read_run(path).steps
    assert steps == tuple(range(len(steps)))
    noted = int((bench.folder / "step").read_text())
    assert len(steps) in (noted + 1, noted + 2)  # a stop may come between a step and its note


@pytest.mark.full
def test_a_drain_lets_a_warm_run_end_and_takes_no_other(bench: Bench) -> None:
    path = bench.create_sweep("[1.0, 2.0]", wait="yes")
    supervised = bench.start_with_own_key(path, **WARM)
    bench.wait_for_work()
    supervised.process.send_signal(DRAIN_SIGNAL)  # as `agents drain` does
    wait_for(lambda: supervised.status and supervised.status.state == "draining", "the drain")
    bench.release()
    code, output = supervised.wait()
    assert code == 0, output
    assert supervised.status
    assert (supervised.status.drained, supervised.status.run_start) == (True, "warm")
    assert [run.state for run in bench.runs(path)] == ["finished"]
    assert supervised.left() == []


@pytest.mark.full
def test_what_a_killed_supervisor_left_is_cleared(bench: Bench) -> None:
    path, supervised = start_warm(bench)
    os.kill(supervised.process.pid, signal.SIGKILL)
    code, output = bench.start_with_own_key(path, folder=supervised.folder.name, **WARM).wait()
    assert code == 0, output
    assert bench.read_run(path).steps == tuple(range(20))
    wait_for(lambda: supervised.left() == [], "the end of what was left")
