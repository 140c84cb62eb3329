"""How interrupted, lost and failed runs are handed out again, with a clock that tests move."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.backend.accounts import Caller, create_agent_key, create_user, find_caller
from deployer.backend.agents import create_agent
from deployer.backend.context import Backend
from deployer.backend.dispatch import heartbeat, succeed_predecessors
from deployer.backend.ending import end_silent_runs, requeue_failed
from deployer.backend.filestream import apply_chunk
from deployer.backend.lifecycle import MAX_DELIVERIES, MEMORY_KILLS
from deployer.backend.lines import count_lines, write_lines
from deployer.backend.projects import ensure_project, project_by_id
from deployer.backend.refusal import Refusal
from deployer.backend.runs import Run, change_run, check_writer, find_run, list_attempts
from deployer.backend.sweeps import Sweep, create_sweep, sweep_by_id, update_sweep
from tests.backend.client import grid

KEY = "k" * 40


class Bench:
    """A backend without HTTP, with agents that a test plays by hand and a clock it moves."""

    def __init__(self, folder: Path) -> None:
        self.seconds = 1000.0
        self.backend = Backend(folder, now=self.clock, monotonic=self.clock)
        with self.backend.store.transaction() as db:
            create_user(db, "me", KEY, self.seconds)
            caller = find_caller(db, KEY)
        assert caller is not None
        self.me = caller

    def clock(self) -> float:
        return self.seconds

    def sweep(self, **extra: Any) -> Sweep:
        config = {**grid(x=[1, 2, 3]), **extra}
        with self.backend.store.transaction() as db:
            project = ensure_project(db, self.me, None, "p", self.seconds)
            return create_sweep(db, self.me, project, yaml.safe_dump(config), self.seconds)

    def agent(self, sweep: Sweep, name: str = "") -> tuple[int, Caller]:
        """Join a sweep; with a name, under a supervisor and with a key of its own."""
        with self.backend.store.transaction() as db:
            caller = self.me
            if name:
                key = create_agent_key(db, self.me, sweep.id, name, self.seconds)
                caller = find_caller(db, key) or caller
            agent = create_agent(db, caller, sweep, "host", self.seconds)
            succeed_predecessors(self.backend, db, agent)
        return agent.id, caller

    def beat(self, agent: tuple[int, Caller], *alive: str) -> dict[str, Any]:
        commands = heartbeat(self.backend, agent[0], set(alive))
        return commands[0] if commands else {"type": "wait"}

    def take(self, agent: tuple[int, Caller]) -> str:
        """Take the next run and start it."""
        command = self.beat(agent)
        assert command["type"] in ("run", "resume"), command
        name: str = command["run_id"]
        with self.backend.store.transaction() as db:
            now = self.seconds
            change_run(db, self.run(name), state="running", started_at=now, heartbeat_at=now)
        self.backend.presence.seen("run", self.run(name).id)
        return name

    def run(self, name: str) -> Run:
        with self.backend.store.transaction() as db:
            run = find_run(db, project_by_id(db, 1), name)
        assert run is not None
        return run

    def send(self, name: str, **chunk: Any) -> None:
        with self.backend.store.transaction() as db:
            apply_chunk(self.backend, db, self.run(name), chunk)

    def causes(self, name: str) -> list[str | None]:
        with self.backend.store.transaction() as db:
            return [attempt.cause for attempt in list_attempts(db, self.run(name))]

    def state(self, sweep: Sweep) -> tuple[str, str | None]:
        with self.backend.store.transaction() as db:
            found = sweep_by_id(db, sweep.id)
        return found.state, found.stop_reason


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "data")
    yield made
    made.backend.close()


@pytest.mark.parametrize("exit_code", [0, 1, 255])
def test_what_a_supervisor_interrupts_goes_first_under_the_same_id(
    bench: Bench, exit_code: int
) -> None:
    sweep = bench.sweep()
    first, second = bench.agent(sweep), bench.agent(sweep)
    name = bench.take(first)
    bench.send(name, preempting=True, deployerInterrupted=True)
    bench.send(name, complete=True, exitcode=exit_code)
    again = bench.beat(second)
    assert (again["type"], again["run_id"]) == ("resume", name)
    assert again["args"] == {"x": {"value": 1}}
    assert bench.causes(name) == ["interrupted", None]


@pytest.mark.parametrize(
    ("mark", "cause"),
    [
        ("interrupted", "interrupted"),
        ("signal", "signal"),
        ("OOM", "OOM"),
        ("node", "node"),
        ("something new", "interrupted"),
    ],
)
def test_a_supervisors_word_for_why_a_run_ends_is_kept(bench: Bench, mark: str, cause: str) -> None:
    name = bench.take(bench.agent(bench.sweep()))
    bench.send(name, preempting=True, deployerInterrupted=mark)
    # The first word counts: what comes later is only the end of it.
    bench.send(
        name, preempting=True, deployerInterrupted="interrupted", complete=True, exitcode=255
    )
    assert bench.causes(name) == [cause]
    assert bench.run(name).queued


def test_a_run_that_never_has_enough_memory_is_given_up(bench: Bench) -> None:
    sweep = bench.sweep()
    agent = bench.agent(sweep)
    name = bench.take(agent)
    for _ in range(MEMORY_KILLS - 1):
        bench.send(name, preempting=True, deployerInterrupted="OOM", complete=True, exitcode=255)
        assert bench.take(agent) == name
    bench.send(name, preempting=True, deployerInterrupted="OOM", complete=True, exitcode=255)
    assert (bench.run(name).state, bench.run(name).queued) == ("failed", 0)
    assert bench.causes(name) == ["OOM"] * MEMORY_KILLS
    assert bench.take(agent) != name


@pytest.mark.parametrize("mark", ["signal", "OOM", "node"])
def test_a_run_that_was_told_to_stop_is_not_handed_out_again(bench: Bench, mark: str) -> None:
    name = bench.take(bench.agent(bench.sweep()))
    with bench.backend.store.transaction() as db:
        change_run(db, bench.run(name), stop_requested_at=1.0)
    bench.send(name, preempting=True, deployerInterrupted=mark, complete=True, exitcode=255)
    assert (bench.run(name).state, bench.causes(name)) == ("killed", ["stopped"])


def test_a_trainer_that_says_preempting_and_exits_with_0_has_finished(bench: Bench) -> None:
    name = bench.take(bench.agent(bench.sweep()))
    bench.send(name, preempting=True)
    bench.send(name, complete=True, exitcode=0)
    assert bench.run(name).state == "finished"


def test_a_run_that_died_by_signal_is_handed_out_again(bench: Bench) -> None:
    agent = bench.agent(bench.sweep())
    name = bench.take(agent)
    bench.beat(agent, name)
    other = bench.beat(agent)["run_id"]
    bench.seconds += bench.backend.patience.exit_record_seconds
    bench.beat(agent, other)
    assert bench.causes(name) == ["signal"]
    assert bench.run(name).state == "preempted"
    bench.send(other, complete=True, exitcode=0)
    assert bench.beat(agent)["run_id"] == name


def test_an_exit_record_that_comes_late_still_counts(bench: Bench) -> None:
    agent = bench.agent(bench.sweep())
    name = bench.take(agent)
    bench.beat(agent)
    bench.seconds += bench.backend.patience.exit_record_seconds / 2
    bench.send(name, complete=True, exitcode=0)
    assert bench.run(name).state == "finished"
    assert bench.causes(name) == ["finished"]


def test_a_silent_run_comes_back_to_life_unless_somebody_has_it(bench: Bench) -> None:
    agent = bench.agent(bench.sweep())
    name = bench.take(agent)
    bench.seconds += bench.backend.patience.silence_seconds
    end_silent_runs(bench.backend)
    assert (bench.run(name).state, bench.causes(name)) == ("preempted", ["node"])
    bench.send(name)
    assert (bench.run(name).state, bench.causes(name)) == ("running", [None])


def test_an_exit_record_that_is_very_late_spares_another_attempt(bench: Bench) -> None:
    agent = bench.agent(bench.sweep())
    name = bench.take(agent)
    other = bench.beat(agent)["run_id"]
    bench.seconds += bench.backend.patience.exit_record_seconds
    bench.beat(agent, other)
    assert bench.causes(name) == ["signal"]
    bench.send(name)
    assert bench.run(name).state == "preempted"
    bench.send(name, complete=True, exitcode=0)
    assert (bench.run(name).state, bench.causes(name)) == ("finished", ["finished"])


def test_what_a_dead_agent_never_began_goes_to_the_next(bench: Bench) -> None:
    sweep = bench.sweep()
    name = bench.beat(bench.agent(sweep))["run_id"]
    bench.seconds += bench.backend.patience.silence_seconds
    assert bench.beat(bench.agent(sweep))["run_id"] == name


def test_the_server_s_own_downtime_is_nobody_s_silence(bench: Bench) -> None:
    name = bench.take(bench.agent(bench.sweep()))
    bench.backend.close()
    bench.seconds += 3600
    bench.backend = Backend(bench.backend.folder, now=bench.clock, monotonic=bench.clock)
    end_silent_runs(bench.backend)
    assert bench.run(name).state == "running"


def test_a_failed_run_gets_its_retry_after_everything_else(bench: Bench) -> None:
    agent = bench.agent(bench.sweep())
    name = bench.take(agent)
    bench.send(name, complete=True, exitcode=1)
    for _ in range(2):
        other = bench.take(agent)
        assert other != name
        bench.send(other, complete=True, exitcode=0)
    assert bench.take(agent) == name
    bench.send(name, complete=True, exitcode=1)
    assert bench.run(name).state == "failed"
    assert bench.causes(name) == ["own failure", "own failure"]
    assert bench.beat(agent)["type"] == "exit"


def test_three_failures_before_any_success_stop_the_sweep(bench: Bench) -> None:
    sweep = bench.sweep()
    agents = [bench.agent(sweep) for _ in range(3)]
    for agent in agents:
        bench.send(bench.take(agent), complete=True, exitcode=2)
    assert bench.state(sweep) == ("FINISHED", "3 configurations failed before any finished")
    assert [bench.beat(agent)["type"] for agent in agents] == ["exit"] * 3
    assert {bench.run(f"{sweep.name}-{n}").state for n in range(3)} == {"failed"}


def test_heal_hands_failed_runs_out_again(bench: Bench) -> None:
    sweep = bench.sweep(retries=0)
    agent = bench.agent(sweep)
    for code in (0, 1, 0):
        bench.send(bench.take(agent), complete=True, exitcode=code)
    assert bench.state(sweep)[0] == "FINISHED"
    with bench.backend.store.transaction() as db:
        assert requeue_failed(bench.backend, db, sweep) == 1
        assert requeue_failed(bench.backend, db, sweep) == 0
    assert bench.state(sweep)[0] == "RUNNING"
    bench.send(bench.take(bench.agent(sweep)), complete=True, exitcode=0)
    assert bench.state(sweep)[0] == "FINISHED"


@pytest.mark.parametrize("retries", [0, 2])
def test_a_healed_run_may_fail_as_often_again(bench: Bench, retries: int) -> None:
    sweep = bench.sweep(retries=0)
    agent = bench.agent(sweep)
    for code in (0, 1, 0):
        bench.send(bench.take(agent), complete=True, exitcode=code)
    with bench.backend.store.transaction() as db:
        update_sweep(db, sweep, bench.seconds, healed_retries=retries)
        requeue_failed(bench.backend, db, sweep_by_id(db, sweep.id))
    for _ in range(retries + 1):
        assert bench.state(sweep)[0] == "RUNNING"
        bench.send(bench.take(bench.agent(sweep)), complete=True, exitcode=1)
    assert bench.state(sweep)[0] == "FINISHED"
    assert bench.run(f"{sweep.name}-1").state == "failed"


def test_supervised_idle_agents_leave_while_others_are_busy(bench: Bench) -> None:
    sweep = bench.sweep()
    busy = [bench.agent(sweep, f"a-{n}") for n in range(3)]
    for agent in busy:
        bench.take(agent)
    assert bench.beat(bench.agent(sweep, "late"))["type"] == "exit"
    assert bench.beat(bench.agent(sweep))["type"] == "wait"


def test_a_successor_takes_over_and_the_orphan_is_refused(bench: Bench) -> None:
    sweep = bench.sweep()
    old = bench.agent(sweep, "a-1")
    name = bench.take(old)
    new = bench.agent(sweep, "a-1")
    assert bench.causes(name) == ["node"]
    assert bench.take(new) == name
    with bench.backend.store.transaction() as db:
        check_writer(db, new[1], bench.run(name))
        with pytest.raises(Refusal, match="belongs to another agent"):
            check_writer(db, old[1], bench.run(name))


def test_a_trainer_that_does_not_resume_starts_on_a_clean_page(bench: Bench) -> None:
    from deployer.backend.handlers.run_change import _started

    agent = bench.agent(bench.sweep())
    name = bench.take(agent)
    with bench.backend.store.transaction() as db:
        write_lines(db, bench.run(name).id, "history", 0, ['{"_step":0}', '{"_step":1}'])
    bench.send(name, preempting=True)
    bench.send(name, complete=True, exitcode=255)
    for resuming, left in ((1, 2), (0, 0)):
        bench.beat(agent)
        with bench.backend.store.transaction() as db:
            run = change_run(db, bench.run(name), resuming=resuming)
            _started(bench.backend, db, run, {"host": "host"})
            assert count_lines(db, run.id, "history") == left
        bench.send(name, preempting=True)
        bench.send(name, complete=True, exitcode=255)


def test_a_trainer_that_never_starts_is_tried_again_after_a_rest(bench: Bench) -> None:
    agent = bench.agent(bench.sweep(retries=0, run_cap=1))
    for judged in range(1, 4):
        name = bench.beat(agent)["run_id"]
        bench.seconds += 5
        assert bench.beat(agent)["type"] == ("exit" if judged == 3 else "wait")
        assert bench.causes(name) == ["never started"] * judged
        bench.seconds += bench.backend.patience.unstarted_wait_seconds
    assert bench.run(name).state == "failed"


def test_a_start_that_failed_costs_no_retry(bench: Bench) -> None:
    agent = bench.agent(bench.sweep(retries=1, run_cap=1))
    for _ in range(2):
        name = bench.beat(agent)["run_id"]
        bench.seconds += 5
        assert bench.beat(agent)["type"] == "wait"
        bench.seconds += bench.backend.patience.unstarted_wait_seconds
    for state in ("preempted", "failed"):
        assert bench.take(agent) == name
        bench.send(name, complete=True, exitcode=1)
        assert bench.run(name).state == state
    assert bench.causes(name) == ["never started"] * 2 + ["own failure"] * 2


def test_a_lost_reply_is_repeated_at_once_and_not_for_ever(bench: Bench) -> None:
    agent = bench.agent(bench.sweep())
    name = bench.beat(agent)["run_id"]
    for _ in range(MAX_DELIVERIES - 1):
        bench.seconds += 2
        assert bench.beat(agent)["run_id"] == name
    bench.seconds += 2
    assert bench.beat(agent)["run_id"] != name
    assert bench.causes(name) == ["lost reply"] * (MAX_DELIVERIES - 1) + ["never started"]


def test_what_fails_after_the_breaker_is_failed(bench: Bench) -> None:
    sweep = bench.sweep()
    names = [bench.take(bench.agent(sweep)) for _ in range(3)]
    with bench.backend.store.transaction() as db:
        update_sweep(db, sweep, bench.seconds, state="FINISHED")
    bench.send(names[0], complete=True, exitcode=1)
    assert bench.run(names[0]).state == "failed"


def test_heal_reopens_a_cancelled_sweep_only_for_what_is_missing(bench: Bench) -> None:
    sweep = bench.sweep()
    bench.send(bench.take(bench.agent(sweep)), complete=True, exitcode=0)
    with bench.backend.store.transaction() as db:
        cancelled = update_sweep(db, sweep, bench.seconds, state="CANCELED")
        assert requeue_failed(bench.backend, db, cancelled) == 2
    assert bench.state(sweep)[0] == "RUNNING"
    agent = bench.agent(sweep)
    for _ in range(2):
        bench.send(bench.take(agent), complete=True, exitcode=0)
    with bench.backend.store.transaction() as db:
        assert requeue_failed(bench.backend, db, sweep_by_id(db, sweep.id)) == 0
    assert bench.state(sweep)[0] == "FINISHED"
