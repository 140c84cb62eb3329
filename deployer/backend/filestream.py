"""The SDK's file stream: history, events, console, summary, and how a run ends.

Every chunk may come twice, and late. A missing run is 404 for good; anything passing is 503,
because the SDK gives a stream up for ever on every other refusal.
"""

from __future__ import annotations

from typing import Any

from deployer.backend.context import Backend
from deployer.backend.ending import end_run, finish_if_target_reached
from deployer.backend.lifecycle import judge_exit
from deployer.backend.lines import FILE_STREAMS, write_lines
from deployer.backend.runs import Run, change_run
from deployer.backend.store import Connection

SUMMARY_FILE = "wandb-summary.json"


def apply_chunk(
    backend: Backend, db: Connection, run: Run, chunk: dict[str, Any]
) -> dict[str, Any]:
    """Store one chunk of a run's stream and return the reply; `stopped` asks the run to stop."""
    backend.presence.seen("run", run.id)
    run = change_run(db, run, heartbeat_at=backend.now(), vanished_at=None)
    for name, part in (chunk.get("files") or {}).items():
        run = _apply_file(backend, db, run, name, part)
    if not run.ended_at:
        run = _apply_state(backend, db, run, chunk)
    return {"stopped": True} if run.stop_requested_at and not run.ended_at else {}


def _apply_file(backend: Backend, db: Connection, run: Run, name: str, part: dict[str, Any]) -> Run:
    texts = [str(line) for line in part.get("content") or []]
    stream = FILE_STREAMS.get(name)
    if stream:
        write_lines(db, run.id, stream, int(part.get("offset") or 0), texts)
    elif name == SUMMARY_FILE and texts:
        run = change_run(db, run, summary=texts[-1])
        finish_if_target_reached(backend, db, run)
    return run


def _apply_state(backend: Backend, db: Connection, run: Run, chunk: dict[str, Any]) -> Run:
    if chunk.get("preempting"):
        run = change_run(db, run, preempting=1, state="preempting")
    if not chunk.get("complete"):
        return run
    exit_code = int(chunk.get("exitcode") or 0)
    outcome = judge_exit(exit_code, bool(run.preempting), run.stop_requested_at is not None)
    return end_run(backend, db, run, outcome, exit_code)
