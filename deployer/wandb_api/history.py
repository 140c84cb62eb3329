"""A run's raw history, whole: paged by steps, since one reply is a sample of what it covers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from deployer.wandb_api import queries
from deployer.wandb_api.client import Client
from deployer.wandb_api.model import RunInfo, SweepPath, parse_json

# The SDK's own pages have 1,000 steps. Ten times as many samples are asked for: a server thins
# out a page only when it has more rows than that, and doubled steps must not be thinned out.
ROWS_PER_PAGE = 1_000
SAMPLES_PER_PAGE = 10 * ROWS_PER_PAGE


@dataclass(frozen=True)
class History:
    """The `_step` of every row in the server's order; `line_count` is what it says it has."""

    steps: tuple[int, ...]
    line_count: int | None


def get_history(client: Client, path: SweepPath, run: RunInfo) -> History:
    """Read every row of a run's history; the pages grow where a trainer logs every k-th step."""
    named = {"entity": path.entity, "project": path.project, "run": run.run_id}
    count = _run_node(client, queries.COUNT_HISTORY, named).get("historyLineCount")
    last = run.summary.get("_step")
    last_step = int(last) if isinstance(last, int | float) else (count or 1) - 1
    stride = math.ceil((last_step + 1) / max(1, count or 1))
    steps: list[int] = []
    for first in range(0, last_step + 1, ROWS_PER_PAGE * max(1, stride)):
        page = {
            "minStep": first,
            "maxStep": first + ROWS_PER_PAGE * max(1, stride),
            "pageSize": SAMPLES_PER_PAGE,
        }
        rows = _run_node(client, queries.HISTORY_PAGE, {**named, **page}).get("history") or ()
        steps += [int(step) for row in rows if (step := parse_json(row).get("_step")) is not None]
    return History(tuple(steps), count)


def _run_node(client: Client, query: str, variables: dict[str, Any]) -> dict[str, Any]:
    return dict((client.execute(query, variables).get("project") or {}).get("run") or {})
