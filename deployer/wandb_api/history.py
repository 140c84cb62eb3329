"""A run's complete raw history, paged by steps, because one reply only samples its range."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.model import Run, SweepPath
from deployer.wandb_api import queries
from deployer.wandb_api.client import Client
from deployer.wandb_api.model import parse_json

# The SDK's own pages have 1,000 steps. We request ten times as many samples: a server thins out a
# page only if it has more rows, and doubled steps must not be thinned out.
ROWS_PER_PAGE = 1_000
SAMPLES_PER_PAGE = 10 * ROWS_PER_PAGE
PAGES_PER_REQUEST = 20


@dataclass(frozen=True)
class History:
    """The `_step` of every row in the server's order; `line_count` is the server's own count."""

    steps: tuple[int, ...]
    line_count: int | None


def get_history(client: Client, path: SweepPath, run: Run) -> History:
    """Read every row of a run's history; pages widen if a trainer logs every k-th step."""
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


def get_logged(
    client: Client, path: SweepPath, runs: Sequence[Run], name: str
) -> dict[str, list[Any]]:
    """Return the values that each run logged under a name, by run id, ordered by step.

    NaN and infinities are W&B's words for them. One request reads many runs.
    """
    logged: dict[str, list[Any]] = {run.run_id: [] for run in runs}
    pages = [
        (run.run_id, _specify_page(name, first))
        for run in runs
        for first in range(0, _find_last_step(run) + 1, SAMPLES_PER_PAGE)
    ]
    for (run_id, _), rows in zip(pages, _get_rows(client, path, pages), strict=True):
        logged[run_id] += [row[name] for row in rows if name in row]
    return logged


def get_sampled_rows(
    client: Client, path: SweepPath, keys: Mapping[str, Sequence[str]], samples: int
) -> dict[str, list[dict[str, Any]]]:
    """Return rows by run id, each row with all the keys requested for its run.

    A longer history is sampled to about `samples` rows. One request reads many runs.
    """
    wanted = [(run, {"keys": list(names), "samples": samples}) for run, names in keys.items()]
    return dict(zip(keys, _get_rows(client, path, wanted), strict=True))


def _find_last_step(run: Run) -> int:
    last = run.summary.get("_step")
    return int(last) if isinstance(last, int | float) and math.isfinite(last) else 0


def _specify_page(name: str, first: int) -> dict[str, Any]:
    return {
        "keys": [name],
        "minStep": first,
        "maxStep": first + SAMPLES_PER_PAGE,  # the next page starts with it
        "samples": SAMPLES_PER_PAGE,
    }


def _get_rows(
    client: Client, path: SweepPath, wanted: Sequence[tuple[str, Mapping[str, Any]]]
) -> list[list[dict[str, Any]]]:
    found: list[list[dict[str, Any]]] = []
    for start in range(0, len(wanted), PAGES_PER_REQUEST):
        found += _get_rows_at_once(client, path, wanted[start : start + PAGES_PER_REQUEST])
    return found


def _get_rows_at_once(
    client: Client, path: SweepPath, wanted: Sequence[tuple[str, Mapping[str, Any]]]
) -> list[list[dict[str, Any]]]:
    variables = {"entity": path.entity, "project": path.project}
    for place, (run_id, spec) in enumerate(wanted):
        variables[f"run{place}"] = run_id
        variables[f"spec{place}"] = json.dumps(spec)
    count = range(len(wanted))
    query = queries.LOGGED_ROWS % (
        ", ".join(map(queries.LOGGED_ROWS_VARIABLES.format, count)),
        " ".join(map(queries.LOGGED_ROWS_RUN.format, count)),
    )
    answer = client.execute(query, variables).get("project") or {}
    parts = [(answer.get(f"part{place}") or {}).get("sampledHistory") for place in count]
    return [list(part[0] or ()) if part else [] for part in parts]


def _run_node(client: Client, query: str, variables: dict[str, Any]) -> dict[str, Any]:
    return dict((client.execute(query, variables).get("project") or {}).get("run") or {})
