"""What the runs of a sweep have logged of a metric, read from the server."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

from deployer.model import SweepPath
from deployer.sweeps.doubts import note_dropped
from deployer.sweeps.metrics import metric_value
from deployer.sweeps.results import EARLIER, Results
from deployer.wandb_api.history import get_logged, get_sampled_rows
from deployer.wandb_api.model import Snapshot
from deployer.wandb_api.operations import get_log_tail
from deployer.wandb_api.server import Server

LOG = logging.getLogger(__name__)

RUNS_AT_ONCE = 1000  # between two words of how far it is
MOST_APART = 20  # one request


def get_metric_histories(
    server: Server, snapshot: Snapshot, metric: str
) -> dict[str, tuple[float, ...]]:
    """Return the values of a metric that each run has logged, by run id, in order.

    Runs that have logged nothing are left out. Raises WandbError.
    """
    runs = [run for run in snapshot.runs if run.summary]
    found: dict[str, tuple[float, ...]] = {}
    for start in range(0, len(runs), RUNS_AT_ONCE):
        if len(runs) > RUNS_AT_ONCE:
            LOG.info(f"reading histories: {start} of {len(runs)} runs")
        part = runs[start : start + RUNS_AT_ONCE]
        logged = get_logged(server.client, snapshot.sweep.path, part, metric)
        for run_id, values in logged.items():
            numbers = (metric_value({metric: value}, metric) for value in values)
            found[run_id] = tuple(number for number in numbers if number is not None)
    return found


def read_dropped(server: Server, results: Results) -> Results:
    """Add why runs lack the metric: dropped rows, or a second `wandb.init`, if the server knows."""
    path = SweepPath(*results.sweep_path.split("/"))
    missing = [row for row in results.rows if row.state == "finished" and row.value is None]
    apart = [name for row in missing if results.unlogged for name in row.apart][:MOST_APART]
    held = get_sampled_rows(server.client, path, dict.fromkeys(apart, (str(results.metric),)), 1)
    if found := next((name for name, rows in held.items() if rows), ""):
        return replace(results, dropped=f"{EARLIER} (see {found})")
    return note_dropped(results, partial(get_log_tail, server.client, path))
