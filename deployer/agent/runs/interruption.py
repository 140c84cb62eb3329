"""Ends an agent's runs so that each is handed out again: marked, interrupted, settled."""

import signal
from typing import Callable, Sequence, Tuple

from ..host.child_task import run_task
from ..host.death_record import judge_predecessor
from ..host.processes import (
    Process,
    end_processes,
    is_agent,
    list_leftovers,
    read_variable,
    send_signal,
)
from ..server.client import Server
from ..settings import KEY_VARIABLE, Settings
from .agent_log import newest_run
from .delivery import Task, mark_runs, settle_runs

# A server that is away must not hold up a stop; what it misses, it is told by the next supervisor.
SERVER_SECONDS = 5.0


def build_task(settings: Settings, key: str) -> Task:
    """Return whose runs these settings are about."""
    server = Server(settings.base_url, key)
    return Task(server, settings.sweep_path, settings.name, settings.agents_folder)


def clear_leftovers(settings: Settings, key: str) -> bool:
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


def settle_leftovers(settings: Settings, key: str, cause: str) -> None:
    """Tell the server with this key what became of runs of which no process was left here."""
    if newest_run(settings.folder, settings.sweep_path.rpartition("/")[2]):
        task = build_task(settings, key)
        run_task(lambda: settle_runs(task, (), cause, SERVER_SECONDS), SERVER_SECONDS)


def end_runs(
    task: Task,
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
    run_task(lambda: settle_runs(task, known, cause, SERVER_SECONDS), SERVER_SECONDS)
    return gone
