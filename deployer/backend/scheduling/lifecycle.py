"""The life of a run: rules from events to W&B's states; pure.

Sources: W&B's documented run states, and what its own server was seen to do with exit records.
A run that will be handed out again is `preempted`, whatever ended its attempt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

EndCause = Literal[
    "finished",
    "delivered",  # finished by its exit record, but killed after it, or nobody saw its process end
    "stopped",
    "interrupted",  # asked to stop, or the trainer said that it was being preempted
    "own failure",
    "usage error",  # its program rejected its command line, and would again
    "no run",  # ended with exit code 0 and without `wandb.init`
    "offline",  # ended with exit code 0, and wandb kept its run in a folder
    "other project",  # its script sent the run to a project that is not the sweep's
    "own sweep",  # its script makes a sweep
    "missing program",  # its command could not be started
    "authentication error",  # its script had no valid API key
    "never started",  # ended in another way without `wandb.init`
    "no server",  # its `wandb.init` reached no server
    "signal",  # it, its agent or its supervisor was killed or interrupted from outside
    "OOM",  # the same, by the kernel, which was out of memory
    "node",  # gone together with its agent, or with the machine
    "lost reply",  # sent again, since nothing showed that the agent had received it
]
# What a supervisor can know better than the server, and says before it ends a run.
ANNOUNCED: tuple[EndCause, ...] = ("interrupted", "signal", "OOM", "node")
HOPELESS: tuple[EndCause, ...] = (
    *("usage error", "no run", "offline", "other project", "own sweep"),
    *("missing program", "authentication error"),
)
OWN_FAILURES: tuple[EndCause, ...] = ("own failure", "never started", *HOPELESS)
KILLS: tuple[EndCause, ...] = ("signal", "OOM")
# What argparse, click and Python itself end with.
USAGE_EXIT_CODE = 2
# Of the prologue of runs: an attempt before this one was interrupted, and has not ended yet.
LOCKED_EXIT_CODE = 75
LOCKED = "deployer: another attempt of this run still holds"
SIGNALS = 128  # a shell adds it to the signal that ended a program
# What shells and `env` end with if a program cannot be executed, or is not there.
MISSING_EXIT_CODES = (126, 127)
# Python's words for a script that is not there, with the exit code of a usage error.
MISSING_SCRIPT = re.compile(r"can't open file .*\[Errno \d+\]")
# How exceptions of W&B's and of other clients begin, and what W&B's say of a key.
BAD_KEY = re.compile(
    r"^(\w+\.)*AuthenticationError\b|No API key configured|api_key not configured"
    r"|the API key is not valid for this server",
    re.MULTILINE,
)
# The folder of a run in offline mode, which the SDK prints at its begin and at its end.
OFFLINE = re.compile(r"\boffline-run-\d")
# db/accounts.py, graphql/resolvers/runs.py: an agent's run is in its sweep's project.
OTHER_PROJECT = re.compile(r"an agent's key cannot (make projects|start runs of its own)")
OWN_SWEEP = re.compile(r"an agent's key cannot change sweeps")  # graphql/resolvers/sweeps.py
# How the SDK ends `wandb.init` if the server is away. A refusal is a CommError with other words.
NO_SERVER = re.compile(
    r"^wandb\.errors\.(\w+\.)*CommError: .*(timed out|giving up|connection)", re.MULTILINE | re.I
)
# What the SDK says of a run that an interrupt has ended; `sys.exit(-1)` is -1 in its exit record.
INTERRUPT_EXIT_CODE = 255

# The SDK repeats a lost heartbeat after 2 s; an agent that received it asks again after 5 s. A run
# that is not named as alive by then had a trainer that died before `wandb.init`.
LOST_REPLY_SECONDS = 4.0
MAX_DELIVERIES = 3
# A run that needs more memory than there is would be tried for ever, and so would one that kills
# its agent before `wandb.init`; whoever kills runs from outside rarely meets the same one as often.
MEMORY_KILLS = 5
UNSTARTED_KILLS = 20
# A server that is away is nobody's failure, but a script may ask one that never comes.
SERVER_TRIES = 4
# The same for one whose supervisor saw it killed each time, and that got no further than before.
STALLED_KILLS = UNSTARTED_KILLS
# From so many kills on, a run waits until all others have had their turn.
PATIENT_KILLS = 2
# A process whose heartbeat, one in 30 s, is overdue leaves its run to another one.
PROCESS_SECONDS = 35.0
# Different configurations that fail before any has finished: then the script is broken.
BREAKER_FAILURES = 3


@dataclass(frozen=True)
class Patience:
    """How many seconds the server waits before it draws a conclusion.

    An exit record comes after the agent saw the process end, and a slow disk needs time for it.
    The SDK sends something at least every 30 s and backs off for up to 60 s after an outage.
    `stopped` in the file stream's reply lets a run flush; the agent's `stop` is SIGTERM, which
    does not, so it comes later.
    """

    exit_record_seconds: float = 20.0
    silence_seconds: float = 120.0
    graceful_stop_seconds: float = 45.0
    unstarted_wait_seconds: float = 10.0


@dataclass(frozen=True)
class Marks:
    """What is known about an attempt when it ends; `announced` is its supervisor's word for why."""

    started: bool
    preempting: bool
    announced: EndCause | None
    stopping: bool


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended: the run's state, why, and whether it is handed out again."""

    state: str
    cause: EndCause
    queued: bool = False


def requeue(cause: EndCause) -> Outcome:
    return Outcome("preempted", cause, queued=True)


def judge_announcement(mark: object) -> EndCause | None:
    """Return the cause that a supervisor gives; a mark that names none means interrupted."""
    known = next((cause for cause in ANNOUNCED if cause == mark), None)
    return known or ("interrupted" if mark else None)


def judge_exit(exit_code: int, marks: Marks, seen: bool = True) -> Outcome:
    """Judge an exit record as W&B does, but for a run whose supervisor said that it ends it.

    `seen` is False for a record that was found beside a process that was gone: whether it came to
    its own end behind it, nobody knows.
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
    """Hand it out again, unless it was killed since it had been told to stop."""
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
    """Give up a run that was killed, or met no server, so many times, this one included.

    Of those that came to `wandb.init` only its memory's kills count, and `stalled` ones: its own
    process was seen killed, and it had logged no step that it had not logged before. Other kills
    may be anybody's. A run that was healed may be killed as often again.
    """
    allowed = {"OOM": MEMORY_KILLS, "no server": SERVER_TRIES}
    if not started:
        allowed["signal"] = UNSTARTED_KILLS
    hopeless = outcome.cause in allowed and kills >= allowed[outcome.cause]
    if outcome.cause == "signal" and outcome.queued and stalled:
        hopeless = hopeless or stalled % STALLED_KILLS == 0
    return Outcome("failed", outcome.cause) if hopeless else outcome


def judge_unassigned(outcome: Outcome, exit_code: int | None) -> Outcome:
    """Judge a run that no sweep handed out and so none hands out again, as W&B does."""
    if not outcome.queued:
        return outcome
    ended = "failed" if exit_code else "crashed"
    state = "preempted" if outcome.cause == "interrupted" else ended
    return Outcome(state, outcome.cause)


def judge_unstarted(outcome: Outcome, exit_code: int | None, output: str) -> Outcome:
    """Judge an attempt without `wandb.init` by the end of its process, which its supervisor saw.

    A kill may come from outside, but a run that is killed at each start would be tried for ever:
    it counts as a failure. The kill of an agent, which nobody sees from inside, does not.
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
    # What ended by itself was not killed, whatever became of its agent then.
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
    """Give a run that failed by itself another attempt while it has retries left.

    `failures` counts this attempt and those before it that failed. What would fail again in the
    same way gets none.
    """
    if outcome.state != "failed" or outcome.cause in HOPELESS or failures > retries:
        return outcome
    return requeue(outcome.cause)
