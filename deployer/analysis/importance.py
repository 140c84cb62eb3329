"""How much of the metric each parameter explains, and whether that can be told from noise; pure.

Needs the extra `analysis` (scikit-learn), which is imported inside the call alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from deployer.errors import DeployerError
from deployer.sweeps.results import Row
from deployer.text import format_count

# With fewer runs nothing is told from noise, however clear it looks.
LEAST_RUNS = 10


@dataclass(frozen=True)
class ParameterImportance:
    """One parameter.

    `share` (0 to 1) is how much of the metric's variance it explains by itself, `deviation` the
    standard error of that. `told` says whether it is above the noise floor. `correlation` is
    Spearman's with the metric (-1 to 1), None for categories. `runs` have a value of it.
    """

    name: str
    share: float
    deviation: float
    told: bool
    correlation: float | None
    runs: int

    def phrase(self) -> str:
        """Return `lr explains 71 % ± 8 %`, of a parameter that can be told from noise."""
        if self.share < 0.01:
            return f"{self.name} explains less than 1 %"
        return f"{self.name} explains {self.share:.0%} ± {self.deviation:.0%}".replace("%", " %")


@dataclass(frozen=True)
class Importance:
    """The parameters, most important first.

    `runs` were used; `left_out` have no finite value of the metric, or have not finished.
    `explained` (0 to 1) is how much of the variance all parameters explain together, in runs that
    the model has not seen. `floor` is the share that noise alone reaches. `constants` do not vary,
    and `names` are texts that are another one in every run.
    """

    metric: str
    parameters: tuple[ParameterImportance, ...]
    runs: int
    left_out: int
    explained: float
    floor: float
    constants: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Return what can be told, and what cannot, as one sentence."""
        runs = format_count(self.runs, "run")
        if not self.parameters:
            return f"no parameter varies in {runs}"
        told = [one.phrase() for one in self.parameters if one.told]
        rest = [one.name for one in self.parameters if not one.told]
        if rest:
            told.append(f"{_enumerate(rest)} cannot be told from noise with {runs}")
        return "; ".join(told)


def importance_available() -> bool:
    """Tell whether what importance needs is installed; imports nothing."""
    return find_spec("sklearn") is not None


def require_importance() -> None:
    """Raise DeployerError with the command that installs what is missing."""
    if not importance_available():
        raise DeployerError(
            "parameter importance needs scikit-learn", "pip install 'deployer[analysis]'"
        )


def build_importance(rows: Sequence[Row], metric: str) -> Importance:
    """Return how much of the metric each parameter explains, in the ranked rows.

    The same rows give the same answer. Raises DeployerError without the extra `analysis`.
    """
    require_importance()
    raise NotImplementedError(metric, len(rows))


def _enumerate(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
