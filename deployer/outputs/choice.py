"""Which runs' outputs are meant, and the folder that each of them gets; pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from deployer.errors import ConfigError, SweepFailed
from deployer.model import Run
from deployer.sweeps.results import Results, is_done
from deployer.wandb_api.model import Snapshot

LONGEST_NAME = 100
# Letters and digits of any language, and marks that mean nothing to a shell or a file system.
ODD = re.compile(r"[^\w.=+,@-]+")


def choose_runs(snapshot: Snapshot, best: Results | None, names: Sequence[str]) -> tuple[Run, ...]:
    """Return the best run, or those named by id or title, or all that have finished.

    Raises ConfigError for what is no run, SweepFailed where there is none to choose.
    """
    path = snapshot.sweep.path
    if best:
        winner = best.best
        if winner is None:
            raise SweepFailed(f"{path} has no best run yet", f"deployer results {path}")
        return tuple(run for run in snapshot.runs if run.run_id == winner.run_id)
    if names:
        found = {run.run_id: run for run in (_find(snapshot, name) for name in names)}
        return tuple(found.values())
    done = tuple(run for run in snapshot.runs if is_done(snapshot.sweep, run.state))
    if not done:
        raise SweepFailed(f"{path}: no run has finished yet", f"deployer watch {path}")
    return done


def _find(snapshot: Snapshot, name: str) -> Run:
    path = snapshot.sweep.path
    by_id = [run for run in snapshot.runs if run.run_id == name]
    found = by_id or [run for run in snapshot.runs if run.title == name]
    if not found:
        hint = "the best one: --best" if name == "best" else f"deployer results {path} -o json"
        raise ConfigError("RUN", f"run '{name}' not found in {path}", hint)
    if len(found) > 1:
        ids = ", ".join(run.run_id for run in found)
        raise ConfigError("RUN", f"{len(found)} runs are called '{name}'", f"name one of: {ids}")
    return found[0]


def name_runs(runs: Sequence[Run]) -> Mapping[str, str]:
    """Return how each run of a sweep is shown, by run id: its title; with its id if others have it.

    One without a title has its id alone.
    """
    counts = Counter(run.title for run in runs)
    return {
        run.run_id: run.title if counts[run.title] == 1 else f"{run.title} ({run.run_id})".strip()
        for run in runs
    } | {run.run_id: run.run_id for run in runs if not run.title}


def is_run(snapshot: Snapshot, name: str) -> bool:
    """Tell whether a word is the id or the title of a run."""
    return any(name in (run.run_id, run.title) for run in snapshot.runs)


def name_folders(runs: Sequence[Run]) -> Mapping[str, str]:
    """Return a folder's name for each run of a sweep, by run id: its title, made safe.

    Those whose titles come out alike, also where a file system ignores case, end with their ids.
    """
    plain = {run.run_id: _make_safe(run.title) or _make_safe(run.run_id) for run in runs}
    counts = Counter(name.casefold() for name in plain.values())
    return {
        run_id: name if counts[name.casefold()] == 1 else f"{name}-{_make_safe(run_id)}"
        for run_id, name in plain.items()
    }


def _make_safe(text: str) -> str:
    return ODD.sub("_", text)[:LONGEST_NAME].strip("._-")
