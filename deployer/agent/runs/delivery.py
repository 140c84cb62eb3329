"""Brings what a run has left to the server: after its end, and where it was interrupted.

Everything here may be done twice: history is written at its line number, and a run that has ended
takes no further end. Called in short-lived processes only.
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

REQUEST_SECONDS = 3.0  # one try; a server that hangs is asked again
LONGEST_WAIT_SECONDS = 3.0
LINES_PER_REQUEST = 500

STARTED = ("running", "preempting")
ACTIVE = ("pending", *STARTED)
# What a server may call a run whose end it never heard of.
GIVEN_UP = ("crashed", "preempted")
KILLED_EXIT_CODE = 255  # what the SDK says of a run that was interrupted
UNFINISHED_EXIT_CODE = 1  # of a script that left with 0, but before its run was finished
# A run that died is reported before its agent can have it again, or not at all: the server finds
# it out by itself, some seconds later.
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
# A server that is away must not hold up a stop; what it misses, it is told by the next supervisor.
SERVER_SECONDS = 5.0
# Assigned, and its trainer never came to `wandb.init`.
UNSTARTED = "pending"
RETURNED = "preempted"


@dataclass(frozen=True)
class Delivery:
    """Whose runs are meant: the server, the sweep's path, the agent, the folder of all agents."""

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
    """A run as the server has it; `last_step` is -1 without history."""

    state: str
    line_count: int
    last_step: int
    summary: Dict[str, Any]


def mark_runs(task: Delivery, known: Tuple[str, ...], cause: str, seconds: float) -> List[str]:
    """Mark this agent's runs as being ended, and why; return those that were marked.

    `known` are the ids that the agent's folder knows, `cause` is one of `death`. A run that has
    ended by itself, and only has not delivered it yet, is left alone.
    """
    deadline = time.monotonic() + seconds
    # First on disk: the server may be away.
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
    """End this agent's runs on the server; their processes are gone.

    One that came to its end is delivered with its own exit code; all others are handed out again.
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
    """See that the server knows the end of a run whose process has just ended.

    `cause` is why, should it have died without coming to its end; empty if the server knows that.
    `exit_code` is that of its process, if that was seen; `killed` tells that it certainly was
    killed from outside, which counts before `wandb.init`, too. Return True if it left with 0 in the
    middle, which W&B can only be told as another code.
    """
    unfinished = False
    death_deadline = time.monotonic() + DEATH_SECONDS
    leftovers = load_leftovers(task.agents_folder, run_id)
    if leftovers is None or leftovers.exit_code is None:
        # The SDK's own process may have the end still to write.
        while list_cores(run_id) and time.monotonic() < death_deadline:
            time.sleep(CORE_POLL_SECONDS)
        leftovers = load_leftovers(task.agents_folder, run_id)
    if leftovers and leftovers.exit_code is not None:
        deliver_end(task, run_id, leftovers, time.monotonic() + seconds)
    elif (leftovers or killed) and cause and not list_cores(run_id):
        # The server may have been asked for the next run already, and thinks that it failed.
        dead = (*ACTIVE, "preempted") if killed else STARTED
        end = _end(cause)
        left = exit_code is not None and not killed and cause != OUT_OF_MEMORY
        if left and has_left_its_core(task.agents_folder, run_id):
            # `os._exit`, or a fault of its own: the script's failure, though no record says so.
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
    """Report the end of a run that left no exit record, so that it is free at once.

    `dead` are the states in which it is known to have died: one that has not called `wandb.init` in
    this attempt may also have failed by itself, which is the server's to judge.
    """
    run = get_run(task, run_id, deadline)
    if run and run.state in dead and not is_interrupted(task.agents_folder, run_id):
        if leftovers:
            deliver_history(task, run_id, leftovers, run, deadline)
        # Once only: repeated after a lost reply, it could hit the next attempt.
        stream(task, run_id, end, time.monotonic())


def deliver_end(
    task: Delivery, run_id: str, leftovers: Optional[Leftovers], deadline: float, seen: bool = True
) -> bool:
    """Deliver all of a run that ended by itself and could not say so; True if that was done.

    `seen` is False if nobody saw its process end, which may have been killed behind its record.
    """
    if leftovers is None or leftovers.exit_code is None:
        return False
    run = get_run(task, run_id, deadline)
    if run is None or run.state not in (*ACTIVE, *GIVEN_UP):
        return False
    # Handed out again, or deleted and begun anew: then only a good end of this very run counts.
    if run.state not in STARTED and (leftovers.exit_code or not run.line_count):
        return False
    if not deliver_history(task, run_id, leftovers, run, deadline):
        return False
    end = {"complete": True, "exitcode": leftovers.exit_code}
    # W&B's server ignores what it does not know.
    return stream(task, run_id, end if seen else {**end, "deployerExitUnseen": True}, deadline)


def deliver_history(
    task: Delivery, run_id: str, leftovers: Leftovers, run: ServerRun, deadline: float
) -> bool:
    """Write the rows that the server has missed behind those it has, and the summary."""
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
    """Ask for a run, until the deadline; None if there is none or the server stays away."""
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
    """Ask which runs the agent of our name holds; a server that knows no names has none."""
    sweep_id = task.sweep_path.rpartition("/")[2]
    variables = {**task.project, "sweep": sweep_id, "agent": task.agent}
    reply = insist(lambda: ask(task.server, AGENT_RUNS, variables, REQUEST_SECONDS), deadline)
    sweep = (reply.data.get("project") or {}).get("sweep") or {}
    edges = ((sweep.get("agent") or {}).get("runs") or {}).get("edges") or []
    return [edge["node"]["name"] for edge in edges if edge["node"]["state"] in ACTIVE]


def _mark(cause: str) -> Dict[str, Any]:
    """Return what ends an attempt whatever its exit code; W&B's server ignores the second key."""
    return {"preempting": True, "deployerInterrupted": cause}


def _end(cause: str) -> Dict[str, Any]:
    return {**_mark(cause), "complete": True, "exitcode": KILLED_EXIT_CODE}


def stream(task: Delivery, run_id: str, chunk: Dict[str, Any], deadline: float) -> bool:
    """Write to a run's file stream; return whether the server took it."""
    path = "/files/{entity}/{project}/{run}/file_stream".format(**task.project, run=run_id)
    reply = insist(lambda: post(task.server, path, chunk, REQUEST_SECONDS), deadline)
    return reply.status == 200


def insist(request: Callable[[], ServerReply], deadline: float) -> ServerReply:
    """Repeat a request until the server has said something for good, or the deadline has come."""
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
    """End what a supervisor of this folder left when it was killed; returns whether it is gone.

    The server is told what has become of its runs, unless there is no key or was no run: by the
    key that they carry, since the one that was given to both supervisors is older.
    """

    def find() -> Sequence[Process]:
        return list_leftovers(settings.folder)

    left = find()
    # The supervisor's own children carry what it was given.
    working = [process for process in left if process.is_run or is_agent(process)]
    carried = [read_variable(process.id, KEY_VARIABLE) for process in working]
    key = next(filter(None, carried), key)
    for process in left:
        # Killed first: an agent that sees its run end would fetch the next one.
        if is_agent(process):
            send_signal(process.id, signal.SIGKILL)
    run_id = newest_run(settings.folder, settings.sweep_path.rpartition("/")[2])
    if not key or not run_id:
        return end_processes(find, settings.grace_seconds)
    cause = judge_predecessor(settings.death_record_path)
    # Without a process, another agent may have that run by now.
    known = (run_id,) if any(process.is_run for process in left) else ()
    return end_runs(build_task(settings, key), known, find, settings.grace_seconds, cause)


def deliver_leftovers(settings: AgentSettings, key: str, cause: str) -> None:
    """Tell the server with this key what became of runs of which no process was left here."""
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
    """End all processes that `find` returns, and tell the server before and after.

    Before, since a trainer may exit with 0 when it is interrupted; after, since one that had to be
    killed cannot speak for itself. `known` are the runs that the agent's folder or log names;
    `cause` is one of `death_record`'s. Returns whether all processes are gone.
    """
    if any(process.is_run for process in find()):
        run_task(lambda: mark_runs(task, known, cause, SERVER_SECONDS), SERVER_SECONDS)
    gone = end_processes(find, grace_seconds)
    run_task(lambda: deliver_runs(task, known, cause, SERVER_SECONDS), SERVER_SECONDS)
    return gone


# The last run of an agent with a limited number of runs: it asks the server for no more. From the
# agent's next question the server would learn that a run is gone. Called in short-lived processes
# alone.


def end_unstarted(task: Delivery, run_id: str, seconds: float) -> None:
    """Report a run that ended before `wandb.init` as failed."""
    deadline = time.monotonic() + seconds
    run = get_run(task, run_id, deadline)
    if run and run.state == UNSTARTED:
        stream(task, run_id, {"complete": True, "exitcode": KILLED_EXIT_CODE}, deadline)


def is_settled(task: Delivery, run_id: str, seconds: float) -> bool:
    """Return whether the run will not be handed out again; False if the server does not say."""
    run = get_run(task, run_id, time.monotonic() + seconds)
    return run is not None and run.state not in (RETURNED, UNSTARTED)
