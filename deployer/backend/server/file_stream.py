"""The SDK's file stream: history, events, console, summary, and the end of a run.

Every chunk may arrive twice, and late. A missing run is 404; a transient failure is 503 or 507,
because the SDK permanently gives up a stream on a status below 500.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deployer.backend.db.attempts import (
    complete_summary,
    last_attempt,
    reopen_attempt,
    write_history,
)
from deployer.backend.db.lines import FILE_STREAMS, write_lines
from deployer.backend.db.rows import Connection, change
from deployer.backend.db.runs import RunRow
from deployer.backend.request import LARGEST_INT, Refusal, parse_object
from deployer.backend.scheduling.context import Backend
from deployer.backend.scheduling.lifecycle import EndCause, judge_announcement, judge_exit
from deployer.backend.scheduling.run_endings import end_run, finish_if_target_reached, marks_of

SUMMARY_FILE = "wandb-summary.json"
# A supervisor sends it, with the cause, in addition to `preempting`: the attempt is over even if
# the trainer exits with 0.
INTERRUPTED_MARK = "deployerInterrupted"
# A supervisor adds it to an exit record that it found after the process was gone.
UNSEEN_MARK = "deployerExitUnseen"


@dataclass(frozen=True)
class Chunk:
    """A chunk of a run's stream.

    `files` has offset and lines of each file. `said_end` is True if the chunk has the field
    `complete`. `interrupted` is the cause from a supervisor.
    """

    files: Mapping[str, tuple[int, list[str]]]
    said_end: bool
    complete: bool
    exit_code: int
    exit_seen: bool
    preempting: bool
    interrupted: object


def parse_chunk(body: Mapping[str, Any]) -> Chunk:
    """Parse a chunk; refuse an invalid body with 400."""
    files = body.get("files") or {}
    if not isinstance(files, dict):
        raise Refusal(400, "the stream's files are not a JSON object")
    return Chunk(
        files={name: _parse_part(name, part) for name, part in files.items()},
        said_end="complete" in body,
        complete=bool(body.get("complete")),
        exit_code=_parse_int(body.get("exitcode") or 0, "the exitcode", -LARGEST_INT),
        exit_seen=not body.get(UNSEEN_MARK),
        preempting=bool(body.get("preempting")),
        interrupted=body.get(INTERRUPTED_MARK),
    )


def _parse_part(name: str, part: Any) -> tuple[int, list[str]]:
    lines = part.get("content") or [] if isinstance(part, dict) else None
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise Refusal(400, f"the content of {name} is not a list of lines")
    offset = _parse_int(part.get("offset") or 0, f"the offset of {name}", 0)
    if offset + len(lines) > LARGEST_INT:
        raise Refusal(400, f"the offset of {name} is above {LARGEST_INT}")
    if name == SUMMARY_FILE and lines:
        parse_object(lines[-1], "the summary")
    return offset, lines


def _parse_int(value: Any, what: str, least: int) -> int:
    if type(value) is not int or not least <= value <= LARGEST_INT:
        raise Refusal(400, f"{what} is not a whole number from {least} to {LARGEST_INT}")
    return value


def apply_chunk(backend: Backend, db: Connection, run: RunRow, chunk: Chunk) -> dict[str, Any]:
    """Store one chunk of a run's stream and return the reply; `stopped` asks the run to stop."""
    backend.presence.seen("run", run.id)
    backend.presence.seen("process", run.id)
    run = change(db, run, heartbeat_at=backend.now(), vanished_at=None)
    run = _revived(db, run, chunk.said_end, bool(chunk.interrupted))
    for name, (offset, lines) in chunk.files.items():
        run = _apply_file(backend, db, run, name, offset, lines)
    if not run.ended_at:
        run = _apply_state(backend, db, run, chunk)
    return {"stopped": True} if run.stop_requested_at and not run.ended_at else {}


def _revived(db: Connection, run: RunRow, ended: bool, announced: bool) -> RunRow:
    """Reopen a run that was only silent, or whose exit record is late, unless it was reassigned.

    A supervisor may report late that a run was killed, after it was judged as never started.
    """
    believed: tuple[EndCause, ...] = ("node", "signal") if ended else ("node",)
    if ended and announced:
        believed = (*believed, "never started")
    nobody_has_it = run.queued or (run.args is None and run.state == "crashed")
    if nobody_has_it and run.exit_code is None and last_attempt(db, run).cause in believed:
        reopen_attempt(db, run)
        return change(db, run, state="running", queued=0, ended_at=None)
    return run


def _apply_file(
    backend: Backend, db: Connection, run: RunRow, name: str, offset: int, lines: list[str]
) -> RunRow:
    stream = FILE_STREAMS.get(name)
    if stream == "history":
        run = write_history(db, run, offset, lines)
    elif stream:
        write_lines(db, run.id, stream, offset, lines)
    elif name == SUMMARY_FILE and lines:
        run = change(db, run, summary=lines[-1])
        if run.ended_at:
            run = change(db, run, summary=complete_summary(db, run))
        finish_if_target_reached(backend, db, run)
    return run


def _apply_state(backend: Backend, db: Connection, run: RunRow, chunk: Chunk) -> RunRow:
    if chunk.preempting:
        announced = run.announced or judge_announcement(chunk.interrupted)
        run = change(db, run, preempting=1, announced=announced, state="preempting")
    if not chunk.complete:
        return run
    cause = judge_exit(chunk.exit_code, marks_of(run), chunk.exit_seen)
    return end_run(backend, db, run, cause, chunk.exit_code)
