"""What supervisors saw of the ends of their runs' processes.

Of a run that has not come to `wandb.init`, nobody else tells an exit code or what it printed.
"""

from __future__ import annotations

from deployer.backend.db.accounts import Caller
from deployer.backend.db.agents import end_agents
from deployer.backend.db.attempts import find_attempt, note_process_end, reopen_attempt
from deployer.backend.db.lines import clear_lines, write_lines
from deployer.backend.db.rows import Connection
from deployer.backend.db.runs import Run
from deployer.backend.scheduling.context import Backend
from deployer.backend.scheduling.lifecycle import Outcome
from deployer.backend.scheduling.run_endings import end_run

MAX_OUTPUT_CHARACTERS = 16384  # twice what a supervisor sends


def note_exit(
    backend: Backend,
    db: Connection,
    run: Run,
    agent_name: str,
    seconds_ago: float,
    exit_code: int | None,
    output: str | None,
) -> None:
    """Keep how a run's process ended, with the attempt that the agent of that name was at.

    The report may be late: then the attempt is judged again, or the next one has begun. What a run
    printed before `wandb.init` is its console until it begins anew.
    """
    attempt = find_attempt(db, run, agent_name, backend.now() - max(0.0, seconds_ago))
    if attempt is None:
        return
    output = output[-MAX_OUTPUT_CHARACTERS:] if output else None
    note_process_end(db, attempt, exit_code, output)
    if output and attempt.number == run.attempt and run.started_at is None:
        clear_lines(db, run.id, "output")
        write_lines(db, run.id, "output", 0, output.splitlines())
    if attempt.number == run.attempt and attempt.cause == "never started" and run.queued:
        reopen_attempt(db, run)  # it was judged without what is known now
        end_run(backend, db, run, Outcome("failed", "never started"))


def note_leave(backend: Backend, db: Connection, caller: Caller) -> None:
    """Note that the agent of a key is gone, as its supervisor says; a heartbeat takes it back."""
    assert caller.sweep_id is not None
    assert caller.agent_name is not None
    end_agents(db, caller.sweep_id, caller.agent_name, backend.now())
