"""What becomes of runs that fail: retries, the breaker, heal, and trainers that never start."""

from __future__ import annotations

import json

import pytest

from deployer.backend.db.accounts import Caller
from deployer.backend.db.rows import get
from deployer.backend.db.sweeps import SweepRow, update_sweep
from deployer.backend.scheduling.lifecycle import (
    MEMORY_KILLS,
    NO_OWN_RUNS,
    SERVER_TRIES,
    STALLED_KILLS,
    UNSTARTED_KILLS,
)
from deployer.backend.scheduling.run_endings import note_exit, requeue_failed
from tests.backend.bench import Bench


def test_a_run_that_never_has_enough_memory_is_given_up(bench: Bench) -> None:
    sweep = bench.sweep(run_cap=1)
    agent = bench.agent(sweep)
    name = bench.take(agent)
    for _ in range(MEMORY_KILLS - 1):
        bench.send(name, preempting=True, deployerInterrupted="OOM", complete=True, exitcode=255)
        assert bench.take(agent) == name
    bench.send(name, preempting=True, deployerInterrupted="OOM", complete=True, exitcode=255)
    assert (bench.run(name).state, bench.run(name).queued) == ("failed", 0)
    assert bench.causes(name) == ["OOM"] * MEMORY_KILLS
    assert bench.beat(agent)["type"] == "exit"


def kill_unstarted(bench: Bench, agent: tuple[int, Caller]) -> str:
    """Take the next run, which its supervisor sees killed before `wandb.init`."""
    name: str = bench.beat(agent)["run_id"]
    bench.send(name, preempting=True, deployerInterrupted="signal", complete=True, exitcode=255)
    return name


def test_a_run_that_is_killed_again_lets_the_others_go_first(bench: Bench) -> None:
    agent = bench.agent(bench.sweep())
    name = kill_unstarted(bench, agent)
    assert kill_unstarted(bench, agent) == name
    for _ in range(2):
        other = bench.take(agent)
        assert other != name
        bench.send(other, complete=True, exitcode=0)
    assert bench.take(agent) == name
    bench.send(name, complete=True, exitcode=0)
    assert bench.beat(agent)["type"] == "exit"


def test_a_run_that_is_always_killed_before_its_start_is_given_up(bench: Bench) -> None:
    agent = bench.agent(bench.sweep(run_cap=1))
    killed = {kill_unstarted(bench, agent) for _ in range(UNSTARTED_KILLS)}
    (name,) = killed
    assert (bench.run(name).state, bench.run(name).queued) == ("failed", 0)
    assert bench.causes(name) == ["signal"] * UNSTARTED_KILLS
    assert bench.beat(agent)["type"] == "exit"


def test_a_run_that_began_is_never_given_up_for_kills_from_outside(bench: Bench) -> None:
    agent = bench.agent(bench.sweep(run_cap=1))
    for _ in range(2 * UNSTARTED_KILLS):
        name = bench.take(agent)
        bench.send(name, preempting=True, deployerInterrupted="signal", complete=True, exitcode=255)
    assert bench.run(name).queued


def kill_at(bench: Bench, agent: tuple[int, Caller], step: int) -> str:
    """Take the next run, whose process its supervisor sees killed once it has logged a step."""
    name = bench.take(agent)
    row = {"offset": 0, "content": [json.dumps({"_step": step})]}
    bench.send(name, files={"wandb-history.jsonl": row})
    bench.seconds += 1
    with bench.backend.store.transaction() as db:
        note_exit(bench.backend, db, bench.run(name), "a", 0.0, 137, None)
    bench.send(name, preempting=True, deployerInterrupted="signal", complete=True, exitcode=255)
    return name


def test_a_run_that_is_killed_at_the_same_step_each_time_is_given_up(bench: Bench) -> None:
    sweep = bench.sweep(run_cap=1)
    agent = bench.agent(sweep, "a")
    (name,) = {kill_at(bench, agent, step=3) for _ in range(STALLED_KILLS)}
    assert bench.run(name).queued  # the first got further than none
    kill_at(bench, agent, step=2)
    assert (bench.run(name).state, bench.run(name).queued) == ("failed", 0)
    assert bench.state(sweep)[0] == "FINISHED"
    with bench.backend.store.transaction() as db:
        assert requeue_failed(bench.backend, db, get(db, SweepRow, sweep.id)) == 1
    kill_at(bench, bench.agent(sweep, "a"), step=3)
    assert bench.run(name).queued  # healed, it may be killed as often again


def test_a_run_that_gets_further_each_time_is_never_given_up(bench: Bench) -> None:
    agent = bench.agent(bench.sweep(run_cap=1), "a")
    (name,) = {kill_at(bench, agent, step) for step in range(2 * STALLED_KILLS)}
    assert bench.run(name).queued


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


def test_an_interrupted_trainer_has_not_failed(bench: Bench) -> None:
    sweep = bench.sweep()
    names = [bench.take(bench.agent(sweep)) for _ in range(3)]
    for name in names:
        bench.send(name, complete=True, exitcode=255)
        assert bench.run(name).queued
        assert bench.causes(name) == ["signal"]
    assert bench.state(sweep)[0] == "RUNNING"


def test_a_trainer_that_interrupts_itself_each_time_is_given_up(bench: Bench) -> None:
    agent = bench.agent(bench.sweep(run_cap=1))
    (name,) = {take_and_interrupt(bench, agent) for _ in range(UNSTARTED_KILLS)}
    assert (bench.run(name).state, bench.run(name).queued) == ("failed", 0)


def take_and_interrupt(bench: Bench, agent: tuple[int, Caller]) -> str:
    """Take the next run, which a stock agent's trainer ends as interrupted."""
    name = bench.take(agent)
    bench.send(name, complete=True, exitcode=255)
    return name


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
        requeue_failed(bench.backend, db, get(db, SweepRow, sweep.id))
    for _ in range(retries + 1):
        assert bench.state(sweep)[0] == "RUNNING"
        bench.send(bench.take(bench.agent(sweep)), complete=True, exitcode=1)
    assert bench.state(sweep)[0] == "FINISHED"
    assert bench.run(f"{sweep.name}-1").state == "failed"


NO_SCRIPT = "python: can't open file '/p/train.py': [Errno 2] No such file or directory"
REFUSED_KEY = "wandb.errors.errors.CommError: the API key is not valid for this server"
LOGIN = "Traceback\nwandb.errors.errors.AuthenticationError: Failed to authenticate"
NO_KEY = "wandb.errors.errors.UsageError: No API key configured. Use `wandb login` to log in."
NO_MODULE = "ModuleNotFoundError: No module named 'data'"
REFUSED = "wandb.errors.errors.CommError: you may not write to this project"
AWAY = "wandb.errors.errors.CommError: Timed out while retrying: HTTP 503: x"


@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize(
    ("code", "output", "cause"),
    [
        (0, "nothing to do", "no run"),
        (0, "wandb: Find logs at: wandb/offline-run-20260701_100000-r/logs", "offline"),
        (127, "sh: 1: train: not found", "missing program"),
        (126, "env: './train.py': Permission denied", "missing program"),
        (2, NO_SCRIPT, "missing program"),
        (2, "train.py: error: unrecognized arguments: --lr", "usage error"),
        (1, REFUSED_KEY, "authentication error"),
        (1, LOGIN, "authentication error"),
        (1, NO_KEY, "authentication error"),
        (1, f"{REFUSED}: an agent's key cannot make projects", "other project"),
        (1, f"{REFUSED}: {NO_OWN_RUNS}", "other project"),
        (1, f"{REFUSED}: an agent's key cannot change sweeps", "own sweep"),
        (1, NO_MODULE, "never started"),
        (1, REFUSED, "never started"),
        (139, "", "never started"),
        (137, "", "never started"),
        (None, None, "never started"),  # a stock agent, whose end nobody reports
    ],
)
def test_a_run_that_ends_before_wandb_init_is_retried_unless_it_would_end_so_again(
    bench: Bench, code: int | None, output: str | None, cause: str, retries: int
) -> None:
    sweep = bench.sweep(retries=retries, run_cap=1)
    starts = 1 + retries * (cause == "never started")
    for start in range(1, starts + 1):
        # Another agent each time: what counts is the run's starts in the whole sweep.
        agent = bench.agent(sweep, f"a-{start}")
        name = bench.beat(agent)["run_id"]
        bench.seconds += 5
        with bench.backend.store.transaction() as db:
            note_exit(bench.backend, db, bench.run(name), f"a-{start}", 0.0, code, output)
        assert bench.beat(agent)["type"] == ("exit" if start == starts else "wait")
        assert bench.causes(name) == [cause] * start
        bench.seconds += bench.backend.patience.unstarted_wait_seconds
    assert (bench.run(name).state, bench.state(sweep)[0]) == ("failed", "FINISHED")


@pytest.mark.parametrize(("code", "cause"), [(0, "no run"), (1, "never started")])
def test_a_run_that_had_ended_when_its_agent_died_has_failed_by_itself(
    bench: Bench, code: int, cause: str
) -> None:
    agent = bench.agent(bench.sweep(retries=0, run_cap=1), "a")
    name = bench.beat(agent)["run_id"]
    bench.seconds += 1
    with bench.backend.store.transaction() as db:
        note_exit(bench.backend, db, bench.run(name), "a", 0.0, code, "nothing to do")
    bench.send(name, preempting=True, deployerInterrupted="signal", complete=True, exitcode=255)
    assert (bench.run(name).state, bench.causes(name)) == ("failed", [cause])


def test_a_run_whose_init_meets_no_server_uses_up_no_retry_but_is_given_up(bench: Bench) -> None:
    agent = bench.agent(bench.sweep(retries=0, run_cap=1), "a")
    for number in range(1, SERVER_TRIES + 1):
        name = bench.beat(agent)["run_id"]
        bench.seconds += 1
        with bench.backend.store.transaction() as db:
            note_exit(bench.backend, db, bench.run(name), "a", 0.0, 1, AWAY)
        assert bench.beat(agent)["type"] == ("exit" if number == SERVER_TRIES else "wait")
        bench.seconds += bench.backend.patience.unstarted_wait_seconds
    assert bench.causes(name) == ["no server"] * SERVER_TRIES
    assert bench.run(name).state == "failed"


def test_a_run_whose_last_attempt_still_lives_uses_up_no_retry(bench: Bench) -> None:
    agent = bench.agent(bench.sweep(retries=0, run_cap=1), "a")
    name = bench.beat(agent)["run_id"]
    said = "deployer: another attempt of this run still holds /checkpoints/s/r.lock"
    with bench.backend.store.transaction() as db:
        note_exit(bench.backend, db, bench.run(name), "a", 0.0, 75, said)
    assert bench.beat(agent)["run_id"] == name
    assert bench.causes(name) == ["interrupted", None]


def test_a_run_that_is_seen_killed_before_its_start_uses_up_its_retries(bench: Bench) -> None:
    sweep = bench.sweep(retries=1, run_cap=1)
    agent = bench.agent(sweep, "a")
    assert bench.run(kill_unstarted(bench, agent)).queued  # with its agent: anybody's kill
    for queued in (1, 0):
        name = bench.beat(agent)["run_id"]
        bench.seconds += 1
        with bench.backend.store.transaction() as db:
            note_exit(bench.backend, db, bench.run(name), "a", 0.0, 137, None)
        bench.send(name, preempting=True, deployerInterrupted="OOM", complete=True, exitcode=255)
        assert bench.run(name).queued == queued
    assert bench.causes(name) == ["signal", "OOM", "OOM"]
    with bench.backend.store.transaction() as db:
        assert requeue_failed(bench.backend, db, get(db, SweepRow, sweep.id)) == 1
    assert bench.run(kill_unstarted(bench, bench.agent(sweep, "a"))).queued


def test_a_usage_error_is_not_tried_again(bench: Bench) -> None:
    sweep = bench.sweep(retries=3)
    agent = bench.agent(sweep)
    for number in range(1, 4):
        name = bench.beat(agent)["run_id"]
        bench.send(name, complete=True, exitcode=2)
        assert (bench.run(name).state, bench.run(name).queued) == ("failed", 0)
        assert bench.causes(name) == ["usage error"]
        assert bench.state(sweep)[0] == ("FINISHED" if number == 3 else "RUNNING")
    begun = bench.agent(other := bench.sweep(retries=1))
    name = bench.take(begun)
    bench.send(name, complete=True, exitcode=2)
    assert (bench.causes(name), bench.state(other)[0]) == (["own failure"], "RUNNING")
    assert bench.run(name).queued


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
        assert requeue_failed(bench.backend, db, get(db, SweepRow, sweep.id)) == 0
    assert bench.state(sweep)[0] == "FINISHED"
