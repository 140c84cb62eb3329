"""What results look like: attempts and failures in every form."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deployer.cli.output.render import to_plain
from deployer.cli.output.status import build_reason_lines, describe_agents, show_agents
from deployer.cli.ranking import (
    build_breaker_lines,
    build_failure_line,
    build_fix_lines,
    build_runs,
    build_runs_csv,
    build_summary_lines,
    results_to_plain,
    show_results,
)
from deployer.config.causes import Cause
from deployer.errors import PERMANENT, TRANSIENT
from deployer.executors.base import Belongings
from deployer.launch.provision import describe_owners
from deployer.model import Agent, Attempt, Run, Sweep, SweepPath
from deployer.sweeps.results import Results, build_results
from deployer.watch.status import summarise_status
from tests.executors.pending import pending

CONFIG = {
    "method": "grid",
    "metric": {"name": "loss"},
    "parameters": {"lr": {"values": [1, 2]}},
}
FIRST = Attempt(1, "agent-1", 10.0, 12.0, "signal", None)
SECOND = Attempt(2, "agent-2", 15.0, 20.0, "finished", 0)
GOOD = Run("good", "t", "finished", {"lr": 1}, {"loss": 0.5}, 0, 10.0, 20.0, "n", (FIRST, SECOND))
BAD = Run("bad", "t", "failed", {"lr": 2}, {}, 7, 11.0, 13.0)


def results(reason: str = "") -> Results:
    info = Sweep(SweepPath("e", "p", "s"), "n", "t", "FINISHED", CONFIG, 2, 2, None)
    return build_results(replace(info, stop_reason=reason), [GOOD, BAD])


def test_json_lists_the_attempts_of_each_run() -> None:
    plain = to_plain(results_to_plain(results()))
    assert plain["coverage"]["healed"] == 1
    assert plain["runs"][0]["attempts"] == [
        {
            "number": 1,
            "agent": "agent-1",
            "assigned_at": 10.0,
            "ended_at": 12.0,
            "cause": "signal",
            "exit_code": None,
        },
        {
            "number": 2,
            "agent": "agent-2",
            "assigned_at": 15.0,
            "ended_at": 20.0,
            "cause": "finished",
            "exit_code": 0,
        },
    ]
    assert plain["runs"][1]["attempts"] == []


def test_csv_counts_the_attempts_where_the_server_keeps_them() -> None:
    table = build_runs_csv(results().rows, "loss")
    columns, rows = table.columns, table.rows
    assert columns == [
        *("rank", "run_id", "title", "state", "duration_seconds", "exit_code", "attempts"),
        *("loss", "lr", "summary.loss"),
    ]
    assert [row[columns.index("attempts")] for row in rows] == [2, None]
    assert [row[columns.index("loss")] for row in rows] == [0.5, None]


def test_the_proof_stands_first_under_the_ranking() -> None:
    assert build_summary_lines(results(), "http://page")[0] == (
        "1/2 configurations finished, 0 duplicates, 0 lost, 1 healed, 1 failed"
    )


def test_a_run_that_was_killed_each_time_says_so() -> None:
    [row] = results().failures
    killed = tuple(Attempt(n, "agent-1", 10.0, 12.0, "OOM", 255) for n in (1, 2))
    assert build_failure_line(row, ("last",)) == "failed: bad with exit code 7 (lr=2): last"
    assert " with exit code 139 (SIGSEGV) (" in build_failure_line(replace(row, exit_code=139), ())
    assert build_failure_line(replace(row, attempts=killed), ()) == (
        "failed: bad, 2 times out of memory (lr=2)"
    )
    struck = tuple(replace(one, cause="signal", exit_code=137) for one in killed)
    assert build_failure_line(replace(row, attempts=struck), ()) == (
        "failed: bad, killed 2 times, finally without a new step (lr=2)"
    )


def test_a_run_that_died_before_wandb_init_has_the_exit_code_that_its_supervisor_saw() -> None:
    early = replace(BAD, exit_code=None, attempts=(Attempt(1, "a", 1.0, 2.0, "never started", 1),))
    info = Sweep(SweepPath("e", "p", "s"), "n", "t", "FINISHED", CONFIG, 2, 2, None)
    [row] = build_results(info, [early]).failures
    said = "failed: bad with exit code 1 before wandb.init (lr=2): KeyError"
    assert (row.exit_code, build_failure_line(row, ("KeyError",))) == (1, said)


def test_a_failure_that_no_retry_passes_gives_its_reason_and_one_hint() -> None:
    info = Sweep(SweepPath("e", "p", "s"), "n", "t", "FINISHED", CONFIG, 2, 2, None)
    idle = replace(BAD, exit_code=None, attempts=(Attempt(1, "a", 1.0, 2.0, "no run", 0),))
    failures = build_results(info, [idle, replace(idle, run_id="other"), BAD]).failures
    said = "failed: bad with exit code 0: ended without wandb.init (lr=2): nothing to do"
    assert build_failure_line(failures[0], ("nothing to do",)) == said
    [hint] = build_fix_lines(failures)
    assert "the script exited with 0 without wandb.init" in hint


def test_the_ranking_notes_what_a_state_does_not_say() -> None:
    ended = {"preempted": ("own failure", 1), "finished": ("delivered", None)}
    runs = [
        replace(GOOD, run_id=state, state=state, attempts=(Attempt(1, "a", 1.0, 2.0, *how),))
        for state, how in ended.items()
    ]
    info = Sweep(SweepPath("e", "p", "s"), "n", "t", "RUNNING", CONFIG, 2, 2, None)
    found = build_results(info, [*runs, BAD])
    table = build_runs(found.rows, "loss", ["lr"])
    assert table.columns[-2:] == ["TIME", "NOTE"]
    notes = {str(row[1]): row[-1] for row in table.rows}
    assert notes == {
        "preempted": "waits for its next attempt (crashed: exit code 1)",
        "finished": "all rows delivered, exit unknown",
        "bad": "",
    }
    assert {row["note"] for row in to_plain(results_to_plain(found))["runs"]} == {*notes.values()}
    assert "NOTE" not in build_runs(results().rows, "loss", ["lr"]).columns


def test_runs_of_a_sweep_without_a_metric_show_what_they_logged() -> None:
    rows = [replace(row, summary={"acc": 2, "note": "x", "_step": 1}) for row in results().rows]
    table = build_runs(rows, "", ["lr"])
    assert table.columns == ["RUN", "STATE", "acc", "lr", "TIME", *table.columns[5:]]
    assert [row[2] for row in table.rows] == [2] * len(rows)


def test_a_stopped_sweep_shows_what_its_first_failing_run_printed() -> None:
    found = results("3 configurations failed before any finished")
    assert results_to_plain(found)["stop_reason"] == found.stop_reason
    lines = build_breaker_lines(found.stop_reason, found.failures[0], ("one", "", "two"))
    assert lines == [
        "stopped: 3 configurations failed before any finished",
        "failed: bad with exit code 7 (lr=2)",
        "  | one",
        "  | two",
    ]


def test_plain_lines_say_once_why_agents_do_not_start() -> None:
    info = Sweep(SweepPath("e", "p", "s"), "n", "t", "RUNNING", CONFIG, 2, 2, None)
    agents = [
        Agent("a1", "e/p/s", "starting", 0.0, reason="Unschedulable: no GPU"),
        Agent("a2", "e/p/s", "running", 0.0),
        Agent("a3", "e/p/s", "starting", 0.0, reason="Unschedulable: no GPU"),
        Agent("a4", "e/p/s", "starting", 0.0, reason="ImagePullBackOff"),
        Agent("a5", "e/p/s", "ended", 0.0, reason="drained"),
    ]
    assert list(build_reason_lines(summarise_status(info, [], agents, 0, None, 1.0)).values()) == [
        "a1 and 1 more starting: Unschedulable: no GPU",
        "a4 starting: ImagePullBackOff",
    ]


def list_causes(*reasons: str) -> list[str]:
    """Return the causes that one agent after the other says."""
    info = Sweep(SweepPath("e", "p", "s"), "n", "t", "RUNNING", CONFIG, 2, 2, None)
    found = []
    for number, reason in enumerate(reasons):
        one = Agent(f"a{number}", "e/p/s", "starting", 0.0, reason=reason)
        found += build_reason_lines(summarise_status(info, [], [one], 0, None, 1.0))
    return found


def test_names_and_counts_make_no_other_cause() -> None:
    same = list_causes(
        'FailedCreate: pods "a0" is forbidden: 0/3 nodes are available: 1 Insufficient cpu.',
        'FailedCreate: pods "a1" is forbidden: 0/12 nodes are available: 5 Insufficient cpu.',
    )
    assert len(set(same)) == 1
    other = list_causes("exit code 1; is started again", "exit code 3; is started again")
    assert len(set(other)) == 2


def test_a_long_reason_pads_nothing_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    agents = [
        Agent("a1", "e/p/s", "starting", 0.0, reason="Unschedulable: " + "no room " * 40),
        Agent("a2", "e/p/s", "running", 0.0, run_start="cold"),
    ]
    show_agents(agents, "table", 1.0)
    head, _, second = capsys.readouterr().out.splitlines()
    assert max(len(head), len(second)) < 80
    assert second.split()[-2:] == ["cold", "e/p/s"]


def test_a_sweep_says_who_waits_and_that_nobody_has_to_watch() -> None:
    busy = pending(Cause.GPUS_BUSY, "all 4 are in use", TRANSIENT)
    never = pending(Cause.OBJECT_MISSING, "Secret x is missing", PERMANENT)
    running = Agent("a1", "e/p/s", "running", 0.0)
    waiting = Agent("a2", "e/p/s", "starting", 0.0, reason=busy.line, pending=busy)
    hopeless = replace(waiting, reason=never.line, pending=never)
    assert describe_agents([waiting, running, replace(waiting, name="a3")]) == (
        "1 running, 2 starting: all 4 are in use (transient); "
        "they start when they can, even without a watcher"
    )
    assert describe_agents([hopeless]) == "1 starting: Secret x is missing (permanent)"
    assert describe_agents([]) == "none"


def test_a_screen_gets_the_best_of_very_many_runs(capsys: pytest.CaptureFixture[str]) -> None:
    shown = results()
    rows = tuple(replace(shown.rows[0], run_id=f"r{number}") for number in range(101))
    show_results(replace(shown, rows=rows), "table")
    told = capsys.readouterr()
    assert told.err == "the first 100 of 101 runs; -o csv gives all\n"
    assert ("r99" in told.out, "r100" in told.out) == (True, False)
    show_results(replace(shown, rows=rows), "csv")
    assert "r100" in capsys.readouterr().out


def test_the_command_that_shows_anothers_agents_leads_to_their_cluster() -> None:
    bobs = Belongings("bob", 2, 3, ("b/p/s1", "b/p/s2"), 0.0, "team")
    [named] = describe_owners([bobs], 60.0, "gke")
    assert named.endswith(
        "in namespace team, up to 60 s old: b/p/s1, b/p/s2 (see them: "
        "deployer agents list b/p/s1 --on gke; deployer agents list b/p/s2 --on gke)"
    )
