"""Bayesian search: Optuna's Gaussian process over the unit cube; needs the extra `bayes`.

The study is built again from the runs at each suggestion, so the server keeps no state of it.
Numeric parameters are searched as u in [0, 1] and mapped by their quantile function, categorical
ones by index, as W&B's own engine does.
"""

from __future__ import annotations

import hashlib
import logging
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from deployer.backend.search.runs import SearchRun
from deployer.parameters import Categorical, Constant, Parameter, Space

# Ended runs before the model is used; Optuna's own default.
STARTUP_RUNS = 10
# Ended runs that a model is made of: its cost grows with their third power (500 take a core 0.8 s,
# 1,000 take it 7 s).
LARGEST_MODEL = 400
# Suggestions that are so close to a known run in every parameter teach nothing; the search goes on
# beside the best run then, with a step of 10 to one of these powers.
NEAR = 1e-3
STEPS = (-2.5, -1.0)
# The model squares values: larger ones would overflow a double.
LARGEST_VALUE = 1e100

log = logging.getLogger(__name__)


def missing_extra() -> str | None:
    """Return what to install before bayes can run, None if all is there; imports nothing."""
    missing = [name for name in ("optuna", "torch", "scipy") if find_spec(name) is None]
    if not missing:
        return None
    return f"method bayes needs {', '.join(missing)}: pip install 'deployer[bayes]'"


def suggest_bayes(
    space: Space,
    goal: str,
    seed: str,
    runs: Sequence[SearchRun],
    index: int,
    impute: str = "worst",
) -> dict[str, Any]:
    """Return the configuration with the highest expected improvement, as plain values.

    Runs that have not ended count as pending; a run that does not fit the space is skipped with
    a line in the log. Same runs and same seed give the same configuration.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    number = int.from_bytes(hashlib.sha256(f"{seed}:{index}".encode()).digest()[:4], "big")
    sampler = optuna.samplers.GPSampler(seed=number, n_startup_trials=STARTUP_RUNS)
    study = optuna.create_study(direction="minimize", sampler=sampler)
    distributions = {
        str(i): _distribution(parameter)
        for i, parameter in enumerate(space.parameters)
        if not isinstance(parameter, Constant)
    }
    known = modelled(runs, outcomes(runs, goal, impute))
    trials = list(_trials(space, distributions, known))
    study.add_trials(trials)
    point = study.ask(distributions).params
    ended = [trial for trial in trials if trial.value is not None]
    if ended and any(_is_near(point, trial.params) for trial in trials):
        point = _beside(min(ended, key=lambda trial: trial.value).params, number)
    return space.nest([_value(p, point.get(str(i))) for i, p in enumerate(space.parameters)])


def _is_near(point: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two points of the unit cube would give nearly the same run."""
    return all(
        abs(value - other[name]) < NEAR if isinstance(value, float) else value == other[name]
        for name, value in point.items()
    )


def _beside(point: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return a random point near another one, at a distance of a random order of magnitude.

    What the model would do instead is to measure the best point once more.
    """
    generator = random.Random(seed)
    step = 10 ** generator.uniform(*STEPS)
    return {
        name: min(max(generator.gauss(value, step), 0.0), 1.0)
        if isinstance(value, float)
        else value
        for name, value in point.items()
    }


def outcomes(runs: Sequence[SearchRun], goal: str, impute: str = "worst") -> list[float]:
    """Return one finite value for each run, the smallest the best.

    Runs that failed, lack the metric or diverged get a finite value of an ended run: the worst,
    or with W&B's `impute` the best or the latest; 0 if there is none. Those of running ones mean
    nothing.
    """
    sign = -1.0 if goal == "maximize" else 1.0
    values = [
        max(-LARGEST_VALUE, min(LARGEST_VALUE, sign * run.value))
        if run.value is not None and math.isfinite(run.value)
        else None
        for run in runs
    ]
    ended = [v for run, v in zip(runs, values, strict=True) if run.ended and v is not None]
    known = ended or [0.0]
    filled = {"best": min(known), "latest": known[-1]}.get(impute, max(known))
    return [
        value if run.state == "finished" and value is not None else filled
        for run, value in zip(runs, values, strict=True)
    ]


def modelled(runs: Sequence[SearchRun], values: Sequence[float]) -> list[tuple[SearchRun, float]]:
    """Return the runs that the model is given, with their values: not more than it can bear.

    These are all that have not ended, of the others the better half and an even choice of the rest.
    """
    pairs = list(zip(runs, values, strict=True))
    ended = sorted((pair for pair in pairs if pair[0].ended), key=lambda pair: pair[1])
    if len(ended) <= LARGEST_MODEL:
        return pairs
    best, rest = ended[: LARGEST_MODEL // 2], ended[LARGEST_MODEL // 2 :]
    size = LARGEST_MODEL - len(best)
    spread = [rest[index * len(rest) // size] for index in range(size)]
    return [*best, *spread, *(pair for pair in pairs if not pair[0].ended)]


def _trials(
    space: Space, distributions: Mapping[str, Any], known: Sequence[tuple[SearchRun, float]]
) -> Iterator[Any]:
    """Yield a trial for each run; a bad run must never break the search."""
    from optuna.trial import TrialState, create_trial

    for run, value in known:
        try:
            assigned = space.values_in(run.arguments)
            parameters = [(str(i), p) for i, p in enumerate(space.parameters)]
            point = {
                n: _coordinate(p, assigned[int(n)]) for n, p in parameters if n in distributions
            }
            yield create_trial(
                params=point,
                distributions=dict(distributions),
                value=value if run.ended else None,
                state=TrialState.COMPLETE if run.ended else TrialState.RUNNING,
            )
        except (KeyError, ValueError, TypeError) as error:
            log.warning("bayes skips a run that does not fit the sweep: %s", error)


def _distribution(parameter: Parameter) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if isinstance(parameter, Categorical):
        return CategoricalDistribution(list(range(len(parameter.values))))
    return FloatDistribution(0.0, 1.0)


def _coordinate(parameter: Parameter, value: Any) -> float:
    if isinstance(parameter, Categorical):
        return parameter.index_of(value)
    return parameter.u_of(value)


def _value(parameter: Parameter, coordinate: Any) -> Any:
    if isinstance(parameter, Categorical):
        return parameter.values[int(coordinate)]
    if isinstance(parameter, Constant):
        return parameter.value
    return parameter.value_at(float(coordinate))
