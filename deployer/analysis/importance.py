"""How much of the metric each parameter explains, and whether that can be told from noise; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil
from statistics import StatisticsError, correlation

from deployer.analysis.columns import Column, Shares, build_columns
from deployer.errors import DeployerError
from deployer.installation import install_package
from deployer.sweeps.results import Row
from deployer.text import format_count

# With fewer runs nothing is told from noise, however clear it looks.
LEAST_RUNS = 10
MOST_NAMED = 8  # of parameters that cannot be told from noise


@dataclass(frozen=True)
class ParameterImportance:
    """One parameter.

    `share` (0 to 1) is how much of the metric's variance it explains by itself, `deviation` the
    standard error of that. `told` says whether it is above `floor`, the share that noise alone may
    reach. `correlation` is Spearman's with the metric (-1 to 1), None for categories. `runs` have a
    value of it.
    """

    name: str
    share: float
    deviation: float
    floor: float
    told: bool
    correlation: float | None
    runs: int

    @property
    def percents(self) -> tuple[int, int]:
        """Return share and deviation as they are shown: the latter is rounded up, never to none."""
        return round(100 * self.share), ceil(100 * self.deviation)

    def phrase(self) -> str:
        """Return `lr explains 71 % ± 8 %`, of a parameter that can be told from noise."""
        if self.share < 0.01:
            return f"{self.name} explains less than 1 %"
        share, deviation = self.percents
        return f"{self.name} explains {share} % ± {deviation} %"


@dataclass(frozen=True)
class Importance:
    """The parameters, most important first.

    `runs` were used; `left_out` have no finite value of the metric, or have not finished.
    `explained` (0 to 1) is how much of the variance all parameters explain together, in runs that
    the model has not seen; None where there are too few runs to say. `constants` do not vary, and
    `names` are texts that are another one in every run.
    """

    metric: str
    parameters: tuple[ParameterImportance, ...]
    runs: int
    left_out: int
    explained: float | None
    constants: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Return what can be told, and what cannot, as one sentence."""
        runs = format_count(self.runs, "run")
        if not self.runs:
            return f"no run has finished with a finite {self.metric}"
        if not self.parameters:
            unlike = f" but {', '.join(self.names)}, another text in each" if self.names else ""
            return f"no parameter varies in {runs}{unlike}"
        told = [one.phrase() for one in self.parameters if one.told]
        rest = [one.name for one in self.parameters if not one.told]
        if rest:
            told.append(f"{_name_untold(rest, bool(told))} be told from noise with {runs}")
        return "; ".join(told)


def build_importance(rows: Sequence[Row], metric: str) -> Importance:
    """Return how much of the metric each parameter explains, in the ranked rows.

    The same rows give the same answer. Raises DeployerError without scikit-learn.
    """
    if find_spec("sklearn") is None:
        needed = install_package("scikit-learn")
        raise DeployerError("parameter importance needs scikit-learn", needed)
    ranked = sorted((row for row in rows if row.rank is not None), key=lambda row: row.run_id)
    values = [row.value for row in ranked if row.value is not None]
    columns = build_columns([row.parameters for row in ranked])
    found = _measure(columns.varying, values)
    return Importance(
        metric=metric,
        parameters=tuple(sorted(_list_parameters(columns.varying, values, found), key=_place)),
        runs=len(ranked),
        left_out=len(rows) - len(ranked),
        explained=found.explained if columns.varying and len(ranked) >= LEAST_RUNS else None,
        constants=columns.constants,
        names=columns.names,
    )


def _measure(columns: Sequence[Column], values: Sequence[float]) -> Shares:
    """Return what each column explains; with too few runs the model has nothing to say."""
    if not columns or len(values) < LEAST_RUNS:
        nothing = (0.0,) * len(columns)
        return Shares(nothing, nothing, nothing, 0.0)
    from deployer.analysis.forest import measure_shares

    return measure_shares(columns, values)


def _list_parameters(
    columns: Sequence[Column], values: Sequence[float], found: Shares
) -> list[ParameterImportance]:
    return [
        ParameterImportance(
            name=column.name,
            share=max(0.0, share),
            deviation=deviation,
            floor=floor,
            told=share > floor,
            correlation=correlate(column, values),
            runs=column.runs,
        )
        for column, share, deviation, floor in zip(
            columns, found.shares, found.deviations, found.floors, strict=True
        )
    ]


def _place(one: ParameterImportance) -> tuple[bool, float]:
    return not one.told, -one.share


def correlate(column: Column, values: Sequence[float]) -> float | None:
    """Return Spearman's correlation of a number with the metric; None where there is none."""
    pairs = [(p, v) for p, v in zip(column.places, values, strict=True) if p is not None]
    if column.category or len(pairs) < 2:
        return None
    places, measured = ([pair[n] for pair in pairs] for n in (0, 1))
    try:
        return correlation(rank_values(places), rank_values(measured))
    except StatisticsError:  # one of them does not vary
        return None


def rank_values(values: Sequence[float]) -> list[float]:
    """Return the rank of each value from 1; equal ones share the mean of theirs."""
    first: dict[float, int] = {}
    counts = Counter(values)
    below = 0
    for value in sorted(counts):
        first[value] = below
        below += counts[value]
    return [first[value] + (counts[value] + 1) / 2 for value in values]


def _name_untold(names: Sequence[str], among_others: bool) -> str:
    if len(names) <= MOST_NAMED:
        return f"{_enumerate(names)} cannot"
    return f"the other {len(names)} cannot" if among_others else f"none of {len(names)} can"


def _enumerate(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
