"""Configurations that another sweep has finished count as done: the list of the others; pure.

The new sweep is an explicit list, and its description names the sweep and the runs that are reused,
so that every reader counts the same ones.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from deployer.errors import ConfigError
from deployer.model import Run, Sweep, SweepPath
from deployer.sweeps.configuration_list import (
    PARAMETER,
    build_command,
    build_list_config,
    find_list_parameter,
)
from deployer.sweeps.configurations import configuration_key, flatten_configuration, list_parameters
from deployer.sweeps.parameters.parse import parse_parameters
from deployer.sweeps.program import DEFAULT_COMMAND
from deployer.sweeps.sweep_file import SweepFile
from deployer.wandb_api.model import Snapshot

MARK = "deployer up --reuse of "
MOST_REUSED = 4000  # their ids are in the description


@dataclass(frozen=True)
class Reuse:
    """The configuration of a sweep that runs what is missing, and how many are done."""

    config: dict[str, Any]
    reused: int
    expected: int


def plan_reuse(sweep: SweepFile, file: str, source: Snapshot) -> Reuse:
    """Return the sweep of what `source` has not finished; raises ConfigError if there is none."""
    check_reusable(sweep, file, source)
    path = str(source.sweep.path)
    space, _ = parse_parameters(sweep.config.get("parameters"))
    names = list_parameters(sweep.config)
    points = {_key(point, names): point for point in space.list_points()[: sweep.run_cap]}
    done = {
        key: run.run_id
        for run in source.runs
        if run.state == "finished" and (key := _key_of_run(source.sweep, run)) in points
    }
    missing = [point for key, point in points.items() if key not in done]
    look = f"deployer results {path}"
    if not done:
        said = f"{path} has not finished any configuration"
        raise ConfigError(file, said, f"{look}; or leave --reuse out")
    if not missing:
        said = f"{path} has finished all {len(points)} configurations"
        raise ConfigError(file, said, look)
    if len(done) > MOST_REUSED:
        said = f"{path} has finished {len(done)} configurations of {file}, and {MOST_REUSED} is all"
        raise ConfigError("--reuse", f"{said} that a description can name", "leave --reuse out")
    description = f"{MARK}{path}: {' '.join(done.values())}"
    name = f"{sweep.name or source.sweep.title} (rest)"
    config = build_list_config(sweep.config, missing, name, description)
    placed = {"entity": source.sweep.path.entity, "project": source.sweep.path.project}
    return Reuse({**config, **placed}, len(done), len(points))


def check_reusable(sweep: SweepFile, file: str, source: Snapshot) -> None:
    """Refuse what has no list of configurations, or runs another way; raises ConfigError."""
    path, leave = source.sweep.path, "leave --reuse out"
    if sweep.method != "grid":
        said = f"{sweep.method} draws its configurations while it runs"
        raise ConfigError(f"{file}: method", said, f"method: grid, or {leave}")
    if sweep.config.get("early_terminate"):
        said = "compares runs with each other, but a list has only the missing ones"
        raise ConfigError(f"{file}: early_terminate", said, f"remove it, or {leave}")
    if not source.sweep.ended:
        said = f"{path} is {source.sweep.state}: its unfinished configurations would run twice"
        raise ConfigError("--reuse", said, f"deployer sweep stop {path}")
    then, now = source.sweep.config, sweep.config
    words = [str(word) for word in now.get("command") or DEFAULT_COMMAND]
    known = [words, list(build_command(words))]
    if [str(word) for word in then.get("command") or DEFAULT_COMMAND] not in known:
        raise ConfigError(f"{file}: command", f"is another than that of {path}", leave)
    if then.get("program") != now.get("program"):
        raise ConfigError(f"{file}: program", f"is another than that of {path}", leave)


def find_source(sweep: Sweep) -> tuple[SweepPath, tuple[str, ...]] | None:
    """Return the sweep whose runs are reused, and their ids; None for any other sweep."""
    head, _, ids = sweep.description.removeprefix(MARK).partition(": ")
    parts = head.split("/")
    if not sweep.description.startswith(MARK) or len(parts) != 3:
        return None
    return SweepPath(*parts), tuple(ids.split())


def count_reused(sweep: Sweep) -> int:
    """Count the configurations that another sweep has finished for this one."""
    found = find_source(sweep)
    return len(found[1]) if found else 0


def add_reused(snapshot: Snapshot, source: Snapshot) -> Snapshot:
    """Add the runs of `source` that the sweep reuses, each as if its list had had it."""
    _, ids = find_source(snapshot.sweep) or (None, ())
    wanted = set(ids)
    reused = tuple(
        replace(
            run,
            config={PARAMETER: _read_configuration(source.sweep, run)},
            reused=run.reused or str(source.sweep.path),
        )
        for run in source.runs
        if run.run_id in wanted
    )
    return replace(snapshot, runs=(*snapshot.runs, *reused))


def _read_configuration(sweep: Sweep, run: Run) -> dict[str, Any]:
    """Return a run's configuration as it was handed out, by the top names of its parameters."""
    listed = find_list_parameter(sweep.config)
    chosen = run.config.get(listed) if listed else None
    if isinstance(chosen, Mapping):
        return dict(chosen)
    tops = sweep.config.get("parameters") or {}
    return {top: run.config[top] for top in tops if top in run.config}


def _key_of_run(sweep: Sweep, run: Run) -> Hashable:
    configuration = _read_configuration(sweep, run)
    return configuration_key(flatten_configuration(configuration, tuple(configuration)))


def _key(configuration: Mapping[str, Any], names: tuple[str, ...]) -> Hashable:
    return configuration_key(flatten_configuration(configuration, names))
