"""What a supervisor reports of a run's process: exit code, last output, and that it leaves."""

from __future__ import annotations

from deployer.backend.db.accounts import Caller
from deployer.backend.db.attempts import AttemptRow, list_attempts
from deployer.backend.db.lines import last_lines
from deployer.backend.db.rows import get
from deployer.backend.db.runs import AgentRow
from deployer.backend.scheduling.run_endings import note_exit, note_leave
from tests.backend.bench import Bench


def report(
    bench: Bench, name: str, code: int | None, output: str | None = None, ago: float = 0.0
) -> None:
    with bench.backend.store.transaction() as db:
        note_exit(bench.backend, db, bench.run(name), "a", ago, code, output)


def attempts(bench: Bench, name: str) -> list[AttemptRow]:
    with bench.backend.store.transaction() as db:
        return list_attempts(db, bench.run(name))


def console(bench: Bench, name: str) -> list[str]:
    with bench.backend.store.transaction() as db:
        return [text for _, text in last_lines(db, bench.run(name).id, "output", 100)]


def never_start(bench: Bench, agent: tuple[int, Caller]) -> str:
    name: str = bench.beat(agent)["run_id"]
    bench.seconds += 5
    return name


def test_a_run_that_never_started_keeps_its_exit_code_and_its_last_words(bench: Bench) -> None:
    agent = bench.agent(bench.sweep(retries=0), "a")
    name = never_start(bench, agent)
    report(bench, name, 1, "Traceback\nKeyError: 'DATA'")
    bench.beat(agent)
    [attempt] = attempts(bench, name)
    assert (attempt.cause, attempt.known_exit_code) == ("never started", 1)
    assert attempt.output == "Traceback\nKeyError: 'DATA'"
    assert console(bench, name) == ["Traceback", "KeyError: 'DATA'"]
    assert bench.run(name).exit_code is None  # W&B's word, of an exit record that never came


def test_what_has_ended_was_received_however_soon_its_agent_asks_again(bench: Bench) -> None:
    agent = bench.agent(bench.sweep(), "a")
    name = bench.beat(agent)["run_id"]
    bench.seconds += 0.3
    report(bench, name, 1, "no data")
    assert bench.beat(agent)["run_id"] != name
    assert [attempt.cause for attempt in attempts(bench, name)] == ["never started"]


def test_a_late_report_goes_to_the_attempt_that_it_is_about(bench: Bench) -> None:
    agent = bench.agent(bench.sweep(retries=1, run_cap=1), "a")
    name = never_start(bench, agent)
    bench.beat(agent)
    bench.seconds += bench.backend.patience.unstarted_wait_seconds + 5
    assert bench.take(agent) == name
    bench.seconds += 1
    report(bench, name, 1, "too late", ago=10.0)
    report(bench, name, 1, "sent again, too late", ago=12.0)
    first, second = attempts(bench, name)
    assert (first.known_exit_code, first.output) == (1, "too late")
    assert (second.known_exit_code, second.output, console(bench, name)) == (None, None, [])


def test_a_late_report_of_a_run_that_waits_for_its_retry_can_make_that_useless(
    bench: Bench,
) -> None:
    sweep = bench.sweep(retries=1, run_cap=1)
    agent = bench.agent(sweep, "a")
    name = never_start(bench, agent)
    bench.beat(agent)
    assert bench.run(name).queued
    report(bench, name, 0, "nothing to do")
    assert [attempt.cause for attempt in attempts(bench, name)] == ["no run"]
    assert (bench.run(name).state, bench.state(sweep)[0]) == ("failed", "FINISHED")


def test_a_run_that_died_behind_its_exit_record_has_only_delivered(bench: Bench) -> None:
    sweep = bench.sweep()
    agent = bench.agent(sweep, "a")
    late = bench.take(agent)
    bench.send(late, complete=True, exitcode=0)
    report(bench, late, 137)
    early = bench.take(agent)
    report(bench, early, 1, "AssertionError")
    bench.send(early, complete=True, exitcode=0)
    good = bench.take(agent)
    bench.send(good, complete=True, exitcode=0)
    found = [attempts(bench, one)[0] for one in (late, early, good)]
    assert [one.cause for one in found] == ["delivered", "delivered", "finished"]
    assert [one.known_exit_code for one in found] == [137, 1, 0]
    assert {bench.run(one).state for one in (late, early, good)} == {"finished"}
    assert bench.state(sweep)[0] == "FINISHED"


def test_an_exit_record_that_was_found_beside_a_dead_process_leaves_its_exit_open(
    bench: Bench,
) -> None:
    name = bench.take(bench.agent(bench.sweep(), "a"))
    bench.send(name, complete=True, exitcode=0, deployerExitUnseen=True)
    [attempt] = attempts(bench, name)
    assert (bench.run(name).state, attempt.cause) == ("finished", "delivered")
    assert attempt.known_exit_code is None


def test_an_agent_that_leaves_is_gone_at_once(bench: Bench) -> None:
    sweep = bench.sweep()
    mine, other = bench.agent(sweep, "a"), bench.agent(sweep, "b")
    for agent in (mine, other):
        bench.beat(agent, "nothing")
    with bench.backend.store.transaction() as db:
        note_leave(bench.backend, db, mine[1])
        ended = [get(db, AgentRow, agent).ended_at for agent, _ in (mine, other)]
    assert ended == [bench.seconds, None]
    bench.beat(mine, "nothing")  # its supervisor was wrong, or late
    with bench.backend.store.transaction() as db:
        assert get(db, AgentRow, mine[0]).ended_at is None
