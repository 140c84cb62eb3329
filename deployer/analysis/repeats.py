"""Repeats of a configuration as one group, and whether the first leads beyond the noise; pure.

Repeats have equal parameters apart from a seed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from deployer.analysis.moments import deviation, mean
from deployer.analysis.welch import compare_means
from deployer.sweeps.configurations import configuration_key
from deployer.sweeps.equal_curves import FEWEST_VALUES, Curve, find_equal_curves
from deployer.sweeps.metrics import rank_key
from deployer.sweeps.results import Results, Row

SEED_NAMES = ("seed", "random_seed", "rng_seed", "random_state")
# A lead that chance alone would bring about more often than this is within the noise.
LEVEL = 0.05


class Verdict(StrEnum):
    """What is known of the first group's lead over the second."""

    AHEAD = "ahead"
    NOISE = "within the noise"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Group:
    """A configuration and its repeats.

    `parameters` are without the seed. `values` are finite, one for each ranked run, in the order
    of `run_ids`; `mean` and `deviation` (standard deviation, None below two values) are of them, in
    the metric's unit. `rank` is None without a value. `runs` counts all, unfinished ones too.
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
        """How many values the mean is of."""
        return len(self.values)


@dataclass(frozen=True)
class Lead:
    """How far the first group is ahead of the second, in the metric's unit, positive if better.

    `p_value` is that of Welch's test, None where it cannot be told.
    """

    verdict: Verdict
    difference: float | None
    p_value: float | None
    sentence: str


@dataclass(frozen=True)
class Groups:
    """Groups, best mean first; `seeds` are the parameters in which repeats may differ."""

    groups: tuple[Group, ...]
    seeds: tuple[str, ...]
    lead: Lead


def group_repeats(rows: Sequence[Row], goal: str, seeds: Sequence[str] | None = None) -> Groups:
    """Group ranked rows by their parameters apart from `seeds`, left out: what is named like one.

    Rows without a rank, early-stopped ones and copies are counted in `runs` alone.
    """
    names = tuple(dict.fromkeys(name for row in rows for name in row.parameters))
    chosen = tuple(name for name in names if (name in seeds if seeds else is_seed(name)))
    gathered: dict[Hashable, list[Row]] = {}
    for row in rows:
        gathered.setdefault(configuration_key(_without(row, chosen)), []).append(row)
    made = [_build_group(members, chosen) for members in gathered.values()]
    made.sort(key=lambda group: rank_key(group.mean, goal))
    groups = tuple(
        Group(**{**vars(group), "rank": rank}) if group.count else group
        for rank, group in enumerate(made, 1)
    )
    return Groups(groups, chosen, judge_lead(groups, goal))


def note_curves(results: Results, curves: Mapping[str, Curve]) -> Results:
    """Note equal curves of the metric; a short one makes copies only if all repeats have it."""
    groups: dict[Hashable, dict[Curve, list[str]]] = {}
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


def has_repeats(rows: Sequence[Row]) -> bool:
    """Tell whether two rows may have the same parameters apart from seeds, without grouping them.

    What is equal in `configuration_key` is equal here, but for NaN; True and 1 are equal, too.
    """
    try:
        return len({_values_of(row) for row in rows}) < len(rows)
    except TypeError:  # a list cannot be looked up
        return True


def _values_of(row: Row) -> tuple[object, ...]:
    return tuple(value for name, value in row.parameters.items() if not is_seed(name))


@lru_cache(maxsize=1024)
def is_seed(name: str) -> bool:
    """Tell whether a parameter is a seed by the last part of its name, as `seed`, `data.seed`."""
    last = name.lower().rpartition(".")[2].replace("-", "_")
    return last in SEED_NAMES or last.endswith("_seed")


def judge_lead(groups: Sequence[Group], goal: str) -> Lead:
    """Compare the first group with the second by Welch's t-test, two-sided, at a level of 5 %."""
    valued = [group for group in groups if group.mean is not None]
    if len(valued) < 2:
        return Lead(Verdict.UNKNOWN, None, None, "there is nothing to compare the first with")
    first, second = valued[:2]
    assert first.mean is not None
    assert second.mean is not None
    difference = first.mean - second.mean if goal == "maximize" else second.mean - first.mean
    if min(first.count, second.count) < 2:
        said = "whether the first leads beyond the noise cannot be told without repeats of both"
        return Lead(Verdict.UNKNOWN, difference, None, said)
    p_value = compare_means(first.values, second.values)
    return _word(difference, p_value, first.count, second.count)


def _word(difference: float, p_value: float, first: int, second: int) -> Lead:
    runs = f"with {first} and {second} runs"
    if p_value < LEVEL:
        said = f"the first leads the second by {difference:.3g}, beyond the noise {runs}"
        return Lead(Verdict.AHEAD, difference, p_value, f"{said} (p = {p_value:.2g})")
    said = f"the lead of the first over the second, {difference:.3g}, is within the noise {runs}"
    return Lead(Verdict.NOISE, difference, p_value, f"{said} (p = {p_value:.2g})")


def _build_group(members: Sequence[Row], seeds: Sequence[str]) -> Group:
    ranked = [r for r in members if r.rank is not None and r.state == "finished" and not r.copy_of]
    values = tuple(row.value for row in ranked if row.value is not None)
    return Group(
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
