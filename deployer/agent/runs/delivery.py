"""Delivers a run's undelivered data to the server, after it ended or was interrupted.

Everything here is idempotent: history is written at its line number, and the server ignores a
second end of a run. Call it only in short-lived processes.
"""

from __future__ import annotations

import json
import signal
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ..host.death_record import OUT_OF_MEMORY, judge_predecessor
from ..host.processes import (
    Process,
    end_processes,
    is_agent,
    list_cores,
    list_leftovers,
    read_variable,
    run_task,
    send_signal,
)
from ..server import ServerAddress, ServerReply, ask, post
from ..settings import KEY_VARIABLE, AgentSettings
from .local_runs import (
    Leftovers,
    has_left_its_core,
    is_interrupted,
    load_leftovers,
    newest_run,
    note_interrupt,
)

REQUEST_SECONDS = 3.0  # timeout of one try
LONGEST_WAIT_SECONDS = 3.0
LINES_PER_REQUEST = 500

STARTED = ("running", "preempting")
ACTIVE = ("pending", *STARTED)
# A server's states for a run whose end was never reported.
GIVEN_UP = ("crashed", "preempted")
KILLED_EXIT_CODE = 255  # the SDK's code for an interrupted run
UNFINISHED_EXIT_CODE = 1  # for a script that exited with 0 before its run was finished
# Report a run's death only before its agent can get the run again. Otherwise the server detects
# the death automatically, some seconds later.
DEATH_SECONDS = 10.0
CORE_POLL_SECONDS = 0.1

RUN = """
query DeployerRun($entity: String, $project: String!, $run: String!) {
  project(name: $project, entityName: $entity) { run(name: $run) {
    state historyLineCount historyTail summaryMetrics } } }
"""
AGENT_RUNS = """
query DeployerAgentRuns($entity: String, $project: String!, $sweep: String!, $agent: String!) {
  project(name: $project, entityName: $entity) { sweep(sweepName: $sweep) {
    agent(agentName: $agent) { runs { edges { node { name state } } } } } } }
"""
# An unreachable server must not delay a stop; the next supervisor reports what it missed.
SERVER_SECONDS = 5.0
# Assigned, but its trainer never called `wandb.init`.
UNSTARTED = "pending"
RETURNED = "preempted"


@dataclass(frozen=True)
class Delivery:
    """Identifies an agent's runs: the server, the sweep's path, the agent, the agents' folder."""

    server: ServerAddress
    sweep_path: str
    agent: str
    agents_folder: str

    @property
    def project(self) -> Dict[str, str]:
        """Return the sweep's project as GraphQL variables."""
        entity, project, _ = self.sweep_path.split("/")
        return {"entity": entity, "project": project}


@dataclass(frozen=True)
class ServerRun:
    """A run's state on the server; `last_step` is -1 without history."""

    state: str
    line_count: int
    last_step: int
    summary: Dict[str, Any]


def mark_runs(task: Delivery, known: Tuple[str, ...], cause: str, seconds: float) -> List[str]:
    """Mark this agent's runs as interrupted, with the cause; return the ids of marked runs.

    `known` are the ids in the agent's folder, `cause` is one of `death_record`'s. A run that
    already ended normally, but has not delivered its end yet, is not marked.
    """
    deadline = time.monotonic() + seconds
    # Mark on disk first, since the server may be unreachable.
    marked = [run_id for run_id in known if note_interrupt(task.agents_folder, run_id)]
    for run_id in _active_runs(task, deadline):
        if run_id not in known and note_interrupt(task.agents_folder, run_id):
            marked.append(run_id)
    for run_id in marked:
        run = get_run(task, run_id, deadline)
        if run and run.state in ACTIVE:
            stream(task, run_id, _mark(cause), deadline)
    return marked


def deliver_runs(task: Delivery, known: Tuple[str, ...], cause: str, seconds: float) -> None:
    """End this agent's runs on the server, after their processes are gone.

    A run with an exit record is delivered with its exit code; the server reassigns all others.
    """
    deadline = time.monotonic() + seconds
    active = _active_runs(task, deadline)
    for run_id in [*active, *(run_id for run_id in known if run_id not in active)]:
        leftovers = load_leftovers(task.agents_folder, run_id)
        if not deliver_end(task, run_id, leftovers, deadline, seen=False):
            run = get_run(task, run_id, deadline)
            if run and run.state in ACTIVE:
                if leftovers:
                    deliver_history(task, run_id, leftovers, run, deadline)
                stream(task, run_id, _end(cause), deadline)


def deliver_ended(
    task: Delivery, run_id: str, seconds: float, cause: str, exit_code: Optional[int], killed: bool
) -> bool:
    """Ensure that the server knows the end of a run whose process has just ended.

    `cause` is the cause to report if it died without an exit record; empty if the server already
    knows it. `exit_code` is that of its process, None if unknown. `killed` means that it certainly
    was killed from outside, even if before `wandb.init`. Return True if it exited with 0 before its
    run was finished, which is reported to W&B as a nonzero code.
    """
    unfinished = False
    death_deadline = time.monotonic() + DEATH_SECONDS
    leftovers = load_leftovers(task.agents_folder, run_id)
    if leftovers is None or leftovers.exit_code is None:
        # wandb-core may still have to write the exit record.
        while list_cores(run_id) and time.monotonic() < death_deadline:
            time.sleep(CORE_POLL_SECONDS)
        leftovers = load_leftovers(task.agents_folder, run_id)
    if leftovers and leftovers.exit_code is not None:
        deliver_end(task, run_id, leftovers, time.monotonic() + seconds)
    elif (leftovers or killed) and cause and not list_cores(run_id):
        # The agent may have already asked for the next run, so the server assumes a failure.
        dead = (*ACTIVE, "preempted") if killed else STARTED
        end = _end(cause)
        left = exit_code is not None and not killed and cause != OUT_OF_MEMORY
        if left and has_left_its_core(task.agents_folder, run_id):
            # `os._exit` or a crash: the script failed, although there is no exit record.
            end = {"complete": True, "exitcode": exit_code or UNFINISHED_EXIT_CODE}
            unfinished = exit_code == 0
        _deliver_death(task, run_id, leftovers, end, death_deadline, dead)
    return unfinished


def _deliver_death(
    task: Delivery,
    run_id: str,
    leftovers: Optional[Leftovers],
    end: Dict[str, Any],
    deadline: float,
    dead: Tuple[str, ...],
) -> None:
    """Report the end of a run without an exit record, so that it can be reassigned at once.

    `dead` are the states that imply its death. A run that has not called `wandb.init` in this
    attempt may also have failed on its own, which the server judges.
    """
    run = get_run(task, run_id, deadline)
    if run and run.state in dead and not is_interrupted(task.agents_folder, run_id):
        if leftovers:
            deliver_history(task, run_id, leftovers, run, deadline)
        # No retry: after a lost reply, a retry could hit the next attempt.
        stream(task, run_id, end, time.monotonic())


def deliver_end(
    task: Delivery, run_id: str, leftovers: Optional[Leftovers], deadline: float, seen: bool = True
) -> bool:
    """Deliver the data and exit code of a run with an exit record; return True on success.

    `seen` is False if the process's end was not observed; it may have been killed after writing
    its record.
    """
    if leftovers is None or leftovers.exit_code is None:
        return False
    run = get_run(task, run_id, deadline)
    if run is None or run.state not in (*ACTIVE, *GIVEN_UP):
        return False
    # The run was reassigned, or deleted and restarted: then only exit code 0 of this run counts.
    if run.state not in STARTED and (leftovers.exit_code or not run.line_count):
        return False
    if not deliver_history(task, run_id, leftovers, run, deadline):
        return False
    end = {"complete": True, "exitcode": leftovers.exit_code}
    # W&B's server ignores unknown keys.
    return stream(task, run_id, end if seen else {**end, "deployerExitUnseen": True}, deadline)


def deliver_history(
    task: Delivery, run_id: str, leftovers: Leftovers, run: ServerRun, deadline: float
) -> bool:
    """Append the rows that the server lacks, and write the summary."""
    missed = leftovers.read(run.last_step)
    steps = sorted(missed.rows)
    for start in range(0, len(steps), LINES_PER_REQUEST):
        lines = [json.dumps(missed.rows[s]) for s in steps[start : start + LINES_PER_REQUEST]]
        part = {"offset": run.line_count + start, "content": lines}
        if not stream(task, run_id, {"files": {"wandb-history.jsonl": part}}, deadline):
            return False
    if not steps:
        return True
    summary = json.dumps({**run.summary, **missed.summary})
    part = {"offset": 0, "content": [summary]}
    return stream(task, run_id, {"files": {"wandb-summary.json": part}}, deadline)


def get_run(task: Delivery, run_id: str, deadline: float) -> Optional[ServerRun]:
    """Get a run, with retries until the deadline; None if not found or unreachable."""
    variables = {**task.project, "run": run_id}
    reply = insist(lambda: ask(task.server, RUN, variables, REQUEST_SECONDS), deadline)
    found = (reply.data.get("project") or {}).get("run")
    if not found:
        return None
    tail = json.loads(found.get("historyTail") or "[]")
    last = json.loads(tail[-1]).get("_step", -1) if tail else -1
    return ServerRun(
        state=str(found["state"]),
        line_count=int(found.get("historyLineCount") or 0),
        last_step=int(last),
        summary=json.loads(found.get("summaryMetrics") or "{}"),
    )


def _active_runs(task: Delivery, deadline: float) -> List[str]:
    """List the active runs of the agent with our name; none if the server has no names."""
    sweep_id = task.sweep_path.rpartition("/")[2]
    variables = {**task.project, "sweep": sweep_id, "agent": task.agent}
    reply = insist(lambda: ask(task.server, AGENT_RUNS, variables, REQUEST_SECONDS), deadline)
    sweep = (reply.data.get("project") or {}).get("sweep") or {}
    edges = ((sweep.get("agent") or {}).get("runs") or {}).get("edges") or []
    return [edge["node"]["name"] for edge in edges if edge["node"]["state"] in ACTIVE]


def _mark(cause: str) -> Dict[str, Any]:
    """Return a chunk that marks an attempt as interrupted; W&B ignores the second key."""
    return {"preempting": True, "deployerInterrupted": cause}


def _end(cause: str) -> Dict[str, Any]:
    return {**_mark(cause), "complete": True, "exitcode": KILLED_EXIT_CODE}


def stream(task: Delivery, run_id: str, chunk: Dict[str, Any], deadline: float) -> bool:
    """Write to a run's file stream; return True if the server accepted it."""
    path = "/files/{entity}/{project}/{run}/file_stream".format(**task.project, run=run_id)
    reply = insist(lambda: post(task.server, path, chunk, REQUEST_SECONDS), deadline)
    return reply.status == 200


def insist(request: Callable[[], ServerReply], deadline: float) -> ServerReply:
    """Retry a request on transient errors until the deadline; return the last reply."""
    wait = 0.2
    while True:
        reply = request()
        wait = max(wait, reply.retry_after_seconds)
        if not reply.passing or time.monotonic() + wait > deadline:
            return reply
        time.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT_SECONDS)


def build_task(settings: AgentSettings, key: str) -> Delivery:
    server = ServerAddress(settings.base_url, key)
    return Delivery(server, settings.sweep_path, settings.name, settings.agents_folder)


def clear_leftovers(settings: AgentSettings, key: str) -> bool:
    """End orphans of a killed supervisor of this folder; return True if none remains.

    Also delivers its runs to the server, unless there is no key or no run. Uses the key in the
    orphans' environment, since the key given to both supervisors is older.
    """

    def find() -> Sequence[Process]:
        return list_leftovers(settings.folder)

    left = find()
    # Other children of the supervisor only have the given key.
    working = [process for process in left if process.is_run or is_agent(process)]
    carried = [read_variable(process.id, KEY_VARIABLE) for process in working]
    key = next(filter(None, carried), key)
    for process in left:
        # Kill the agent first: if it saw its run end, it would fetch the next one.
        if is_agent(process):
            send_signal(process.id, signal.SIGKILL)
    run_id = newest_run(settings.folder, settings.sweep_path.rpartition("/")[2])
    if not key or not run_id:
        return end_processes(find, settings.grace_seconds)
    cause = judge_predecessor(settings.death_record_path)
    # Without a process, the run may already be assigned to another agent.
    known = (run_id,) if any(process.is_run for process in left) else ()
    return end_runs(build_task(settings, key), known, find, settings.grace_seconds, cause)


def deliver_leftovers(settings: AgentSettings, key: str, cause: str) -> None:
    """Deliver runs that have no process left here, with this key."""
    if newest_run(settings.folder, settings.sweep_path.rpartition("/")[2]):
        task = build_task(settings, key)
        run_task(lambda: deliver_runs(task, (), cause, SERVER_SECONDS), SERVER_SECONDS)


def end_runs(
    task: Delivery,
    known: Tuple[str, ...],
    find: Callable[[], Sequence[Process]],
    grace_seconds: float,
    cause: str,
) -> bool:
    """End all processes that `find` returns; mark their runs before, and deliver them after.

    Mark before, since a trainer may exit with 0 when interrupted. Deliver after, since a killed
    trainer cannot report its end. `known` are the run ids in the agent's folder or log; `cause` is
    one of `death_record`'s. Return True if all processes are gone.
    """
    if any(process.is_run for process in find()):
        run_task(lambda: mark_runs(task, known, cause, SERVER_SECONDS), SERVER_SECONDS)
    gone = end_processes(find, grace_seconds)
    run_task(lambda: deliver_runs(task, known, cause, SERVER_SECONDS), SERVER_SECONDS)
    return gone


# The last run of an agent with a limited number of runs. The server normally learns of a run's end
# from the agent's next request for work, which this agent never sends. Call these functions only in
# short-lived processes.


def end_unstarted(task: Delivery, run_id: str, seconds: float) -> None:
    """Report a run that ended before `wandb.init` as failed."""
    deadline = time.monotonic() + seconds
    run = get_run(task, run_id, deadline)
    if run and run.state == UNSTARTED:
        stream(task, run_id, {"complete": True, "exitcode": KILLED_EXIT_CODE}, deadline)


def is_settled(task: Delivery, run_id: str, seconds: float) -> bool:
    """Return True if the run will not be reassigned; False if the server does not answer."""
    run = get_run(task, run_id, time.monotonic() + seconds)
    return run is not None and run.state not in (RETURNED, UNSTARTED)
