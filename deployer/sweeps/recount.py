"""A sweep's raw histories, read from the server, and a recount of its runs.

A step is doubled if two rows have it. Steps are missing if the gap between two rows is wider than
the run's usual stride, or if the server or the run's summary reports more rows. A trainer may log
every k-th step, or change the stride half-way: a gap that most other runs have at the same step is
intended, not a loss.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

from deployer.model import Run, SweepPath
from deployer.sweeps.doubts import note_dropped
from deployer.sweeps.results import EARLIER, Results, Row, is_done, metric_value
from deployer.sweeps.space import value_key
from deployer.wandb_api.history import History, get_history, get_logged, get_sampled_rows
from deployer.wandb_api.model import Snapshot
from deployer.wandb_api.operations import get_log_tail
from deployer.wandb_api.server import Server

# The two rows around a gap; the first one is None before the first row.
Gap = tuple[int | None, int | None]
LOG = logging.getLogger(__name__)
RUNS_AT_ONCE = 1000  # between two lines about the progress
MOST_APART = 20  # one request
# With fewer distinct values, curves can be equal by chance, such as an accuracy that stays at
# chance level.
FEWEST_VALUES = 3
MOST_RUNS = 1000  # the most runs whose histories are read
SAMPLES = 500


@dataclass(frozen=True)
class Verification:
    """The result of the recount: rows in total, and the runs with errors, each once."""

    runs: int
    rows: int
    doubled: Mapping[str, tuple[int, ...]]
    missing: Mapping[str, tuple[Gap, ...]]
    apart: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Return True if no step is doubled and none is missing."""
        return not self.doubled and not self.missing

    def sentence(self) -> str:
        """The result as one line, with the first example of each kind."""
        parts = [f"verified {self.rows} rows of {self.runs} finished runs"]
        doubled = sum(len(steps) for steps in self.doubled.values())
        missing = sum(len(gaps) for gaps in self.missing.values())
        parts += [f"{doubled} steps doubled", f"{missing} gaps"]
        for run_id, steps in list(self.doubled.items())[:1]:
            parts.append(f"first doubled: step {steps[0]} of {run_id}")
        for run_id, gaps in list(self.missing.items())[:1]:
            parts.append(f"first gap: {_describe(gaps[0])} of {run_id}")
        if names := [name for found in self.apart.values() for name in found]:
            parts.append(f"other wandb.init calls are in {len(names)} more runs, first {names[0]}")
        return ", ".join(parts)


def verify_sweep(server: Server, snapshot: Snapshot) -> Verification:
    """Read every finished run's complete history and check it; raises WandbError."""
    done = [run for run in snapshot.runs if is_done(snapshot.sweep, run.state)]
    path = snapshot.sweep.path
    return judge_histories({r.run_id: (r, get_history(server.client, path, r)) for r in done})


def judge_histories(histories: Mapping[str, tuple[Run, History]]) -> Verification:
    """Find doubled and missing steps, comparing a run with its own stride and all others."""
    doubled = {name: find_doubled(history.steps) for name, (_, history) in histories.items()}
    gaps = {name: find_gaps(run, history) for name, (run, history) in histories.items()}
    usual = Counter(gap for found in gaps.values() for gap in found)
    habits = {gap for gap, count in usual.items() if count > 1 and 2 * count > len(histories)}
    lost = {name: tuple(g for g in found if g not in habits) for name, found in gaps.items()}
    return Verification(
        runs=len(histories),
        rows=sum(len(history.steps) for _, history in histories.values()),
        doubled={name: steps for name, steps in doubled.items() if steps},
        missing={name: found for name, found in lost.items() if found},
        apart={name: run.apart for name, (run, _) in histories.items() if run.apart},
    )


def find_doubled(steps: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(step for step, count in Counter(steps).items() if count > 1))


def find_gaps(run: Run, history: History) -> tuple[Gap, ...]:
    """Return the gaps in a run's history: at its start, inside, at its end."""
    steps = sorted(set(history.steps))
    last = run.summary.get("_step")
    promised = history.line_count or 0
    if not steps:
        return ((None, None),) if promised or last is not None else ()
    stride = Counter(b - a for a, b in pairwise(steps)).most_common(1)
    usual = stride[0][0] if stride else max(1, steps[0])
    gaps: list[Gap] = [(None, steps[0])] if steps[0] > usual else []
    gaps += [(a, b) for a, b in pairwise(steps) if b - a > usual and _is_regular(steps, usual)]
    if (isinstance(last, int | float) and last > steps[-1]) or promised > len(history.steps):
        gaps.append((steps[-1], None))
    return tuple(gaps)


def _is_regular(steps: Sequence[int], usual: int) -> bool:
    """Return True if most rows follow the usual stride; otherwise gaps mean nothing."""
    strides = [b - a for a, b in pairwise(steps)]
    return 2 * strides.count(usual) > len(strides)


def _describe(gap: Gap) -> str:
    before, after = gap
    if before is None:
        return f"before step {after}" if after is not None else "every step"
    return f"between steps {before} and {after}" if after is not None else f"after step {before}"


def get_metric_histories(
    server: Server, snapshot: Snapshot, metric: str
) -> dict[str, tuple[float, ...]]:
    """Return the values of a metric that each run logged, by run id, in order.

    Runs that logged nothing are left out. Raises WandbError.
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
    """Add why runs lack the metric, if known: dropped rows, or a second `wandb.init`."""
    path = SweepPath(*results.sweep_path.split("/"))
    missing = [row for row in results.rows if row.state == "finished" and row.value is None]
    apart = [name for row in missing if results.unlogged for name in row.apart][:MOST_APART]
    held = get_sampled_rows(server.client, path, dict.fromkeys(apart, (str(results.metric),)), 1)
    if found := next((name for name, rows in held.items() if rows), ""):
        return replace(results, dropped=f"{EARLIER} (see {found})")
    return note_dropped(results, partial(get_log_tail, server.client, path))


# Runs with the same curve of the metric: configurations that the script ignores, and duplicates.

CurveValues = tuple[object, ...]


def read_tied_curves(server: Server, path: SweepPath, results: Results) -> dict[str, CurveValues]:
    """Return the curves of the runs whose ranked values are equal, by run id; raises WandbError."""
    counts = Counter(row.value for row in results.rows)
    tied = (r for r in results.rows if r.rank is not None and not r.reused and counts[r.value] > 1)
    runs = [row.run_id for row in tied][:MOST_RUNS]
    metric = str(results.metric)
    read = get_sampled_rows(server.client, path, dict.fromkeys(runs, (metric,)), SAMPLES)
    return {run: tuple(row.get(metric) for row in rows) for run, rows in read.items()}


def find_equal_curves(results: Results, curves: Mapping[str, CurveValues]) -> tuple[str, ...]:
    """Return one run per configuration with the most frequent curve; empty if all differ.

    Short curves count if at least three configurations exist and all have the same one.
    """
    ranked = [row for row in results.rows if row.rank is not None and not row.reused]
    different = {(row.value, value_key(row.parameters)): row for row in reversed(ranked)}
    rows = list(reversed(different.values()))
    groups: dict[CurveValues, list[Row]] = {}
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

    A single differing parameter cannot cancel itself out. Several may, such as an equal lr · batch
    size, unless the group contains every configuration with the same other parameters.
    """
    first = group[0].parameters

    def agree(row: Row, names: Iterable[str]) -> bool:
        return all(value_key(row.parameters.get(n)) == value_key(first[n]) for n in names)

    fixed = [name for name in first if all(agree(row, [name]) for row in group)]
    return len(fixed) >= len(first) - 1 or sum(agree(row, fixed) for row in rows) == len(group)
