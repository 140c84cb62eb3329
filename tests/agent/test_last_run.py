"""An agent that takes one run and leaves: what its supervisor says of that run."""

from __future__ import annotations

import pytest

from deployer.agent.settings import COUNT_VARIABLE
from tests.agent.conftest import Bench
from tests.agent.test_requeue import processes_of

pytestmark = pytest.mark.slow

ONE = {COUNT_VARIABLE: "1"}


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


def test_a_wrong_command_line_is_tried_once(bench: Bench) -> None:
    (bench.folder / "train.py").write_text(
        "import argparse\nparser = argparse.ArgumentParser()\nparser.parse_args()\n"
    )
    path = bench.create_sweep("[1.0]")
    assert bench.start_with_own_key(path).wait()[0] == 0
    assert bench.causes(path) == ["usage error"]
    [run] = bench.runs(path)
    assert (run.state, run.exit_code) == ("failed", 2)


def test_a_trainer_that_never_starts_has_failed_by_itself(bench: Bench) -> None:
    (bench.folder / "train.py").write_text("raise SystemExit('no such data set')\n")
    path = bench.create_sweep("[1.0]")
    assert bench.start_with_own_key(path, **ONE).wait()[0] == 75
    assert bench.start_with_own_key(path, **ONE).wait()[0] == 0
    assert bench.causes(path) == ["own failure", "own failure"]
    assert [run.state for run in bench.runs(path)] == ["failed"]
