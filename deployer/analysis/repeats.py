"""Groups repeats of a configuration; pure.

Repeats have equal parameters except for a seed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from deployer.analysis.moments import deviation, mean
from deployer.sweeps.configuration_list import configuration_key
from deployer.sweeps.recount import FEWEST_VALUES, CurveValues, find_equal_curves
from deployer.sweeps.results import Results, Row, rank_key

# The number of a set in a list carries no more information than a seed.
SEED_NAMES = ("seed", "random_seed", "rng_seed", "random_state", "job_id")


@dataclass(frozen=True)
class RepeatGroup:
    """A configuration and its repeats.

    `parameters` are without the seed. `values` are finite, one for each ranked run, in the order of
    `run_ids`. `mean` and `deviation` (standard deviation, None for fewer than two values) are of
    these, in the metric's unit. `rank` is None without a value. `runs` counts all, including
    unfinished ones.
    """

    rank: int | None
    parameters: Mapping[str, Any]
    run_ids: tuple[str, ...]
    values: tuple[float, ...]
    mean: float | None
    deviation: float | None
    runs: int

    @property
    def count(self) -> int:
        """The number of values in the mean."""
        return len(self.values)


@dataclass(frozen=True)
class Groups:
    """Groups, best mean first; `seeds` are the parameters in which repeats may differ."""

    groups: tuple[RepeatGroup, ...]
    seeds: tuple[str, ...]


def group_repeats(rows: Sequence[Row], goal: str, seeds: Sequence[str] | None = None) -> Groups:
    """Group ranked rows by their parameters except `seeds`; by default, names like a seed's.

    Rows without a rank, early-stopped ones and copies count only in `runs`.
    """
    names = tuple(dict.fromkeys(name for row in rows for name in row.parameters))
    chosen = tuple(name for name in names if (name in seeds if seeds else is_seed(name)))
    gathered: dict[Hashable, list[Row]] = {}
    for row in rows:
        gathered.setdefault(configuration_key(_without(row, chosen)), []).append(row)
    made = [_build_group(members, chosen) for members in gathered.values()]
    made.sort(key=lambda group: rank_key(group.mean, goal))
    groups = tuple(
        RepeatGroup(**{**vars(group), "rank": rank}) if group.count else group
        for rank, group in enumerate(made, 1)
    )
    return Groups(groups, chosen)


def note_curves(results: Results, curves: Mapping[str, CurveValues]) -> Results:
    """Mark equal curves of the metric; a short one makes copies only if all repeats have it."""
    groups: dict[Hashable, dict[CurveValues, list[str]]] = {}
    for row in results.rows:
        if row.rank is not None and row.state == "finished":
            key = configuration_key(_without(row, [*filter(is_seed, row.parameters)]))
            curve = curves.get(row.run_id) or (row.run_id,)
            groups.setdefault(key, {}).setdefault(curve, []).append(row.run_id)
    copies: dict[str, str] = {}
    for different in groups.values():
        for curve, (first, *others) in different.items():
            if len(set(curve)) >= FEWEST_VALUES or len(different) == 1:
                copies |= dict.fromkeys(others, first)
    rows = tuple(replace(row, copy_of=copies.get(row.run_id, "")) for row in results.rows)
    return replace(results, rows=rows, equal_curves=find_equal_curves(results, curves))


@lru_cache(maxsize=1024)
def is_seed(name: str) -> bool:
    """Return True if the last part of a parameter's name is a seed's: `seed`, `data.seed`."""
    last = name.lower().rpartition(".")[2].replace("-", "_")
    return last in SEED_NAMES or last.endswith("_seed")


def _build_group(members: Sequence[Row], seeds: Sequence[str]) -> RepeatGroup:
    ranked = [r for r in members if r.rank is not None and r.state == "finished" and not r.copy_of]
    values = tuple(row.value for row in ranked if row.value is not None)
    return RepeatGroup(
        rank=None,
        parameters=_without(members[0], seeds),
        run_ids=tuple(row.run_id for row in ranked),
        values=values,
        mean=_mean(values),
        deviation=deviation(values) if len(values) > 1 else None,
        runs=len(members),
    )


def _mean(values: Sequence[float]) -> float | None:
    if len(values) == 1:  # nearly always, and there may be thousands
        return values[0]
    return mean(values) if values else None


def _without(row: Row, seeds: Sequence[str]) -> dict[str, Any]:
    if not seeds:
        return row.parameters
    return {name: value for name, value in row.parameters.items() if name not in seeds}
