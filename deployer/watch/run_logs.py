"""A run's output, from any source that still has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from deployer.config.redaction import find_hidden, redact_text
from deployer.errors import AgentError, WandbError
from deployer.executors.base import Executor
from deployer.model import SweepPath
from deployer.sweeps.results import ACTIVE_STATES, WAITING_STATES, Row, keep_own_lines
from deployer.wandb_api.client import Client
from deployer.wandb_api.operations import get_log_page, get_log_tail, list_runs
from deployer.wandb_api.server import Server

# The stock agent's own lines around a run; the same from 0.22 to 0.31.
BEGINS = "About to run command:"
ENDS = "Cleaning up finished run: "
AGENT_LOGGER = "wandb.wandb_agent"

LOOK_SECONDS = 2.0
LAST_LINES = 20
NOISY_LINES = 30  # wandb's footer may be this long


def get_run_tail(
    server: Server, executor: Executor | None, path: SweepPath, row: Row, limit: int
) -> tuple[str, ...]:
    """Return a run's last lines: the server's, or its agent's if it never called `wandb.init`.

    A trainer that dies in argparse leaves nothing on any server. Secrets are left out.
    """
    hidden = find_hidden(row.parameters)
    lines = _read_tail(server, executor, path, row.run_id, limit + NOISY_LINES)
    return tuple(redact_text(line, hidden) for line in keep_own_lines(lines, limit))


def _read_tail(
    server: Server, executor: Executor | None, path: SweepPath, run_id: str, limit: int
) -> tuple[str, ...]:
    tail = get_log_tail(server.client, path, run_id, limit)
    if any(line.strip() for line in tail) or executor is None:
        return tail
    names = [agent.name for agent in executor.list_agents(str(path))]
    try:
        lines = [line for _, line in executor.log_lines(names, follow=False)]
    except AgentError:
        return tail
    return find_run_output(lines, run_id)[-limit:]


def follow_run(
    client: Client, path: SweepPath, run_id: str, follow: bool, sleep: Callable[[float], None]
) -> Iterator[str]:
    """Yield the lines of a run's console from its server; with `follow` until it has ended.

    So it does not matter which agents have the run in turn, or where they are. If a run restarts,
    its console restarts too. Raises WandbError if the run does not exist.
    """
    cursor: str | None = None
    seen = 0
    while True:
        try:
            page = get_log_page(client, path, run_id, cursor)
        except WandbError as error:
            if not follow or not error.passing:
                raise
            sleep(LOOK_SECONDS)
            continue
        if page.total < seen:
            cursor, seen = None, 0
            continue
        yield from page.lines
        cursor, seen = page.cursor, seen + len(page.lines)
        if page.lines:
            continue
        if not follow or page.run_state not in (*ACTIVE_STATES, *WAITING_STATES):
            return
        sleep(LOOK_SECONDS)


def read_lost_output(
    client: Client, path: SweepPath, names: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield (agent name, line): the end of the last run's output, for agents without own logs."""
    last_runs = {
        attempt.agent: run.run_id
        for run in list_runs(client, path)
        for attempt in run.attempts
        if attempt.agent in names
    }
    for name in names:
        if name in last_runs:
            for line in get_log_tail(client, path, last_runs[name], LAST_LINES):
                yield name, line


def find_run_output(lines: Iterable[str], run_id: str) -> tuple[str, ...]:
    """Return a run's output from its agent's log: the last attempt's; empty if missing."""
    since: list[str] = []
    found: tuple[str, ...] = ()
    for line in lines:
        if BEGINS in line:
            since = []
        elif f"{ENDS}{run_id}" in line:
            found = tuple(since)
        elif AGENT_LOGGER not in line:
            since.append(line)
    return found
