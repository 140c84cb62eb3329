"""An agent that takes one run and leaves: what its supervisor says of that run."""

from __future__ import annotations

import pytest

from deployer.agent.settings import COUNT_VARIABLE
from deployer.model import SweepPath
from deployer.wandb_api.operations import get_log_tail
from tests.agent.conftest import Bench, wait_for
from tests.agent.test_requeue import processes_of

pytestmark = pytest.mark.slow

ONE = {COUNT_VARIABLE: "1"}


def last_words(bench: Bench, path: SweepPath) -> str:
    """Return the last line of what the server has of a sweep's only run."""
    [run] = bench.runs(path)
    return get_log_tail(bench.client, path, run.run_id, 1)[0]


@pytest.mark.full
def test_a_run_that_is_killed_needs_an_agent_again(bench: Bench) -> None:
    path = bench.create_sweep("[1.0, 2.0]", wait="yes")
    first = bench.start_with_own_key(path, **ONE)
    bench.wait_for_work()
    [trainer] = processes_of(first, "train.py")
    trainer.kill()
    code, output = first.wait()
    assert (code, "its run is handed out again" in output) == (75, True), output
    assert [run.state for run in bench.runs(path)] == ["preempted"]
    bench.release()
    assert bench.start_with_own_key(path, **ONE).wait()[0] == 0
    assert [run.state for run in bench.runs(path)] == ["finished"]
    assert bench.causes(path)[-1] == "finished"


def test_a_trainer_that_never_starts_has_failed_by_itself(bench: Bench) -> None:
    (bench.folder / "train.py").write_text("raise SystemExit('no such data set')\n")
    path = bench.create_sweep("[1.0]")
    assert bench.start_with_own_key(path, **ONE).wait()[0] == 75
    assert bench.start_with_own_key(path, **ONE).wait()[0] == 0
    assert bench.causes(path) == ["own failure", "own failure"]
    [run] = bench.runs(path)
    assert (run.state, [attempt.exit_code for attempt in run.attempts]) == ("failed", [1, 1])
    assert last_words(bench, path) == "no such data set"


ENDING_LATE = """
import pathlib, time
import wandb

with wandb.init() as run:
    run.log({"loss": 1.0})
pathlib.Path("delivered").touch()
while True:
    time.sleep(0.05)
"""


@pytest.mark.full
def test_a_trainer_that_is_killed_behind_its_last_row_has_only_delivered(bench: Bench) -> None:
    (bench.folder / "train.py").write_text(ENDING_LATE)
    path = bench.create_sweep("[1.0]")
    supervised = bench.start_with_own_key(path)
    wait_for((bench.folder / "delivered").exists, "its last row")
    [trainer] = processes_of(supervised, "train.py")
    trainer.kill()
    wait_for(lambda: bench.causes(path) == ["delivered"], "its supervisor's report")
    [run] = bench.runs(path)
    assert (run.state, run.exit_code, run.attempts[0].exit_code) == ("finished", 0, 137)
    assert supervised.wait()[0] == 0
