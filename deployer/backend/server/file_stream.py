"""The SDK's file stream: history, events, console, summary, and how a run ends.

Every chunk may come twice, and late. A missing run is 404 for good; anything passing is 503 or
507, because the SDK gives a stream up for ever on a refusal below 500.
"""

from __future__ import annotations

from typing import Any

from deployer.backend.db.database import Connection
from deployer.backend.db.runs.attempts import last_attempt, reopen_attempt
from deployer.backend.db.runs.history import write_history
from deployer.backend.db.runs.lines import FILE_STREAMS, write_lines
from deployer.backend.db.runs.runs import Run, change_run
from deployer.backend.scheduling.context import Backend
from deployer.backend.scheduling.lifecycle import Cause, judge_announcement, judge_exit
from deployer.backend.scheduling.run_endings import end_run, finish_if_target_reached, marks_of

SUMMARY_FILE = "wandb-summary.json"
# A supervisor adds it to `preempting`, with the cause: this attempt is over even if the trainer
# exits with 0.
INTERRUPTED_MARK = "deployerInterrupted"
# It adds it to an exit record which it found beside a process that was gone.
UNSEEN_MARK = "deployerExitUnseen"


def apply_chunk(
    backend: Backend, db: Connection, run: Run, chunk: dict[str, Any]
) -> dict[str, Any]:
    """Store one chunk of a run's stream and return the reply; `stopped` asks the run to stop."""
    backend.presence.seen("run", run.id)
    run = change_run(db, run, heartbeat_at=backend.now(), vanished_at=None)
    run = _revived(db, run, "complete" in chunk, bool(chunk.get(INTERRUPTED_MARK)))
    for name, part in (chunk.get("files") or {}).items():
        run = _apply_file(backend, db, run, name, part)
    if not run.ended_at:
        run = _apply_state(backend, db, run, chunk)
    return {"stopped": True} if run.stop_requested_at and not run.ended_at else {}


def _revived(db: Connection, run: Run, ended: bool, announced: bool) -> Run:
    """Take a run back that was only silent, or whose exit record is late, if nobody has it yet.

    A supervisor may say late that a run was killed which seemed to have failed before it began.
    """
    believed: tuple[Cause, ...] = ("node", "signal") if ended else ("node",)
    if ended and announced:
        believed = (*believed, "never started")
    nobody_has_it = run.queued or (run.args is None and run.state == "crashed")
    if nobody_has_it and run.exit_code is None and last_attempt(db, run).cause in believed:
        reopen_attempt(db, run)
        return change_run(db, run, state="running", queued=0, ended_at=None)
    return run


def _apply_file(backend: Backend, db: Connection, run: Run, name: str, part: dict[str, Any]) -> Run:
    texts = [str(line) for line in part.get("content") or []]
    stream = FILE_STREAMS.get(name)
    offset = int(part.get("offset") or 0)
    if stream == "history":
        run = write_history(db, run, offset, texts)
    elif stream:
        write_lines(db, run.id, stream, offset, texts)
    elif name == SUMMARY_FILE and texts:
        run = change_run(db, run, summary=texts[-1])
        finish_if_target_reached(backend, db, run)
    return run


def _apply_state(backend: Backend, db: Connection, run: Run, chunk: dict[str, Any]) -> Run:
    if chunk.get("preempting"):
        announced = run.announced or judge_announcement(chunk.get(INTERRUPTED_MARK))
        run = change_run(db, run, preempting=1, announced=announced, state="preempting")
    if not chunk.get("complete"):
        return run
    exit_code = int(chunk.get("exitcode") or 0)
    seen = not chunk.get(UNSEEN_MARK)
    return end_run(backend, db, run, judge_exit(exit_code, marks_of(run), seen), exit_code)
