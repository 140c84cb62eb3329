"""What the runs of a sweep have logged of a metric, read from the server."""

from __future__ import annotations

import logging
from functools import partial

from deployer.model import SweepPath
from deployer.sweeps.doubts import note_dropped
from deployer.sweeps.metrics import metric_value
from deployer.sweeps.results import Results
from deployer.wandb_api.history import get_logged
from deployer.wandb_api.model import Snapshot
from deployer.wandb_api.operations import get_log_tail
from deployer.wandb_api.server import Server

LOG = logging.getLogger(__name__)

RUNS_AT_ONCE = 1000  # between two words of how far it is


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
    """Add wandb's warning about dropped rows to results of runs that lack the metric."""
    path = SweepPath(*results.sweep_path.split("/"))
    return note_dropped(results, partial(get_log_tail, server.client, path))
