"""The pure rules of the supervisor: what an answer means, what an ending means."""

from __future__ import annotations

import pytest

from deployer.agent.exit_codes import MISCONFIGURED, AgentExit, AgentLog, judge_ending
from deployer.agent.server import HOPELESS, Answer, TryAgain, judge_preflight

EXIT_COMMAND = "2026-11-20 10:00:00,000 - wandb.wandb_agent - INFO - Agent received command: exit"
FLAPPING = "x - ERROR - Detected 3 failed runs in the first 60 seconds, shutting down."
FAILING = "x - ERROR - Detected 5 failed runs in a row, shutting down."
CONSECUTIVE = "wandb: ERROR Detected 4 consecutive failed runs, shutting down."
DELETED = "wandb: ERROR Sweep was deleted or agent was not found."
DELETED_BUSY = (
    "wandb: ERROR Sweep was deleted or agent was not found. "
    "Active runs will be allowed to finish before the agent exits."
)


@pytest.mark.parametrize(
    ("lines", "exit_status", "sweep_state", "exit_code"),
    [
        ([], 0, "FINISHED", 0),
        ([], 0, "CANCELED", 0),
        ([EXIT_COMMAND], 0, None, 0),
        ([EXIT_COMMAND], 0, "RUNNING", 0),
        ([FLAPPING], 0, "RUNNING", 3),
        ([FAILING], 0, None, 3),
        ([CONSECUTIVE], 0, "RUNNING", 3),
        ([DELETED], 1, "", 78),
        ([DELETED_BUSY], 0, "", 78),
        ([DELETED], 1, "RUNNING", 1),
        ([DELETED_BUSY], 0, None, 1),
        ([DELETED], 1, "FINISHED", 0),
        # Somebody interrupted it: another one may go on.
        ([], 0, "RUNNING", 1),
        ([], 0, None, 1),
        ([], 1, "FINISHED", 1),
        ([], 2, None, 1),
        ([], -9, None, 137),
        ([], -15, None, 143),
        ([EXIT_COMMAND], -9, None, 137),
        (["Detected 3 failed unit tests, shutting down the tests"], 1, None, 1),
    ],
)
def test_an_agent_that_ended_unasked_is_judged_by_its_log_and_the_sweep(
    lines: list[str], exit_status: int, sweep_state: str | None, exit_code: int
) -> None:
    log = AgentLog()
    for line in ["a line of the trainer", *lines, "another"]:
        assert not log.read_line(line)
    ending = judge_ending(log, exit_status, sweep_state)
    assert ending.exit_code == exit_code
    assert ending.reason


def test_the_log_tells_when_a_run_begins_and_ends() -> None:
    log = AgentLog()
    assert log.read_line("x - INFO - About to run command: /usr/bin/env python train.py")
    assert (log.busy, log.runs_ended) == (True, 0)
    assert not log.read_line("x - INFO - Agent received command: stop")
    assert log.told_to_stop_run
    assert log.read_line("x - INFO - Cleaning up finished run: abc123")
    assert (log.busy, log.runs_ended) == (False, 1)


@pytest.mark.parametrize(
    ("answer", "exit_code"),
    [
        (Answer(401, error="invalid key"), 78),
        (Answer(403, error="no"), 78),
        (Answer(200), 78),
        (Answer(200, viewer=True), 78),
        (Answer(200, viewer=True, error="permission denied"), 78),
        (Answer(200, viewer=True, sweep_state="FINISHED"), 0),
        (Answer(200, viewer=True, sweep_state="CANCELED"), 0),
    ],
)
def test_a_clear_answer_ends_the_supervisor(answer: Answer, exit_code: int) -> None:
    ending = judge_preflight(answer)
    assert isinstance(ending, AgentExit)
    assert ending.exit_code == exit_code


@pytest.mark.parametrize("status", [0, 301, 400, 404, 408, 429, 500, 502, 503, 504])
def test_whatever_may_pass_is_waited_for(status: int) -> None:
    verdict = judge_preflight(Answer(status, error="not now", retry_after_seconds=7.0))
    assert verdict == TryAgain("not now", 7.0)


def test_an_error_of_a_sick_database_is_waited_for() -> None:
    verdict = judge_preflight(Answer(200, viewer=True, error="internal database error"))
    assert isinstance(verdict, TryAgain)


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "PAUSED"])
def test_an_agent_starts_on_a_sweep_that_goes_on(state: str) -> None:
    assert judge_preflight(Answer(200, viewer=True, sweep_state=state)) is None


def test_a_request_that_can_never_be_sent_is_not_waited_for() -> None:
    ending = judge_preflight(Answer(HOPELESS, error="the certificate is not trusted"))
    assert ending == AgentExit(MISCONFIGURED, "the certificate is not trusted")
