"""Runs: their fields, their logged data, and changes by the SDK and by users."""

from __future__ import annotations

import json
import math
import secrets
from collections import Counter
from itertools import islice
from typing import Any

from deployer.backend.db.accounts import ProjectRow, User, check_label, ensure_project, owns_project
from deployer.backend.db.artifacts import check_deletable, list_artifacts_of, remove_artifact
from deployer.backend.db.attempts import create_run, keep_former, reopen_attempt, split_off
from deployer.backend.db.lines import (
    Stream,
    clear_lines,
    count_lines,
    find_rows,
    iterate_rows,
    last_lines,
    read_lines,
    sample,
    step_of,
)
from deployer.backend.db.rows import Connection, change, delete, find, get, update
from deployer.backend.db.runs import ACTIVE, RunRow, check_writer, is_taken, wandb_part
from deployer.backend.db.sweeps import SweepRow, find_sweep
from deployer.backend.graphql.engine import Resolvers
from deployer.backend.graphql.listing import Info, connection, decode_id, parse_cursor
from deployer.backend.request import Refusal, not_found, parse_object, read_object
from deployer.backend.scheduling.context import Backend
from deployer.backend.scheduling.lifecycle import NO_OWN_RUNS, PROCESS_SECONDS, Outcome
from deployer.backend.scheduling.run_endings import end_run

# Input field -> column, for values stored unchanged; null means "keep the stored value".
PLAIN_COLUMNS = {
    "display_name": "display_name",
    "description": "description",
    "notes": "notes",
    "group_name": "group_name",
    "job_type": "job_type",
    "commit": "commit_hash",
    "host": "host",
    "job_program": "program",
    "config": "config",
    "summary_metrics": "summary",
}
OBJECTS = {"config", "summary"}
STATES = (*ACTIVE, "finished", "failed", "crashed", "killed", "preempted")
# Hints in refusals.
NO_BRANCH = "start a new run"
NOT_SHARED = 'start one run for each, without mode="shared", in the same group'
resolvers = Resolvers(
    {
        "Run.group": lambda _, run: run.group_name,
        "Run.commit": lambda _, run: run.commit_hash,
        "Run.exitcode": lambda _, run: run.exit_code,
        "Run.summaryMetrics": lambda _, run: run.summary,
        "Run.tags": lambda _, run: json.loads(run.tags),
        "Run.heartbeatAt": lambda _, run: run.heartbeat_at or run.created_at,
        "Run.shouldStop": lambda _, run: run.stop_requested_at is not None,
        "Run.stopped": lambda _, run: run.stop_requested_at is not None,
        "Run.failed": lambda _, run: run.state in ("failed", "crashed"),
        "Run.running": lambda _, run: run.active,
        "Run.readOnly": lambda *_: False,
        "Run.sweepName": lambda db, run: run.sweep_id and get(db, SweepRow, run.sweep_id).name,
        "Run.user": lambda db, run: find(db, User, id=run.user_id),
        "Run.project": lambda db, run: get(db, ProjectRow, run.project_id),
        "Run.historyLineCount": lambda db, run: count_lines(db, run.id, "history"),
        "Run.eventsLineCount": lambda db, run: count_lines(db, run.id, "events"),
        "Run.logLineCount": lambda db, run: count_lines(db, run.id, "output"),
        "Run.historyTail": lambda db, run: _tail(db, run, "history"),
        "Run.eventsTail": lambda db, run: _tail(db, run, "events"),
        "Run.events": lambda db, run, samples=None: _read_sample(
            db, run, find_rows(db, run.id, "events"), samples, "events"
        ),
    }
)
DEFAULT_SAMPLES = 500  # W&B's own
SPEC_NUMBERS = ("minStep", "maxStep", "samples")


@resolvers.field("Run.wandbConfig")
def resolve_wandb_config(row: RunRow, _: Info, keys: list[str] | None = None) -> dict[str, Any]:
    """Return the run's W&B configuration, empty if the run never started; the SDK tests this."""
    if row.started_at is None and row.attempt == 1:
        return {}
    inner = wandb_part(row.config)
    return {key: inner[key] for key in inner if not keys or key in keys}


def _tail(db: Connection, run: RunRow, stream: Stream) -> list[str]:
    return [text for _, text in last_lines(db, run.id, stream, 1)]


@resolvers.field("Run.systemMetrics")
def resolve_system_metrics(row: RunRow, info: Info) -> dict[str, Any]:
    tail = _tail(info.context.db, row, "events")
    newest = (read_object(tail[0]) if tail else None) or {}
    return {key: value for key, value in newest.items() if not key.startswith("_")}


@resolvers.field("Mutation.upsertBucket")
def resolve_upsert_bucket(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Create or change a run; `wandb.init` sends `name`, updates by the public API send `id`."""
    db = info.context.db
    if input.get("id"):
        row, inserted = _own_run(info, db, input["id"]), False
        row = _resumed(info, db, row) if _comes_from_process(input) else row
    else:
        row, inserted = _initialised(info, db, input)
    changes = _read_columns(input)
    for name in OBJECTS & changes.keys():
        parse_object(changes[name], f"the run's {name}")
    row = change(db, row, **changes) if changes else row
    return {"bucket": row, "inserted": inserted, "server_settings": {"server_messages": []}}


def _resumed(info: Info, db: Connection, row: RunRow) -> RunRow:
    """Resume a run; leave it unchanged if its own process only renames it.

    An agent's process cannot reclaim a run that is already queued for the next agent.
    """
    taken = row.queued and info.context.caller.sweep_id is not None
    if row.at_work or taken:
        return row
    return _going(info.context.backend, db, row)


def _comes_from_process(input: dict[str, Any]) -> bool:
    """Return True if the run's own process sent this request to start or rename its run.

    Its later requests have only the configuration; the public API sends neither field.
    """
    return bool(input.get("host") or input.get("job_program"))


def _initialised(info: Info, db: Connection, input: dict[str, Any]) -> tuple[RunRow, bool]:
    request = info.context
    backend = request.backend
    wanted = (input.get("entity_name"), input.get("model_name"))
    project = ensure_project(db, request.caller, *wanted, backend.now())
    name = input.get("name") or secrets.token_hex(4)
    found = find(db, RunRow, project_id=project.id, name=name)
    if found is None and is_taken(db, project.id, check_label("run id", name)):
        raise Refusal(400, f"run {name} was previously deleted; try again with a new run id")
    if found is None and _is_fork(input):
        raise Refusal(400, f"this server cannot fork runs ({NO_BRANCH}, without fork_from)")
    # Refuse even a later process: it would replace the rows of the first one.
    begun = found is not None and found.state != "pending"
    if begun and request.shared and _comes_from_process(input):
        raise Refusal(400, f"this server lets one process write a run, not several ({NOT_SHARED})")
    if found is None and request.caller.sweep_id is not None:
        raise Refusal(403, NO_OWN_RUNS)
    row = found or create_run(db, request.caller, project, name, backend.now())
    check_writer(db, request.caller, row)
    if found is None and input.get("sweep"):
        # Attach a run to the sweep that its client names, as function agents do.
        sweep = find_sweep(db, project, input["sweep"])
        row = change(db, row, sweep_id=sweep.id) if sweep else row
    if input.get("state"):
        _check_state(input["state"])
        return change(db, row, state=input["state"]), found is None
    if _is_rival(backend, row, input):
        row = split_off(db, row, backend.now())
    return _started(backend, db, row, input), found is None


def _check_state(state: str) -> None:
    if state not in STATES:
        raise Refusal(400, f"run state {state!r} is not one of {', '.join(STATES)}")


def _is_fork(input: dict[str, Any]) -> bool:
    """Return True if `wandb.init` has `fork_from`; it records that in the run's config."""
    return "branch_point" in wandb_part(input.get("config") or "{}")


def _started(backend: Backend, db: Connection, row: RunRow, input: dict[str, Any]) -> RunRow:
    """Restart a run at the first request of a process that does not resume it.

    A process that resumes a run, or renames it later, sends our id. Any other process may continue
    from its own checkpoint, send the next part of a resumed run, as `wandb sync` does, or be a new
    run under the same id. Its first history row decides; until then the old history stays.
    """
    if not _comes_from_process(input) and row.state != "pending":
        return row
    clear_lines(db, row.id, "events", "output")
    lines, former = count_lines(db, row.id, "history"), None
    if row.args is not None and row.active:  # the previous attempt was interrupted
        row = change(db, row, summary="{}")
    elif lines:
        former = keep_former(row, _read_columns(input))
    return change(db, _going(backend, db, row), undecided_lines=lines or None, former=former)


def _is_rival(backend: Backend, row: RunRow, input: dict[str, Any]) -> bool:
    """Return True if another process of the same attempt, such as rank 0, writes a sweep's run.

    That is so if the other process sends anything, even its end, after the first request of this
    one. Until then this one must retry (503). A silent process was killed, and this one replaces
    it. A request repeated because its reply was lost has the same configuration.
    """
    config = input.get("config") or ""
    begins = row.args is not None and row.started_at is not None and _comes_from_process(input)
    known = backend.rivals.get((row.id, config))
    if not begins or config == row.config or not (known or row.active):
        return False
    if known and known != row.heartbeat_at:
        return True
    if backend.presence.silence_seconds("process", row.id) > PROCESS_SECONDS:
        return False
    backend.rivals[row.id, config] = row.heartbeat_at or 0.0
    raise Refusal(503, f"another process may still be writing run {row.name}: try again")


def _going(backend: Backend, db: Connection, row: RunRow) -> RunRow:
    """Mark the run as running in a process, regardless of how the previous process ended."""
    if not row.active:
        row = change(db, row, preempting=0, announced=None, stop_requested_at=None)
        if row.args is None:
            reopen_attempt(db, row)
    backend.presence.seen("run", row.id)
    backend.presence.seen("process", row.id)
    now = backend.now()
    return change(
        db,
        row,
        state="preempting" if row.preempting else "running",
        queued=0,
        started_at=now,
        heartbeat_at=now,
        vanished_at=None,
        ended_at=None,
        exit_code=None,
        undecided_lines=None,
        former=None,
        first_offset=0,
    )


def _read_columns(input: dict[str, Any]) -> dict[str, str]:
    changes = {
        column: input[name] for name, column in PLAIN_COLUMNS.items() if input.get(name) is not None
    }
    for column in {"display_name", "group_name", "job_type"} & changes.keys():  # safe to show
        changes[column] = "".join(max(letter, " ") for letter in changes[column][:1024])
    if input.get("tags") is not None:
        changes["tags"] = json.dumps(input["tags"])
    return changes


def _own_run(info: Info, db: Connection, text: str) -> RunRow:
    request = info.context
    row = get(db, RunRow, decode_id("Run", text))
    if not owns_project(db, request.caller, row.project_id):
        raise not_found("run")
    check_writer(db, request.caller, row)
    return row


@resolvers.field("Mutation.stopRun")
def resolve_stop_run(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    backend = info.context.backend
    db = info.context.db
    row = _own_run(info, db, input["id"])
    if row.queued:
        end_run(backend, db, row, Outcome("killed", "stopped"))
    elif row.active and row.stop_requested_at is None:
        update(db, row, stop_requested_at=backend.now())
    return {"success": True}


@resolvers.field("Mutation.updateRunState")
def resolve_update_run_state(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Set a run's state by hand; like W&B, refuse it for a sweep's run."""
    backend = info.context.backend
    db = info.context.db
    row = _own_run(info, db, input["id"])
    if row.sweep_id is not None:
        raise Refusal(400, "the state of a sweep's run cannot be set")
    _check_state(input["state"])
    if input["state"] in ("pending", "running"):
        update(db, row, state=input["state"])
    else:
        end_run(backend, db, row, Outcome(input["state"], "stopped"))
    return {"success": True}


@resolvers.field("Mutation.rewindRun")
def resolve_rewind_run(_: Any, __: Info, **___: Any) -> dict[str, Any]:
    raise Refusal(400, f"this server cannot rewind runs ({NO_BRANCH}, without resume_from)")


@resolvers.field("Mutation.deleteRun")
def resolve_delete_run(_: Any, info: Info, input: dict[str, Any]) -> dict[str, Any]:
    """Delete a run permanently; its sweep assigns the configuration again. Idempotent."""
    db = info.context.db
    if find(db, RunRow, id=decode_id("Run", input["id"])) is None:
        return {"success": True}
    row = _own_run(info, db, input["id"])
    if input.get("delete_artifacts"):
        for made in list_artifacts_of(db, row, "output"):
            check_deletable(db, info.context.caller, made)
            remove_artifact(db, made)
    delete(db, row)
    return {"success": True}


@resolvers.field("Mutation.notifyScriptableRunAlert")
def resolve_alert(_: Any, __: Info, **___: Any) -> dict[str, Any]:
    """Acknowledge the alert and store nothing; the SDK also writes it to the run's log."""
    return {"success": True}


# Logged data: history, samples of it, and the console.


@resolvers.field("Run.history")
def resolve_history(
    row: RunRow,
    info: Info,
    min_step: int | None = None,
    max_step: int | None = None,
    samples: int | None = None,
) -> list[dict[str, Any]]:
    db = info.context.db
    numbers = find_rows(db, row.id, start=min_step or 0, stop=max_step)
    return _read_sample(db, row, numbers, samples)


def _read_sample(
    db: Connection, run: RunRow, numbers: list[int], samples: int | None, stream: Stream = "history"
) -> list[dict[str, Any]]:
    chosen = sample(numbers, samples or DEFAULT_SAMPLES)
    return list(iterate_rows(db, run.id, chosen, stream))


@resolvers.field("Run.sampledHistory")
def resolve_sampled_history(
    row: RunRow, info: Info, specs: list[str]
) -> list[list[dict[str, Any]]]:
    parsed = [_parse_spec(text) for text in specs]
    return [_sampled(info.context.db, row, spec) for spec in parsed]


def _parse_spec(text: str) -> dict[str, Any]:
    spec = parse_object(text or "{}", "the history spec")
    keys, numbers = spec.get("keys") or [], (spec.get(name) for name in SPEC_NUMBERS)
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise Refusal(400, "the history spec's keys are not a list of names")
    if not all(number is None or type(number) is int for number in numbers):
        raise Refusal(400, f"the history spec's {', '.join(SPEC_NUMBERS)} must be whole numbers")
    return spec


def _sampled(db: Connection, run: RunRow, spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows that have every key of the spec, reduced to these keys."""
    keys = spec.get("keys") or []
    if not spec:
        return []
    numbers = find_rows(db, run.id, start=spec.get("minStep") or 0, stop=_stop(spec))
    if keys:  # parse the chosen rows twice, so that the others need no memory
        rows = zip(numbers, iterate_rows(db, run.id, numbers), strict=True)
        numbers = [number for number, line in rows if all(key in line for key in keys)]
    chosen = _read_sample(db, run, numbers, spec.get("samples"))
    return [_finite({key: line[key] for key in keys} if keys else line) for line in chosen]


def _stop(spec: dict[str, Any]) -> int | None:
    """Return the step before which a spec ends.

    `maxStep` is exclusive for older clients and inclusive for wandb-core. wandb-core then asks for
    exactly one sample per step and has `_step` among the keys.
    """
    last: int | None = spec.get("maxStep")
    first: int | None = spec.get("minStep")
    if first is None or last is None:
        return last
    by_core = spec.get("samples") == last - first + 1 and "_step" in (spec.get("keys") or [])
    return last + 1 if by_core else last


def _finite(line: dict[str, Any]) -> dict[str, Any]:
    """Replace NaN and infinities with W&B's strings, since this reply is strict JSON."""
    return {key: _finite_value(value) for key, value in line.items()}


def _finite_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, dict):
        return _finite(value)
    return [_finite_value(item) for item in value] if isinstance(value, list) else value


@resolvers.field("Run.parquetHistory")
def resolve_parquet_history(row: RunRow, info: Info, live_keys: list[str]) -> dict[str, Any]:
    db = info.context.db
    rows = iterate_rows(db, row.id, find_rows(db, row.id))
    wanted = (line for line in rows if all(key in line for key in live_keys))
    # The first row's step tells the client where live history starts; all of it is live.
    return {"parquet_urls": [], "live_data": [_finite(line) for line in islice(wanted, 1)]}


@resolvers.field("Run.historyKeys")
def resolve_history_keys(row: RunRow, info: Info) -> dict[str, Any]:
    db = info.context.db
    counts: Counter[str] = Counter()
    latest: dict[str, Any] = {}
    last_step: float = -1
    for index, line in enumerate(iterate_rows(db, row.id, find_rows(db, row.id))):
        counts.update(line.keys())
        latest.update(line)
        last_step = step_of(line, index)
    keys = {
        key: {
            "typeCounts": [{"type": "number", "count": count}],
            "monotonic": key == "_step",
            "previousValue": _previous(latest[key]),
        }
        for key, count in counts.items()
    }
    return {"lastStep": last_step, "sets": [], "keys": keys}


def _previous(value: Any) -> Any:
    """Return the last logged value if it is text or a number, else W&B's -1."""
    return _finite_value(value) if isinstance(value, str | int | float) else -1


@resolvers.field("Run.logLines")
def resolve_log_lines(
    row: RunRow,
    info: Info,
    after: str | None = None,
    first: int | None = None,
    last: int | None = None,
    **_: Any,
) -> dict[str, Any]:
    db = info.context.db
    if last is not None:
        return connection([_log_line(*line) for line in last_lines(db, row.id, "output", last)])
    start, size = parse_cursor(after), first or 1000
    found = read_lines(db, row.id, "output", start, size)
    total = count_lines(db, row.id, "output")
    stop = found[-1][0] + 1 if found else start
    return {
        "edges": [{"node": _log_line(*line), "cursor": str(line[0] + 1)} for line in found],
        "page_info": {"has_next_page": stop < total, "end_cursor": str(stop)},
        "total_count": total,
    }


def _log_line(number: int, text: str) -> dict[str, Any]:
    """Split a console line, structured or as older SDKs send it (`ERROR 2026-… text`)."""
    parts = read_object(text)
    if parts is None:
        return {"number": number, "line": text, "level": "info"}
    return {
        "number": number,
        "line": str(parts.get("content", "")),
        "timestamp": parts.get("ts"),
        "level": parts.get("level", "info"),
        "label": parts.get("label"),
    }
