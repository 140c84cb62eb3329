"""What is said of attempts that ended, and of the runs that wait for another."""

from __future__ import annotations

from typing import get_args

import pytest

from deployer.backend.scheduling import lifecycle
from deployer.backend.scheduling.lifecycle import EndCause
from deployer.model import Attempt
from deployer.sweeps.results import (
    FIXES,
    OWN_FAILURES,
    WORDS,
    describe_attempt,
    describe_ending,
    find_last_words,
    keep_own_lines,
)


def attempt(cause: str | None, exit_code: int | None = None) -> Attempt:
    return Attempt(1, "a", 1.0, 2.0, cause, exit_code)


@pytest.mark.parametrize(
    ("cause", "exit_code", "words"),
    [
        ("own failure", 3, "crashed: exit code 3"),
        ("never started", 1, "ended before wandb.init: exit code 1"),
        ("never started", None, "ended before wandb.init"),
        ("no run", 0, "ended without wandb.init: exit code 0"),
        ("usage error", 2, "rejected its command line: exit code 2"),
        ("delivered", None, "all rows delivered, exit unknown"),
        ("delivered", 137, "all rows delivered, then SIGKILL"),
        ("delivered", 1, "all rows delivered, then exit code 1"),
        ("signal", 137, "killed: SIGKILL"),
        ("signal", 255, "killed"),
        ("interrupted", 255, "interrupted"),
        ("node", None, "lost with its agent or its machine"),
    ],
)
def test_each_cause_has_its_words(cause: str, exit_code: int | None, words: str) -> None:
    assert describe_attempt(cause, exit_code) == words


def test_a_run_that_waits_says_for_what_and_why() -> None:
    crashed = [attempt("signal", 137), attempt("own failure", 1)]
    waits = "waits for its next attempt (crashed: exit code 1)"
    assert describe_ending("preempted", crashed, sweep_ended=False) == waits
    given_up = "was not retried (crashed: exit code 1)"
    assert describe_ending("preempted", crashed, sweep_ended=True) == given_up


def test_a_run_that_was_given_up_after_kills_says_so() -> None:
    killed = [attempt("signal", 137)]
    said = "killed: SIGKILL, repeatedly without progress"
    assert describe_ending("failed", killed * 2, sweep_ended=True) == said
    assert describe_ending("failed", killed, sweep_ended=True) == "killed: SIGKILL"


def test_every_cause_of_the_server_has_words_and_is_known_as_a_failure_or_not() -> None:
    assert {*get_args(EndCause)} == {*WORDS}
    assert {*lifecycle.OWN_FAILURES} == {*OWN_FAILURES}
    assert {*lifecycle.HOPELESS} == {*FIXES}


def test_what_a_state_says_is_not_said_again() -> None:
    said = [("finished", "finished"), ("failed", "own failure"), ("killed", "stopped")]
    for state, cause in said:
        assert describe_ending(state, [attempt(cause, 1)], sweep_ended=True) == ""
    for attempts in ([], [attempt(None)]):
        assert describe_ending("running", attempts, sweep_ended=False) == ""


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (["KeyError", "2026-07-01 10:00:00 - deployer - s-a1: runs start cold: no"], "KeyError"),
        (["a", "KeyError", "wandb: ", "\x1b[34mwandb\x1b[0m: 🚀 View run at http://x"], "KeyError"),
        (["start", "wandb: ERROR Run initialization has timed out"], "wandb: ERROR Run init"),
        (["wandb: Syncing run r", ""], "wandb: Syncing run r"),
    ],
)
def test_the_last_words_of_a_run_are_its_own(lines: list[str], kept: str) -> None:
    own = [line for line in keep_own_lines(lines, 2) if line]
    assert own[-1].startswith(kept)


def test_wandbs_footer_is_never_the_reason_of_a_failure() -> None:
    footer = ["wandb: Find logs at: x/offline-run-1/logs", ""]
    assert find_last_words(["KeyError: 'x' ", *footer]) == "KeyError: 'x'"
    assert find_last_words(footer) == ""
