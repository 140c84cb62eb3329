"""Runs with the same curve of the metric: configurations that the script ignores, and copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from deployer.model import SweepPath
from deployer.sweeps.parameters.forms import value_key
from deployer.sweeps.results import Results, Row
from deployer.wandb_api.history import get_sampled_rows
from deployer.wandb_api.server import Server

# With fewer different values, curves are equal by chance: an accuracy that stays at guessing.
FEWEST_VALUES = 3
MOST_RUNS = 1000  # whose histories are read
SAMPLES = 500
Curve = tuple[object, ...]


def read_tied_curves(server: Server, path: SweepPath, results: Results) -> dict[str, Curve]:
    """Return the curves of the runs whose ranked values are equal, by run id; raises WandbError."""
    counts = Counter(row.value for row in results.rows)
    tied = (r for r in results.rows if r.rank is not None and not r.reused and counts[r.value] > 1)
    runs = [row.run_id for row in tied][:MOST_RUNS]
    metric = str(results.metric)
    read = get_sampled_rows(server.client, path, dict.fromkeys(runs, (metric,)), SAMPLES)
    return {run: tuple(row.get(metric) for row in rows) for run, rows in read.items()}


def find_equal_curves(results: Results, curves: Mapping[str, Curve]) -> tuple[str, ...]:
    """Return a run of each of the configurations with the most frequent curve; none if all differ.

    Short curves count if all configurations, three or more, have the same one.
    """
    ranked = [row for row in results.rows if row.rank is not None and not row.reused]
    different = {(row.value, value_key(row.parameters)): row for row in reversed(ranked)}
    rows = list(reversed(different.values()))
    groups: dict[Curve, list[Row]] = {}
    for row in rows:
        groups.setdefault(curves.get(row.run_id, ()), []).append(row)
    equal = [
        group
        for curve, group in groups.items()
        if (len(set(curve)) >= FEWEST_VALUES or (curve and 3 <= len(group) == len(rows)))
        and _is_ignored(group, rows)
    ]
    largest = max(equal, key=len, default=[])
    return tuple(row.run_id for row in largest) if len(largest) > 1 else ()


def _is_ignored(group: Sequence[Row], rows: Sequence[Row]) -> bool:
    """Return True if the parameters that differ in a group seem to have no effect.

    One alone cannot make up for itself. Several may, such as an equal lr · batch size, unless
    every configuration that agrees with the group in the other parameters is in it.
    """
    first = group[0].parameters

    def agree(row: Row, names: Iterable[str]) -> bool:
        return all(value_key(row.parameters.get(n)) == value_key(first[n]) for n in names)

    fixed = [name for name in first if all(agree(row, [name]) for row in group)]
    return len(fixed) >= len(first) - 1 or sum(agree(row, fixed) for row in rows) == len(group)
