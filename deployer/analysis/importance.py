"""Which parameters matter, by the two measures of W&B's own panel.

A random forest's feature importance, and the linear correlation with the metric
(https://docs.wandb.ai/models/app/features/panels/parameter-importance, in November 2026).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import StatisticsError, correlation
from typing import Any

from deployer.analysis.moments import largest
from deployer.analysis.parallel import is_number
from deployer.errors import DeployerError
from deployer.installation import install_package
from deployer.sweeps.configuration_list import JOB_ID
from deployer.sweeps.results import Row
from deployer.sweeps.space import value_key
from deployer.text import format_count

TREES = 100
LARGEST_SAMPLE = 1000  # of runs that a tree learns from


@dataclass(frozen=True)
class ParameterImportance:
    """One parameter that varies.

    `importance` (0 to 1) is its share in the forest; all add up to 1, or to 0 if there was nothing
    to learn. `correlation` is Pearson's with the metric (-1 to 1), None for categories. `runs`
    counts the runs that have a value.
    """

    name: str
    importance: float
    correlation: float | None
    runs: int


@dataclass(frozen=True)
class Importance:
    """The parameters, most important first.

    `runs` were used. The `stopped_early` runs were left out, and so were `left_out` ones, without a
    finite value of the metric or unfinished. `constants` do not vary, and `names` are texts that
    differ in every run.
    """

    metric: str
    parameters: tuple[ParameterImportance, ...]
    runs: int
    stopped_early: int
    left_out: int
    constants: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def sentence(self) -> str:
        runs = format_count(self.runs, "run")
        if not self.runs:
            return f"no run has finished with a finite {self.metric}"
        if not self.parameters:
            unlike = f" but {', '.join(self.names)}, another text in each" if self.names else ""
            return f"no parameter varies in {runs}{unlike}"
        first, varying = self.parameters[0], format_count(len(self.parameters), "parameter")
        if not first.importance:
            return f"{self.metric} does not depend on {varying} in {runs}"
        return f"{first.name} is the most important of {varying} for {self.metric} in {runs}"


def build_importance(rows: Sequence[Row], metric: str) -> Importance:
    """Return how much each parameter matters for the metric in the ranked rows.

    Deterministic. Raises DeployerError without scikit-learn.
    """
    if find_spec("sklearn") is None:
        needed = install_package("scikit-learn")
        raise DeployerError("parameter importance needs scikit-learn", needed)
    ranked = sorted((row for row in rows if row.rank is not None), key=lambda row: row.run_id)
    used = [row for row in ranked if row.state == "finished"]
    order = dict.fromkeys(name for row in used for name in row.parameters if name != JOB_ID)
    constants = [name for name in order if _count_values(used, name) == 1]
    names = [name for name in order if name not in constants and _is_name(used, name)]
    varying = [name for name in order if name not in (*constants, *names)]
    found = _list_parameters(used, varying)
    return Importance(
        metric=metric,
        parameters=tuple(sorted(found, key=lambda one: -one.importance)),
        runs=len(used),
        stopped_early=len(ranked) - len(used),
        left_out=len(rows) - len(ranked),
        constants=tuple(constants),
        names=tuple(names),
    )


def _list_parameters(rows: Sequence[Row], names: Sequence[str]) -> list[ParameterImportance]:
    values = [row.value for row in rows if row.value is not None]
    if not names:
        return []
    features = {name: _encode([row.parameters for row in rows], name) for name in names}
    columns = [column for name in names for column in features[name]]
    learned = iter(_learn(columns, values))
    return [
        ParameterImportance(
            name=name,
            importance=sum(next(learned) for _ in features[name]),
            correlation=_correlate(rows, name),
            runs=sum(name in row.parameters for row in rows),
        )
        for name in names
    ]


def _learn(columns: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(
        n_estimators=TREES,
        max_samples=LARGEST_SAMPLE if len(values) > LARGEST_SAMPLE else None,
        random_state=0,
    )
    forest.fit(list(zip(*columns, strict=True)), _scale(values))
    return [float(one) for one in forest.feature_importances_]


def _scale(values: Sequence[float]) -> list[float]:
    """Return values divided by the largest, so that no square overflows."""
    unit = largest(values) or 1.0
    return [value / unit for value in values]


def _encode(configurations: Sequence[Mapping[str, Any]], name: str) -> list[list[float]]:
    """Return a parameter as columns: the rank of a number, or one column for each category.

    Trees need only the order, so ranks avoid numbers that are too large for them.
    """
    keys = [value_key(one[name]) if name in one else None for one in configurations]
    there = {key: one[name] for key, one in zip(keys, configurations, strict=True) if name in one}
    if all(map(is_number, there.values())):
        ordered = sorted(there, key=lambda key: float(there[key]))
        places = {key: float(place) for place, key in enumerate(ordered)}
        return [[places.get(key, float("nan")) for key in keys]]
    return [[float(key == one) for key in keys] for one in sorted(there, key=repr)]


def _correlate(rows: Sequence[Row], name: str) -> float | None:
    """Return Pearson's correlation of a number with the metric; None if it is undefined."""
    pairs = [
        (row.parameters[name], row.value)
        for row in rows
        if name in row.parameters and row.value is not None
    ]
    if len(pairs) < 2 or not all(is_number(value) for value, _ in pairs):
        return None
    given, measured = ([float(pair[n]) for pair in pairs] for n in (0, 1))
    try:
        return correlation(_scale(given), _scale(measured))
    except StatisticsError:  # one of them does not vary
        return None


def _count_values(rows: Sequence[Row], name: str) -> int:
    """Return the number of distinct values of a parameter; a missing value counts as one."""
    keys = {value_key(row.parameters[name]) for row in rows if name in row.parameters}
    return len(keys) + any(name not in row.parameters for row in rows)


def _is_name(rows: Sequence[Row], name: str) -> bool:
    values = [row.parameters[name] for row in rows if name in row.parameters]
    return len({*map(value_key, values)}) == len(values) and not all(map(is_number, values))
