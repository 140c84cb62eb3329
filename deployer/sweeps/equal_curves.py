"""Configurations that differ and have the same curve of the metric: the script may ignore them."""

from __future__ import annotations

from collections.abc import Hashable

from deployer.model import SweepPath
from deployer.sweeps.parameters.values import value_key
from deployer.sweeps.results import Results
from deployer.wandb_api.history import get_sampled_rows
from deployer.wandb_api.server import Server

# With fewer different values, curves are equal by chance: an accuracy that stays at guessing.
FEWEST_VALUES = 3
MOST_RUNS = 200  # whose histories are read
SAMPLES = 500


def find_equal_curves(server: Server, path: SweepPath, results: Results) -> tuple[str, ...]:
    """Return a run of each of the configurations with the most frequent curve; none if all differ.

    Only runs whose ranked values are equal are read. Short curves count if all configurations,
    three or more, have the same one. Raises WandbError.
    """
    tied: dict[float, dict[Hashable, str]] = {}
    for row in results.rows:
        if row.rank is not None and row.value is not None and not row.reused:
            tied.setdefault(row.value, {}).setdefault(value_key(row.parameters), row.run_id)
    finished = sum(map(len, tied.values()))
    runs = [run for group in tied.values() if len(group) > 1 for run in group.values()][:MOST_RUNS]
    metric = str(results.metric)
    curves: dict[tuple[object, ...], list[str]] = {}
    read = get_sampled_rows(server.client, path, dict.fromkeys(runs, (metric,)), SAMPLES)
    for run, rows in read.items():
        curves.setdefault(tuple(row.get(metric) for row in rows), []).append(run)
    equal = [
        group
        for curve, group in curves.items()
        if len(set(curve)) >= FEWEST_VALUES or (curve and 3 <= len(group) == finished)
    ]
    largest = max(equal, key=len, default=[])
    return tuple(largest) if len(largest) > 1 else ()
