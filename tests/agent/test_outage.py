"""A server that is away: runs go on, end, give up their place, and lose nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.agent.conftest import Bench, wait_for
from tests.agent.test_requeue import kill_everything, processes_of
from tests.conftest import ServedBackend, serve_backend

pytestmark = pytest.mark.slow


@dataclass
class Outage:
    """A bench with a backend of its own, which can go away and come back."""

    bench: Bench
    backend: ServedBackend

    def begin(self) -> None:
        """Let the server die."""
        self.backend.kill()

    def end(self) -> None:
        """Let the server come back where it was."""
        port = int(self.backend.url.rpartition(":")[2])
        self.backend = serve_backend(self.backend.data, port=port)


@pytest.fixture
def outage(bench: Bench, tmp_path: Path) -> Iterator[Outage]:
    """Serve a backend that can go away, and a bench on it."""
    backend = serve_backend(tmp_path / "data")
    found = Outage(replace(bench, backend=backend), backend)
    yield found
    found.begin()


@pytest.mark.full
def test_data_flows_within_ten_seconds_of_the_servers_return(outage: Outage) -> None:
    bench = outage.bench
    path = bench.create_stepping_sweep(steps=400, pause=0.2)
    supervised = bench.start_with_own_key(path)
    bench.wait_for_step(2)
    outage.begin()
    time.sleep(20)  # the outage itself is a time
    step = int((bench.folder / "step").read_text())
    outage.end()
    back = time.monotonic()
    wait_for(lambda: step in bench.read_run(path).steps, "what was logged in the meantime")
    assert time.monotonic() - back < 10
    supervised.process.terminate()
    assert supervised.wait()[0] == 143
    assert bench.causes(path) == ["interrupted"]


def test_a_run_that_has_ended_gives_up_its_place_and_is_delivered_later(outage: Outage) -> None:
    bench = outage.bench
    path = bench.create_stepping_sweep()
    settings = {"DEPLOYER_AGENT_FINISH_TIMEOUT_SECONDS": "2"}
    supervised = bench.start_with_own_key(path, **settings)
    bench.wait_for_step(2)
    outage.begin()
    wait_for(lambda: (bench.folder / "ended").exists(), "the trainer's end")
    wait_for(lambda: not processes_of(supervised, "train.py"), "the end of its process")
    outage.end()
    code, output = supervised.wait()
    run = bench.read_run(path)
    assert (code, run.state, run.exit_code) == (0, "finished", 0), output
    assert run.steps == tuple(range(8))
    assert bench.causes(path) == ["finished"]
    assert bench.runs(path)[0].summary["loss"] == pytest.approx(1 / 8)


def test_what_ended_unheard_is_delivered_by_the_next_supervisor(outage: Outage) -> None:
    bench = outage.bench
    path = bench.create_stepping_sweep()
    supervised = bench.start_with_own_key(path)
    bench.wait_for_step(2)
    outage.begin()
    # It waits in `finish` for the server when the machine dies.
    trainer = processes_of(supervised, "train.py")
    bench.wait_for_step(7)
    assert trainer
    wait_for(lambda: _exit_is_on_disk(supervised.folder), "the exit record")
    kill_everything(supervised)
    outage.end()
    code, output = bench.start_with_own_key(path).wait()
    run = bench.read_run(path)
    assert (code, run.state, run.exit_code) == (0, "finished", 0), output
    assert run.steps == tuple(range(8))
    assert bench.causes(path) == ["delivered"]  # nobody saw its trainer end
    assert len(bench.firsts()) == 1


def _exit_is_on_disk(folder: Path) -> bool:
    from deployer.agent.runs.local_runs import read_run

    files = list(folder.glob("wandb/run-*/run-*.wandb"))
    return bool(files) and read_run(str(files[0])).exit_code is not None


@pytest.mark.full
def test_a_stop_while_the_server_is_away_is_made_good_by_the_next_supervisor(
    outage: Outage,
) -> None:
    bench = outage.bench
    path = bench.create_stepping_sweep("quitting", steps=60)
    supervised = bench.start_with_own_key(path, grace=2.0)
    bench.wait_for_step(2)
    outage.begin()
    supervised.process.terminate()
    assert supervised.wait()[0] == 143
    step = int((bench.folder / "step").read_text())
    outage.end()
    (bench.folder / "train.py").write_text(
        (bench.folder / "train.py").read_text().replace("arguments.steps)", "first + 3)")
    )
    code, output = bench.start_with_own_key(path).wait()
    assert code == 0, output
    steps = bench.read_run(path).steps
    # The trainer may have been ended between its checkpoint and its note of the step.
    assert steps in (tuple(range(step + 4)), tuple(range(step + 5)))
    assert bench.causes(path) == ["interrupted", "finished"]
