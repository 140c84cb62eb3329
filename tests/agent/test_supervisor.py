"""A real supervisor around the real `wandb agent`, on a real server."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from deployer.agent.host.processes import TICK_SECONDS
from deployer.model import SweepPath
from deployer.wandb_api.operations import get_sweep, list_agents, set_sweep_state
from tests.agent.conftest import PATIENCE_SECONDS, Bench, Supervised, wait_for
from tests.conftest import FOREIGN_KEY, serve_backend

pytestmark = pytest.mark.slow

MEMORY_GOAL_BYTES = 20 << 20


def child_of(supervised: Supervised) -> psutil.Process:
    """Return the process of the `wandb agent`."""
    assert supervised.status is not None
    return psutil.Process(supervised.status.agent_process_id)


def refuse_second(bench: Bench, first: Supervised, path: SweepPath) -> None:
    """See that a second supervisor is refused the first one's folder, and changes nothing in it."""
    command = [sys.executable, "-P", "-m", "deployer.agent", str(path)]
    second = subprocess.run(
        [*command, "--folder", str(first.folder)],
        env={**os.environ, **bench.backend.environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert second.returncode == 1
    assert "works in" in second.stderr
    assert json.loads((first.folder / "status.json").read_text())["state"] == "running"


def test_zero_when_the_sweep_is_finished(bench: Bench) -> None:
    """Until then the status names the run, and the supervisor stays small."""
    path = bench.create_sweep(wait="yes")
    supervised = bench.start(path)
    bench.wait_for_work()
    [run] = bench.runs(path)
    wait_for(lambda: supervised.status and supervised.status.run_id == run.run_id, "the run's id")
    assert supervised.status is not None
    assert supervised.status.state == "running"
    assert psutil.Process(supervised.process.pid).memory_info().rss < MEMORY_GOAL_BYTES
    bench.release()
    code, output = supervised.wait()
    assert code == 0, output
    assert [run.state for run in bench.runs(path)] == ["finished"]
    assert "Agent received command: exit" in output
    status = supervised.status
    assert status is not None
    assert (status.state, status.exit_code, status.runs_ended) == ("ended", 0, 1)
    assert status.run_id is None
    assert supervised.left() == []
    assert bench.backend.key not in output


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)]
)
def test_143_and_all_delivered_when_stopped_with_a_run(bench: Bench, number: int) -> None:
    path = bench.create_sweep("[1.0, 2.0]", wait="yes")
    supervised = bench.start(path)
    bench.wait_for_work()
    refuse_second(bench, supervised, path)
    supervised.process.send_signal(number)
    supervised.process.send_signal(number)
    assert supervised.wait()[0] == 143
    assert supervised.left() == []
    [run] = bench.runs(path)
    assert run.exit_code == 1  # the record that a `with wandb.init()` leaves when interrupted
    assert run.summary["loss"] == 1.0
    assert run.state == "preempted"


def test_143_when_stopped_before_the_first_run(bench: Bench) -> None:
    path = bench.create_sweep()
    supervised = bench.start(path)
    wait_for(lambda: supervised.status and supervised.status.agent_process_id, "the agent")
    supervised.process.terminate()
    assert supervised.wait()[0] == 143
    assert supervised.left() == []


def test_a_trainer_that_ignores_every_request_is_killed_after_the_grace_time(bench: Bench) -> None:
    path = bench.create_sweep(wait="yes", deaf="yes")
    supervised = bench.start(path, grace=0.5)
    bench.wait_for_work()
    supervised.process.terminate()
    assert supervised.wait()[0] == 143
    assert supervised.left() == []
    assert [(run.state, run.exit_code) for run in bench.runs(path)] == [("preempted", 255)]


def test_78_for_a_key_that_the_server_refuses(bench: Bench) -> None:
    code, output = bench.start(bench.create_sweep(), key=FOREIGN_KEY).wait()
    assert (code, "the key was refused" in output) == (78, True), output


def test_78_without_a_key(bench: Bench) -> None:
    code, output = bench.start("me/proj/sweep", key="").wait()
    assert (code, "WANDB_API_KEY is not set" in output) == (78, True), output


def test_78_for_a_sweep_that_is_not_there(bench: Bench) -> None:
    path = bench.create_sweep()._replace(sweep_id="nosuch00")
    code, output = bench.start(path).wait()
    assert (code, "no such sweep" in output) == (78, True), output


def test_78_for_what_is_no_sweep_path(bench: Bench) -> None:
    code, output = bench.start("a/b/c/d").wait()
    assert (code, "is not ENTITY/PROJECT/SWEEP_ID" in output) == (78, True), output


def test_78_for_what_is_no_address(bench: Bench) -> None:
    code, output = bench.start("a/b/c", url="localhost:8080").wait()
    assert (code, "'localhost:8080' is not an address" in output) == (78, True), output


def test_a_proxy_is_not_asked_for_a_server_on_this_machine(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.create_sweep()
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    code, output = bench.start(path, key=FOREIGN_KEY).wait()
    assert (code, "the key was refused" in output) == (78, True), output


def test_zero_without_starting_an_agent_on_a_sweep_that_has_ended(bench: Bench) -> None:
    path = bench.create_sweep()
    set_sweep_state(bench.client, get_sweep(bench.client, path), "CANCELED")
    supervised = bench.start(path)
    code, output = supervised.wait()
    assert (code, "already CANCELED" in output) == (0, True), output
    assert supervised.status is not None
    assert supervised.status.agent_process_id is None


def test_a_server_that_is_not_up_yet_is_waited_for(bench: Bench, tmp_path: Path) -> None:
    first = serve_backend(tmp_path / "data")
    mine = replace(bench, backend=first)
    path = mine.create_sweep()
    first.end()
    supervised = mine.start(path)
    wait_for(lambda: supervised.status and "does not answer" in supervised.status.reason, "waiting")
    again = serve_backend(tmp_path / "data", port=int(first.url.rpartition(":")[2]))
    code, output = supervised.wait()
    states = [run.state for run in mine.runs(path)]
    again.end()
    assert (code, states) == (0, ["finished"]), output


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGUSR1, 0)])
def test_a_supervisor_that_waits_for_a_server_leaves_at_once(
    bench: Bench, number: int, code: int
) -> None:
    supervised = bench.start("me/proj/sweep", url="http://127.0.0.1:1")
    wait_for(lambda: supervised.status and supervised.status.reason, "a reason")
    supervised.process.send_signal(number)
    assert supervised.wait()[0] == code


def test_a_server_that_hangs_does_not_delay_a_stop(bench: Bench) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        supervised = bench.start("me/proj/s", url=f"http://127.0.0.1:{silent.getsockname()[1]}")
        silent.accept()
        supervised.process.terminate()
        assert supervised.process.wait(10) == 143
    assert supervised.left() == []


def test_a_drain_lets_the_run_end_and_takes_no_other(bench: Bench) -> None:
    path = bench.create_sweep("[1.0, 2.0]", wait="yes")
    supervised = bench.start(path)
    bench.wait_for_work()
    supervised.process.send_signal(signal.SIGUSR1)
    wait_for(lambda: supervised.status and supervised.status.state == "draining", "draining")
    bench.release()
    assert supervised.wait()[0] == 0
    assert [run.state for run in bench.runs(path)] == ["finished"]
    assert supervised.left() == []


@pytest.mark.full
def test_an_agent_that_hangs_after_its_run_is_drained_all_the_same(bench: Bench) -> None:
    path = bench.create_sweep("[1.0, 2.0]", wait="yes")
    supervised = bench.start(path)
    bench.wait_for_work()
    child_of(supervised).suspend()
    supervised.process.send_signal(signal.SIGUSR1)
    wait_for(lambda: supervised.status and supervised.status.state == "draining", "draining")
    bench.release()
    code, output = supervised.wait()
    assert code == 0, output
    assert [run.state for run in bench.runs(path)] == ["finished"]
    assert supervised.left() == []


@pytest.mark.full
def test_a_stop_ends_a_drain(bench: Bench) -> None:
    supervised = bench.start(bench.create_sweep(wait="yes"))
    bench.wait_for_work()
    supervised.process.send_signal(signal.SIGUSR1)
    wait_for(lambda: supervised.status and supervised.status.state == "draining", "draining")
    supervised.process.terminate()
    assert supervised.wait()[0] == 143
    assert supervised.left() == []


@pytest.mark.full
def test_137_and_no_orphan_when_the_agent_is_killed(bench: Bench) -> None:
    path = bench.create_sweep(wait="yes")
    supervised = bench.start(path)
    bench.wait_for_work()
    child_of(supervised).kill()
    assert supervised.wait()[0] == 137
    assert supervised.left() == []
    assert [(run.state, run.exit_code) for run in bench.runs(path)] == [("preempted", 1)]


def last_beat(bench: Bench, path: SweepPath) -> float:
    """Return when the server has heard from the sweep's agents, in seconds since the epoch."""
    return max((agent.heartbeat_at or 0.0 for agent in list_agents(bench.client, path)), default=0)


@pytest.mark.full
def test_an_idle_agent_that_lost_its_core_ends_instead_of_waiting_for_ever(bench: Bench) -> None:
    path = bench.create_sweep()
    set_sweep_state(bench.client, get_sweep(bench.client, path), "PAUSED")
    supervised = bench.start(path)
    wait_for(lambda: supervised.status and supervised.status.agent_process_id, "the agent")
    # A core that dies before the supervisor has looked once is one that it still waits for.
    wait_for(lambda: last_beat(bench, path), "a heartbeat by the agent's core")
    first = last_beat(bench, path)
    wait_for(lambda: last_beat(bench, path) > first + 4 * TICK_SECONDS, "more heartbeats")
    for core in child_of(supervised).children():
        core.kill()
    code, output = supervised.wait()
    assert code == 1
    assert "the agent's wandb-core died" in output
    assert supervised.left() == []
