"""What a watcher stops on servers that hand out too much: duplicates, overshooting sweeps; pure.

W&B's servers give parallel agents the same configuration and go on after the last one of a grid
(wandb/wandb issues 4323, 4283, 7173).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from deployer.model import Run, Sweep
from deployer.sweeps.configurations import configuration_key, flatten_configuration, list_parameters
from deployer.sweeps.results import ACTIVE_STATES, Coverage, is_done


def is_overshooting(sweep: Sweep, coverage: Coverage) -> bool:
    """Tell whether a sweep goes on although every expected configuration is finished."""
    return (
        not sweep.ended and coverage.expected is not None and coverage.finished >= coverage.expected
    )


def find_duplicates(sweep: Sweep, runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return active runs of a grid whose configuration is finished, or runs in an older run.

    A run that has not told its configuration yet is left alone.
    """
    if sweep.method != "grid":
        return ()
    names = list_parameters(sweep.config)
    taken = set()
    duplicates = []
    # What is finished counts first, then who came first; servers list runs in order of creation,
    # which decides within one second.
    by_age = sorted(
        runs, key=lambda run: (not is_done(sweep, run.state), run.created_at or math.inf)
    )
    for run in by_age:
        flat = flatten_configuration(run.config, names)
        active = run.state in ACTIVE_STATES
        if len(flat) < len(names) or not (active or is_done(sweep, run.state)):
            continue
        key = configuration_key(flat)
        if active and key in taken:
            duplicates.append(run)
        taken.add(key)
    return tuple(duplicates)
