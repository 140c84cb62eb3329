"""Finished runs that ended before the step that the others reached, though nothing says why; pure.

docs/decisions/sweeps.md says which runs are compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployer.model import Run
from deployer.sweeps.parameters.values import value_key

FEWEST_OTHERS = 3
MOST_SHARE = 0.25  # of the finished runs that may be short
SHORT = 0.9  # of the others' steps
LENGTHS = re.compile(
    r"epoch|step|iter|batch|round|budget|length|limit|accum|fold|worker|horizon|resource|^t_?max$"
    r"|(^|_)(max|num|n|size|steps|samples|data|train|total|duration|time|tokens|episodes)(_|$)",
    re.IGNORECASE,
)
OWN_RULE = re.compile(r"patience|early|prun", re.IGNORECASE)  # a script that may stop itself


@dataclass(frozen=True)
class ShortRun:
    """A run that ended well after fewer steps than the others took."""

    run_id: str
    steps: int
    others: int

    def __str__(self) -> str:
        return f"ended at step {self.steps} of {self.others}"


def find_short_runs(
    finished: Sequence[Run], parameters: Mapping[str, Mapping[str, Any]]
) -> tuple[ShortRun, ...]:
    """Return the short ones among runs that finished; `parameters` are the sweep's by run."""
    if any(OWN_RULE.search(str(name)) for run in finished for name in run.config):
        return ()
    steps = {run.run_id: count for run in finished if (count := _count_steps(run)) is not None}
    most = max(steps.values(), default=0)
    full = [run_id for run_id, count in steps.items() if count == most]
    short = [run_id for run_id, count in steps.items() if count < most]
    if len(full) < FEWEST_OTHERS or len(short) > MOST_SHARE * len(finished):
        return ()
    reached = _list_values([parameters[run_id] for run_id in full])
    return tuple(
        ShortRun(run_id, steps[run_id], most)
        for run_id in short
        if steps[run_id] < SHORT * most and not _is_explained(parameters[run_id], reached)
    )


def _count_steps(run: Run) -> int | None:
    step = run.summary.get("_step")
    is_step = isinstance(step, int | float) and 0 <= step < math.inf
    return int(step) + 1 if is_step else None  # type: ignore[arg-type]


def _list_values(runs: Sequence[Mapping[str, Any]]) -> Mapping[str, set[Hashable]]:
    found: dict[str, set[Hashable]] = {}
    for name, value in ((name, value) for run in runs for name, value in run.items()):
        found.setdefault(name, set()).add(value_key(value))
    return found


def _is_explained(run: Mapping[str, Any], reached: Mapping[str, set[Hashable]]) -> bool:
    """Return True if a parameter may have made a run short: no long run has its value.

    It may not if long runs have several values of it, unless it is no number or is called a length.
    """
    for name, value in run.items():
        others = reached.get(name, set())
        number = type(value) in (int, float)
        if value_key(value) not in others and (
            len(others) < 2 or not number or LENGTHS.search(name.rpartition(".")[2])
        ):
            return True
    return False
