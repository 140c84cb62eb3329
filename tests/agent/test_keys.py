"""Which key an agent works with: one of its own, which fences others."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from deployer.agent.host.processes import send_signal
from deployer.model import SweepPath
from deployer.wandb_api.operations import create_agent_keys
from tests.agent.conftest import Bench, wait_for

pytestmark = pytest.mark.slow

# Says which key it has, and waits at its third step for the file `go`, or one of its own.
TRAINER = """
import argparse, os, pathlib, time
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--wait")
parser.add_argument("--deaf")
arguments = parser.parse_args()
with wandb.init() as run:
    for step in range(4):
        run.log({"loss": arguments.lr / (step + 1)}, step=step, commit=True)
        if step == 2:
            pathlib.Path("key-" + run.id).write_text(os.environ["WANDB_API_KEY"])
            pathlib.Path("at-work-" + run.id).touch()
            own = pathlib.Path(f"go-{arguments.lr:g}")
            while not (own.exists() or pathlib.Path("go").exists()):
                time.sleep(0.05)
"""


def keys_of_runs(bench: Bench, path: SweepPath) -> list[str]:
    """Return the key that each run had, in the order of the grid."""
    runs = sorted(bench.runs(path), key=lambda run: run.title or run.run_id)
    return [(bench.folder / f"key-{run.run_id}").read_text() for run in runs]


def test_second_supervisor_with_the_same_key_fences_the_first(bench: Bench, tmp_path: Path) -> None:
    """As when a node is cut off: both live, and neither sees the other's folder."""
    other = Bench(bench.backend, tmp_path / "other node", bench.started)
    path = bench.create_sweep()
    key = create_agent_keys(bench.client, path, ("a1",), "m")["a1"]
    for each in (bench, other):
        each.folder.mkdir(exist_ok=True)
        (each.folder / "train.py").write_text(TRAINER)
    cut_off = bench.start(path, key=key, folder="a1")
    bench.wait_for_work()
    replacement = other.start(path, key=key, folder="a1")
    other.wait_for_work()
    [run] = bench.runs(path)
    assert [attempt.cause for attempt in run.attempts] == ["node", None]
    bench.release()
    code, output = cut_off.wait()
    assert code == 1, output
    assert "the server denied the sweep or the agent" in output
    assert [run.state for run in bench.runs(path)] == ["running"]
    other.release()
    assert replacement.wait()[0] == 0
    runs = bench.runs(path)
    assert [(run.state, len(run.attempts)) for run in runs] == [("finished", 2)]
    assert keys_of_runs(other, path)[0] != key


@pytest.mark.full
def test_successor_with_the_same_key_clears_up_after_its_predecessor(bench: Bench) -> None:
    """As a Job's next pod: the given key is older than the one by which the runs were owned."""
    path = bench.create_stepping_sweep(steps=8, pause=0.5)
    key = create_agent_keys(bench.client, path, ("a1",), "m")["a1"]
    killed = bench.start(path, key=key, folder="a1")
    bench.wait_for_step(2)
    killed.process.kill()
    killed.process.wait()
    again = bench.start(path, key=key, folder="a1")
    wait_for(lambda: len(bench.firsts()) > 1, "another attempt")
    assert bench.causes(path) == ["signal", None]
    again.process.kill()
    for process in again.left():
        send_signal(process.id, signal.SIGKILL)
    wait_for(lambda: not again.left(), "the end of all processes")
    assert bench.start(path, key=key, folder="a1").wait()[0] == 0
    assert bench.causes(path) == ["signal", "signal", "finished"]
    assert bench.read_run(path).steps == tuple(range(8))
