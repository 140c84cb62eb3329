"""What a run printed, from where it can still be read."""

from __future__ import annotations

from collections.abc import Iterable

from deployer.errors import AgentError
from deployer.place import Place
from deployer.results import Row
from deployer.server import Server
from deployer.wandb_api import SweepPath, get_log_tail

# The stock agent's own words around a run; they are the same from 0.22 to 0.31.
BEGINS = "About to run command:"
ENDS = "Cleaning up finished run: "
AGENT_LOGGER = "wandb.wandb_agent"


def get_run_tail(
    server: Server, place: Place | None, path: SweepPath, row: Row, limit: int
) -> tuple[str, ...]:
    """Return the last lines of a run: the server's, or its agent's if it never called `wandb.init`.

    A trainer that dies in argparse leaves nothing on any server.
    """
    tail = get_log_tail(server.client, path, row.run_id, limit)
    if any(line.strip() for line in tail) or place is None:
        return tail
    names = [agent.name for agent in place.list_agents(str(path))]
    try:
        lines = [line for _, line in place.log_lines(names, follow=False)]
    except AgentError:
        return tail
    return find_run_output(lines, row.run_id)[-limit:]


def find_run_output(lines: Iterable[str], run_id: str) -> tuple[str, ...]:
    """Find what a run printed in its agent's log; its last attempt's, empty if it is not there."""
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
