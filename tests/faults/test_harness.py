"""The fault harness itself: it kills and moves clocks as asked, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import psutil
import pytest
import requests  # noqa: TID251 - a test is a client of its own

from tests.conftest import ServedBackend, serve_backend
from tests.faults.chaos import Chaos
from tests.faults.clock import Clock
from tests.faults.processes import find_processes, wait_until_gone
from tests.faults.proof import RunRecord, find_problems
from tests.faults.steps import Steps


def sleeper(state: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start a process that lasts, with the marker of a test."""
    return subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)", *words],
        env={**os.environ, "DEPLOYER_HOME": str(state)},
    )


def test_chaos_kills_its_own_and_stops_by_itself(tmp_path: Path) -> None:
    mine = [sleeper(tmp_path / "mine", "train.py", str(n)) for n in range(2)]
    others = [sleeper(tmp_path / "theirs", "train.py"), sleeper(tmp_path / "mine", "no-kind")]
    try:
        with Chaos(tmp_path / "mine", 5, ["trainer"], kills=2, every_seconds=(0.05, 0.1)) as chaos:
            assert {process.wait(20) for process in mine} == {-signal.SIGKILL}
        assert chaos.done
        assert {kill.process_id for kill in chaos.journal} == {process.pid for process in mine}
        assert {(kill.kind, kill.signal) for kill in chaos.journal} == {("trainer", signal.SIGKILL)}
        assert [process.poll() for process in others] == [None, None]
    finally:
        for process in [*mine, *others]:
            process.kill()
            process.wait()
    assert wait_until_gone(tmp_path / "mine") == []


def test_chaos_lets_a_stopped_process_go_on(tmp_path: Path) -> None:
    process = sleeper(tmp_path, "train.py")
    try:
        stop = [signal.SIGSTOP]
        with Chaos(tmp_path, 1, ["trainer"], stop, kills=1, every_seconds=(0.0, 0.1)) as chaos:
            deadline = time.monotonic() + 20
            while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
                assert time.monotonic() < deadline, "it was never stopped"
                time.sleep(0.01)
        assert [kill.signal for kill in chaos.journal] == [signal.SIGSTOP]
        assert psutil.Process(process.pid).status() != psutil.STATUS_STOPPED
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_every_process_of_a_backend_is_found_by_its_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOYER_HOME", str(tmp_path / "state"))
    served = serve_backend(tmp_path / "state" / "backend", afresh=True)
    try:
        found = [(o.kind, o.process.pid) for o in find_processes(tmp_path / "state")]
        assert found == [("backend", served.process.pid)]
    finally:
        served.end()


@pytest.mark.slow
def test_the_clock_of_a_backend_is_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(tmp_path / "clock")
    for name, value in clock.environment.items():
        monkeypatch.setenv(name, value)
    served = serve_backend(tmp_path / "data")
    try:
        times = [created_at(served, "now")]
        clock.move(3600)
        times.append(created_at(served, "ahead"))
        clock.move(-3600)
        times.append(created_at(served, "behind"))
    finally:
        served.end()
    assert 3590 < times[1] - times[0] < 3660
    assert -3610 < times[2] - times[0] < -3540


def created_at(backend: ServedBackend, run: str) -> float:
    """Make a run and return the backend's time of it, in seconds since the epoch."""
    made = f'upsertBucket(input: {{modelName: "clock", name: "{run}"}}) {{ inserted }}'
    question = f'{{ project(name: "clock") {{ run(name: "{run}") {{ createdAt }} }} }}'
    for text in (f"mutation {{ {made} }}", question):
        reply = requests.post(
            f"{backend.url}/graphql", json={"query": text}, auth=("api", backend.key), timeout=20
        ).json()
    stamp = reply["data"]["project"]["run"]["createdAt"].rstrip("Z")
    return datetime.fromisoformat(f"{stamp}+00:00").timestamp()


def line(event: str, process: int, at: float, step: int | None = None) -> str:
    said = {"at": at, "process": process, "event": event, "step": step, "run": "r"}
    return json.dumps(said) + "\n"


def test_a_trainer_that_waits_at_a_step_is_found(tmp_path: Path) -> None:
    steps = Steps(tmp_path)
    me, gone = os.getpid(), 2**22 + 1  # beyond the largest process id
    told = [line("step", gone, 1.0, 5), line("step", me, 1.1, 4), line("step", me, 1.2, 5)]
    (tmp_path / "trace.jsonl").write_text("".join(told) + '{"half a li')
    assert [one.pid for one in steps.find_waiting(5)] == [me]
    assert steps.find_waiting(4) == []
    steps.hold_at(5)
    assert (tmp_path / "hold").read_text() == "5"
    steps.hold_at(None)
    assert not (tmp_path / "hold").exists()


def test_a_child_that_outlives_its_attempt_is_a_ghost(tmp_path: Path) -> None:
    first = [line("begin", 1, 1.0), line("child", 1, 1.5)]
    second = [line("begin", 2, 2.0), line("child", 2, 2.5)]
    (tmp_path / "trace.jsonl").write_text("".join([*first, *second]))
    assert Steps(tmp_path).list_ghosts() == []
    (tmp_path / "trace.jsonl").write_text("".join([*first, *second, line("child", 1, 2.6)]))
    assert [ghost["at"] for ghost in Steps(tmp_path).list_ghosts()] == [2.6]


ONE = {"lr": 0.1, "optimizer": {"name": "sgd"}}
TWO = {"lr": 0.2, "optimizer": {"name": "sgd"}}


def record(name: str, config: object, steps: tuple[int, ...], state: str = "finished") -> RunRecord:
    assert isinstance(config, dict)
    return RunRecord(name, state, 0, {**config, "extra": 1}, len(steps), steps)


@pytest.mark.parametrize(
    ("runs", "problem"),
    [
        ([record("a", ONE, (0, 1, 2)), record("b", TWO, (0, 1, 2))], None),
        ([record("a", ONE, (0, 1, 2))], "finished 0 times"),
        (
            [record("a", ONE, (0, 1, 2)), record("b", TWO, (0, 1, 2)), record("c", ONE, (0, 1, 2))],
            "finished 2 times",
        ),
        ([record("a", ONE, (0, 1, 1, 2)), record("b", TWO, (0, 1, 2))], "a has steps [1] doubled"),
        ([record("a", ONE, (0, 2)), record("b", TWO, (0, 1, 2))], "a lacks steps [1]"),
        ([record("a", ONE, (0, 1, 2, 3)), record("b", TWO, (0, 1, 2))], "that it never trained"),
        ([record("a", ONE, (0, 2, 1)), record("b", TWO, (0, 1, 2))], "out of order"),
        ([record("a", ONE, (0, 1, 2)), record("b", TWO, (0,), "crashed")], "b is crashed"),
    ],
)
def test_the_proof_sees_what_is_wrong(runs: list[RunRecord], problem: str | None) -> None:
    problems = find_problems(runs, [ONE, TWO], 3)
    if problem is None:
        assert problems == []
    else:
        assert any(problem in said for said in problems), problems
