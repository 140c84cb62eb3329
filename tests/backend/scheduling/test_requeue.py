"""How interrupted and lost runs are handed out again, with a clock that tests move."""

from __future__ import annotations

import math

import pytest

from deployer.backend.db.lines import write_lines
from deployer.backend.db.rows import change
from deployer.backend.db.runs import check_writer
from deployer.backend.request import Refusal
from deployer.backend.scheduling.context import Backend
from deployer.backend.scheduling.early_termination import EarlyTermination
from deployer.backend.scheduling.lifecycle import MAX_DELIVERIES
from deployer.backend.scheduling.run_endings import FORGET_SECONDS, end_silent_runs
from tests.backend.bench import Bench
from tests.backend.client import grid


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


@pytest.mark.parametrize("mark", ["signal", "OOM", "node"])
def test_a_run_that_was_told_to_stop_is_not_handed_out_again(bench: Bench, mark: str) -> None:
    name = bench.take(bench.agent(bench.sweep()))
    with bench.backend.store.transaction() as db:
        change(db, bench.run(name), stop_requested_at=1.0)
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
    end_silent_runs(bench.backend)
    assert bench.beat(bench.agent(sweep))["run_id"] == name


def test_what_has_long_been_silent_is_forgotten_and_stays_silent(bench: Bench) -> None:
    presence, patience = bench.backend.presence, bench.backend.patience.silence_seconds
    agent = bench.agent(bench.sweep())
    bench.send(bench.take(agent), complete=True, exitcode=0)
    assert presence.count("agent", math.inf) == presence.count("run", math.inf) == 1
    bench.seconds += FORGET_SECONDS + 1
    end_silent_runs(bench.backend)
    assert presence.count("agent", math.inf) == presence.count("run", math.inf) == 0
    assert presence.silence_seconds("agent", agent[0]) > patience
    bench.beat(agent)
    end_silent_runs(bench.backend)
    assert presence.count("agent", patience) == 1


def test_the_server_s_own_downtime_is_nobody_s_silence(bench: Bench) -> None:
    name = bench.take(bench.agent(bench.sweep()))
    bench.backend.close()
    bench.seconds += 3600
    bench.backend = Backend(bench.backend.folder, now=bench.clock, monotonic=bench.clock)
    end_silent_runs(bench.backend)
    assert bench.run(name).state == "running"


def test_supervised_idle_agents_leave_while_others_are_busy(bench: Bench) -> None:
    sweep = bench.sweep()
    busy = [bench.agent(sweep, f"a-{n}") for n in range(3)]
    for agent in busy:
        bench.take(agent)
    assert bench.beat(bench.agent(sweep, "late"))["type"] == "exit"
    assert bench.beat(bench.agent(sweep))["type"] == "wait"


def test_idle_agents_stay_while_a_run_is_being_interrupted(bench: Bench) -> None:
    sweep = bench.sweep()
    names = [bench.take(bench.agent(sweep, f"a-{n}")) for n in range(3)]
    bench.send(names[1], preempting=True)  # a trainer says so of itself, perhaps hours before
    assert bench.beat(bench.agent(sweep, "early"))["type"] == "exit"
    bench.send(names[0], preempting=True, deployerInterrupted=True)
    idle = bench.agent(sweep, "idle")
    assert bench.beat(idle)["type"] == "wait"
    bench.send(names[0], complete=True, exitcode=143)
    assert bench.beat(idle)["run_id"] == names[0]


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


def test_a_run_begun_anew_is_judged_by_what_it_logs_now(bench: Bench) -> None:
    sweep = bench.sweep(early_terminate={"type": "hyperband", "min_iter": 1, "eta": 2})
    names = [bench.take(bench.agent(sweep)) for _ in range(3)]
    rule = EarlyTermination(bench.backend)

    def judge(*losses: float) -> list[bool]:
        with bench.backend.store.transaction() as db:
            for name, loss in zip(names, losses, strict=True):
                write_lines(db, bench.run(name).id, "history", 0, [f'{{"loss": {loss}}}'])
        rule.stop_poor_runs()
        return [bench.run(name).stop_requested_at is not None for name in names]

    assert judge(2.0, 2.0, 1.0) == [False] * 3
    with bench.backend.store.transaction() as db:
        change(db, bench.run(names[2]), started_at=bench.seconds + 1)
    assert judge(2.0, 2.0, 9.0) == [False, False, True]


def test_a_line_that_no_parser_takes_keeps_no_run_from_its_end(bench: Bench) -> None:
    rule = {"type": "hyperband", "min_iter": 1, "eta": 2}
    sweep = bench.sweep(early_terminate=rule, **grid(x=[1, 2, 3, 4]))
    broken, *names = [bench.take(bench.agent(sweep)) for _ in range(4)]
    lines = ['{"a":' * 100_000, '{"loss": 2}', '{"loss": 2}', '{"loss": 9}']
    with bench.backend.store.transaction() as db:
        for name, line in zip([broken, *names], lines, strict=True):
            write_lines(db, bench.run(name).id, "history", 0, [line])
    EarlyTermination(bench.backend).stop_poor_runs()
    stopped = [bench.run(name).stop_requested_at is not None for name in names]
    assert stopped == [False, False, True]


def test_a_lost_reply_is_repeated_at_once_and_not_for_ever(bench: Bench) -> None:
    agent = bench.agent(bench.sweep())
    name = bench.beat(agent)["run_id"]
    for _ in range(MAX_DELIVERIES - 1):
        bench.seconds += 2
        assert bench.beat(agent)["run_id"] == name
    bench.seconds += 2
    assert bench.beat(agent)["run_id"] != name
    assert bench.causes(name) == ["lost reply"] * (MAX_DELIVERIES - 1) + ["never started"]
