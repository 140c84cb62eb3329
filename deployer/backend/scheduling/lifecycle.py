"""The lifecycle of a run: rules from events to W&B's states; pure functions.

Sources: W&B's documented run states, and the observed behavior of its server for exit records.
A run that will be assigned again is `preempted`, whatever ended its attempt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

EndCause = Literal[
    "finished",
    "delivered",  # finished by its exit record, but then killed, or its end was not observed
    "stopped",
    "interrupted",  # asked to stop, or the trainer reported a preemption
    "own failure",
    "usage error",  # its program rejected its command line; permanent
    "no run",  # ended with exit code 0 and without `wandb.init`
    "offline",  # ended with exit code 0, but wandb wrote its run only to a folder
    "other project",  # its script sent the run to a project that is not the sweep's
    "own sweep",  # its script creates a sweep
    "missing program",  # its command could not be started
    "authentication error",  # its script had no valid API key
    "never started",  # ended otherwise without `wandb.init`
    "no server",  # its `wandb.init` reached no server
    "signal",  # it, its agent or its supervisor was killed or interrupted from outside
    "OOM",  # killed by the kernel for lack of memory
    "node",  # lost together with its agent or machine
    "lost reply",  # sent again, since the agent never confirmed it
]
# Causes that a supervisor reports before it ends a run, since it knows better than the server.
ANNOUNCED: tuple[EndCause, ...] = ("interrupted", "signal", "OOM", "node")
HOPELESS: tuple[EndCause, ...] = (
    *("usage error", "no run", "offline", "other project", "own sweep"),
    *("missing program", "authentication error"),
)
OWN_FAILURES: tuple[EndCause, ...] = ("own failure", "never started", *HOPELESS)
KILLS: tuple[EndCause, ...] = ("signal", "OOM")
# The exit code of argparse, click and Python for a wrong command line.
USAGE_EXIT_CODE = 2
# From the runs' prologue: an earlier attempt was interrupted and has not ended yet.
LOCKED_EXIT_CODE = 75
LOCKED = "deployer: another attempt of this run still holds"
SIGNALS = 128  # a shell adds it to the signal that ended a program
# Exit codes of shells and `env` if a program is not executable or not found.
MISSING_EXIT_CODES = (126, 127)
# Python's message for a missing script, with the exit code of a usage error.
MISSING_SCRIPT = re.compile(r"can't open file .*\[Errno \d+\]")
# Starts of authentication errors of wandb and other clients, and wandb's messages about keys.
BAD_KEY = re.compile(
    r"^(\w+\.)*AuthenticationError\b|No API key configured|api_key not configured"
    r"|the API key is not valid for this server",
    re.MULTILINE,
)
# The folder of an offline run, which the SDK prints at the start and the end.
OFFLINE = re.compile(r"\boffline-run-\d")
# An agent's run is in its sweep's project. The other refusal is in db/accounts.py.
NO_OWN_RUNS = "an agent's key cannot start runs of its own"
OTHER_PROJECT = re.compile(rf"an agent's key cannot make projects|{NO_OWN_RUNS}")
OWN_SWEEP = re.compile(r"an agent's key cannot change sweeps")  # graphql/resolvers/sweeps.py
# The SDK's error if `wandb.init` cannot reach the server. The CommError of a refusal differs.
NO_SERVER = re.compile(
    r"^wandb\.errors\.(\w+\.)*CommError: .*(timed out|giving up|connection)", re.MULTILINE | re.I
)
# The SDK's code for a run that an interrupt ended; `sys.exit(-1)` is -1 in its exit record.
INTERRUPT_EXIT_CODE = 255

# The SDK retries a lost heartbeat after 2 s; an agent that received the reply asks again after 5 s.
# If the run is not reported as alive by then, its trainer died before `wandb.init`.
LOST_REPLY_SECONDS = 4.0
MAX_DELIVERIES = 3
# Limits for a run that needs too much memory, and for one that kills its agent before `wandb.init`,
# which would otherwise be retried forever. Kills from outside rarely hit the same run as often.
MEMORY_KILLS = 5
UNSTARTED_KILLS = 20
# An unreachable server is not the script's failure, but a script may use a wrong address.
SERVER_TRIES = 4
# The limit for a run whose supervisor saw it killed each time, without progress.
STALLED_KILLS = UNSTARTED_KILLS
# After this many kills, a run is assigned only after all others.
PATIENT_KILLS = 2
# A process without a heartbeat (one per 30 s) for this long loses its run to another process.
PROCESS_SECONDS = 35.0
# If this many configurations fail before any has finished, the script is broken.
BREAKER_FAILURES = 3


@dataclass(frozen=True)
class Patience:
    """The server's timeouts in seconds.

    An exit record arrives after the agent saw the process end, later on a slow disk. The SDK sends
    something at least every 30 s, and backs off for up to 60 s after an outage. `stopped` in the
    file stream's reply lets a run flush; the agent's `stop` is SIGTERM, which does not, so it is
    sent later.
    """

    exit_record_seconds: float = 20.0
    silence_seconds: float = 120.0
    graceful_stop_seconds: float = 45.0
    unstarted_wait_seconds: float = 10.0


@dataclass(frozen=True)
class Marks:
    """Facts about an attempt at its end; `announced` is the cause from its supervisor."""

    started: bool
    preempting: bool
    announced: EndCause | None
    stopping: bool


@dataclass(frozen=True)
class Outcome:
    """The result of an attempt: the run's state, the cause, and whether it is reassigned."""

    state: str
    cause: EndCause
    queued: bool = False


def requeue(cause: EndCause) -> Outcome:
    return Outcome("preempted", cause, queued=True)


def judge_announcement(mark: object) -> EndCause | None:
    """Return the cause in a supervisor's mark; a mark without a known cause means interrupted."""
    known = next((cause for cause in ANNOUNCED if cause == mark), None)
    return known or ("interrupted" if mark else None)


def judge_exit(exit_code: int, marks: Marks, seen: bool = True) -> Outcome:
    """Judge an exit record like W&B, unless the run's supervisor announced that it ends the run.

    `seen` is False for a record that was found after the process was gone. Whether the process then
    exited normally is unknown.
    """
    if marks.announced:
        return _judge_announced(marks.announced, marks)
    if marks.preempting and exit_code:
        return requeue("interrupted")
    if exit_code == 0:
        return Outcome("finished", "finished" if seen else "delivered")
    if marks.stopping:
        return Outcome("killed", "stopped")
    if exit_code == USAGE_EXIT_CODE and not marks.started:
        return Outcome("failed", "usage error")
    if exit_code == INTERRUPT_EXIT_CODE and marks.started:
        return requeue("signal")
    return Outcome("failed", "own failure")


def _judge_announced(cause: EndCause, marks: Marks) -> Outcome:
    """Reassign the run, unless it was killed because it was asked to stop."""
    if marks.stopping and cause != "interrupted":
        return Outcome("killed", "stopped")
    return requeue(cause)


def judge_disappearance(marks: Marks, agent_is_there: bool) -> Outcome:
    """Judge an attempt that ended without an exit record."""
    if marks.announced:
        return _judge_announced(marks.announced, marks)
    if marks.preempting:
        return requeue("interrupted")
    if marks.stopping:
        return Outcome("killed", "stopped")
    if not agent_is_there:
        return requeue("node")
    return requeue("signal") if marks.started else Outcome("failed", "never started")


def judge_kills(outcome: Outcome, kills: int, stalled: int, started: bool) -> Outcome:
    """Fail a run after too many kills or lost connections, including this one.

    After `wandb.init`, only out-of-memory kills and `stalled` ones count: a supervisor saw the
    process killed, and it had logged no new step. Other kills may have any cause. Healing a sweep
    resets the counts of its runs.
    """
    allowed = {"OOM": MEMORY_KILLS, "no server": SERVER_TRIES}
    if not started:
        allowed["signal"] = UNSTARTED_KILLS
    hopeless = outcome.cause in allowed and kills >= allowed[outcome.cause]
    if outcome.cause == "signal" and outcome.queued and stalled:
        hopeless = hopeless or stalled % STALLED_KILLS == 0
    return Outcome("failed", outcome.cause) if hopeless else outcome


def judge_unassigned(outcome: Outcome, exit_code: int | None) -> Outcome:
    """Judge a run without a sweep, which is never reassigned, like W&B does."""
    if not outcome.queued:
        return outcome
    ended = "failed" if exit_code else "crashed"
    state = "preempted" if outcome.cause == "interrupted" else ended
    return Outcome(state, outcome.cause)


def judge_unstarted(outcome: Outcome, exit_code: int | None, output: str) -> Outcome:
    """Judge an attempt without `wandb.init` by its process's end, as its supervisor saw it.

    A kill counts as a failure: it may come from outside, but a run that is killed at each start
    would be retried forever. The kill of its agent does not count.
    """
    if exit_code is None or outcome.cause not in (*OWN_FAILURES, *KILLS):
        return outcome
    if exit_code == LOCKED_EXIT_CODE and LOCKED in output:
        return requeue("interrupted")
    killed = outcome.cause in KILLS
    if killed and exit_code > SIGNALS:
        return Outcome("failed", outcome.cause)
    if hopeless := _find_hopeless(exit_code, output):
        return Outcome("failed", hopeless)
    if NO_SERVER.search(output):
        return requeue("no server")
    # A process that exited on its own was not killed, even if its agent was killed afterwards.
    return Outcome("failed", "never started") if killed else outcome


def _find_hopeless(exit_code: int, output: str) -> EndCause | None:
    if exit_code == 0:
        return "offline" if OFFLINE.search(output) else "no run"
    if exit_code == USAGE_EXIT_CODE:
        return "missing program" if MISSING_SCRIPT.search(output) else "usage error"
    if exit_code in MISSING_EXIT_CODES:
        return "missing program"
    if OTHER_PROJECT.search(output):
        return "other project"
    if OWN_SWEEP.search(output):
        return "own sweep"
    return "authentication error" if BAD_KEY.search(output) else None


def judge_failure(outcome: Outcome, failures: int, retries: int) -> Outcome:
    """Retry a run that failed on its own while it has retries left.

    `failures` counts this attempt and earlier failed ones. Permanent errors are not retried.
    """
    if outcome.state != "failed" or outcome.cause in HOPELESS or failures > retries:
        return outcome
    return requeue(outcome.cause)
