"""Bayesian search: Optuna's Gaussian process as it is; needs the extra `bayes`.

The study is built again from the runs at each suggestion. Only the sampler is kept: its next fit
starts from the kernel that it fitted last, or from scratch after a restart.
Choices and small integers are searched as such, other numbers as u in [0, 1], mapped by their
quantile function as W&B's own engine does.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeGuard

from deployer.backend.scheduling.search.runs import SearchRun
from deployer.installation import install_command
from deployer.sweeps.parameters.forms import Categorical, Constant, Integer, Parameter
from deployer.sweeps.parameters.space import Space

# Ended runs that a model is made of: its cost grows with their third power (500 take a core 0.8 s,
# 1,000 take it 7 s).
LARGEST_MODEL = 400
# Optuna makes a list of all values of an integer; one with more is searched as a number.
LARGEST_LIST = 1000
# Sweeps whose samplers are kept: their last two models may take some ten megabytes each.
KEPT_SAMPLERS = 8
# The model squares values: larger ones would overflow a double.
LARGEST_VALUE = 1e100

log = logging.getLogger(__name__)


def missing_extra() -> str | None:
    """Return what to install before bayes can run, None if all is there; imports nothing."""
    missing = [name for name in ("optuna", "torch", "scipy") if find_spec(name) is None]
    if not missing:
        return None
    return f"method bayes needs {', '.join(missing)}: {install_command('bayes', missing)}"


@dataclass(frozen=True)
class _Step:
    """A suggestion's space and index, and the sampler before and after it was made.

    A suggestion that is made again with newer results starts from the same sampler as before.
    """

    space: Space
    index: int
    before: Any
    after: Any


_steps: dict[str, _Step] = {}


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
    a line in the log. The same suggestions in the same order give the same configurations.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    before = _sampler(space, seed, index)
    sampler = copy.deepcopy(before)
    study = optuna.create_study(direction="minimize", sampler=sampler)
    distributions = {
        str(i): _distribution(parameter)
        for i, parameter in enumerate(space.parameters)
        if not isinstance(parameter, Constant)
    }
    known = modelled(runs, outcomes(runs, goal, impute))
    study.add_trials(list(_trials(space, distributions, known)))
    point = study.ask(distributions).params
    _keep(seed, _Step(space, index, before, sampler))
    return space.nest([_value(p, point.get(str(i))) for i, p in enumerate(space.parameters)])


def model_seed(seed: str) -> int:
    """Return the number that a sweep's sampler starts from."""
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big")


def _sampler(space: Space, seed: str, index: int) -> Any:
    """Return the sampler as the suggestions before this one left it, a new one if none is kept."""
    from optuna.samplers import GPSampler

    step = _steps.get(seed)
    if step is None or step.space != space or index < step.index:
        # When the model may begin is decided in `suggest.needs_model`.
        return GPSampler(seed=model_seed(seed), n_startup_trials=1)
    return step.before if index == step.index else step.after


def _keep(seed: str, step: _Step) -> None:
    _steps.pop(seed, None)
    _steps[seed] = step
    if len(_steps) > KEPT_SAMPLERS:
        del _steps[next(iter(_steps))]


def outcomes(runs: Sequence[SearchRun], goal: str, impute: str = "worst") -> list[float]:
    """Return one finite value for each run, the smallest the best.

    Runs that failed, lack the metric or diverged get a finite value of an ended run: the worst,
    or with W&B's `impute` the best or the latest; 0 if there is none. The values of
    running ones mean nothing.
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
    """Return the runs that the model is fitted to, with their values.

    These are all runs that have not ended, and at most LARGEST_MODEL that have: half of them the
    best, half evenly spaced among the rest.
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
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(parameter, Categorical):
        return CategoricalDistribution(list(range(len(parameter.values))))
    if _is_listed(parameter):
        return IntDistribution(parameter.min, parameter.max)
    return FloatDistribution(0.0, 1.0)


def _is_listed(parameter: Parameter) -> TypeGuard[Integer]:
    return isinstance(parameter, Integer) and parameter.max - parameter.min < LARGEST_LIST


def _coordinate(parameter: Parameter, value: Any) -> float:
    if isinstance(parameter, Categorical):
        return parameter.index_of(value)
    u = parameter.u_of(value)
    return parameter.value_at(u) if _is_listed(parameter) else u


def _value(parameter: Parameter, coordinate: Any) -> Any:
    if isinstance(parameter, Categorical):
        return parameter.values[int(coordinate)]
    if _is_listed(parameter):
        return int(coordinate)
    if isinstance(parameter, Constant):
        return parameter.value
    return parameter.value_at(float(coordinate))
