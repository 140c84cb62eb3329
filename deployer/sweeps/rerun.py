"""Rerun lost and failed runs; configurations that another sweep finished count as done.

A follow-up is an explicit list of the missing configurations. Its description links it to its
original; both count together.
"""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deployer.errors import ConfigError, WandbError
from deployer.model import Run, Sweep, SweepPath
from deployer.sweeps.configuration_list import (
    PARAMETER,
    build_command,
    build_list_config,
    configuration_key,
    find_list_parameter,
    flatten_configuration,
    list_configurations,
    list_parameters,
)
from deployer.sweeps.parameters import parse_parameters
from deployer.sweeps.program import DEFAULT_COMMAND
from deployer.sweeps.results import ACTIVE_STATES, WAITING_STATES, build_results, is_done
from deployer.sweeps.sweep_file import SweepFile, dump_config
from deployer.wandb_api.model import Snapshot
from deployer.wandb_api.operations import (
    create_sweep,
    get_snapshot,
    get_sweep,
    list_sweeps,
    requeue_sweep,
)
from deployer.wandb_api.server import Server

REUSE_MARK = "deployer up --reuse of "
MOST_REUSED = 4000  # because their ids are in the description
HEAL_MARK = "deployer heal of "


# `--reuse`: a sweep of the configurations that another one has not finished; pure. The new sweep is
# an explicit list. Its description names the other sweep and the reused runs, so that every reader
# counts the same ones.


@dataclass(frozen=True)
class Reuse:
    """The configuration of a sweep that runs the missing configurations, and the number done."""

    config: dict[str, Any]
    reused: int
    expected: int


def plan_reuse(sweep: SweepFile, file: str, source: Snapshot) -> Reuse:
    """Return the sweep of the configurations that `source` has not finished.

    Raises ConfigError if there is none.
    """
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
        said = f"{path} has finished {len(done)} configurations of {file}, and only {MOST_REUSED}"
        raise ConfigError("--reuse", f"{said} can be used in a description", "leave --reuse out")
    description = f"{REUSE_MARK}{path}: {' '.join(done.values())}"
    name = f"{sweep.name or source.sweep.title} (rest)"
    config = build_list_config(sweep.config, missing, name, description)
    placed = {"entity": source.sweep.path.entity, "project": source.sweep.path.project}
    return Reuse({**config, **placed}, len(done), len(points))


def check_reusable(sweep: SweepFile, file: str, source: Snapshot) -> None:
    """Reject sweeps without a list of configurations, or with other settings.

    Raises ConfigError.
    """
    path, leave = source.sweep.path, "leave --reuse out"
    if sweep.method != "grid":
        said = f"{sweep.method} draws its configurations while it runs"
        raise ConfigError(f"{file}: method", said, f"method: grid, or {leave}")
    if sweep.config.get("early_terminate"):
        said = "compares runs with each other, but the new sweep has only the missing runs"
        raise ConfigError(f"{file}: early_terminate", said, f"remove it, or {leave}")
    if not source.sweep.ended:
        said = f"{path} is {source.sweep.state}: its unfinished configurations would run twice"
        raise ConfigError("--reuse", said, f"deployer sweep stop {path}")
    then, now = source.sweep.config, sweep.config
    words = [str(word) for word in now.get("command") or DEFAULT_COMMAND]
    known = [words, list(build_command(words))]
    if [str(word) for word in then.get("command") or DEFAULT_COMMAND] not in known:
        raise ConfigError(f"{file}: command", f"differs from that of {path}", leave)
    if then.get("program") != now.get("program"):
        raise ConfigError(f"{file}: program", f"differs from that of {path}", leave)


def find_source(sweep: Sweep) -> tuple[SweepPath, tuple[str, ...]] | None:
    """Return the sweep whose runs are reused, and their ids; None for any other sweep."""
    head, _, ids = sweep.description.removeprefix(REUSE_MARK).partition(": ")
    parts = head.split("/")
    if not sweep.description.startswith(REUSE_MARK) or len(parts) != 3:
        return None
    return SweepPath(*parts), tuple(ids.split())


def count_reused(sweep: Sweep) -> int:
    found = find_source(sweep)
    return len(found[1]) if found else 0


def add_reused(snapshot: Snapshot, source: Snapshot) -> Snapshot:
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
    """Return a run's assigned configuration, by the top names of its parameters."""
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


@dataclass(frozen=True)
class Healing:
    """The effect of `heal`: `sweep_path` is the sweep that runs it, the same one if requeued.

    `count` configurations will run; `unknown` ones are missing, but not known individually.
    `created` is True if this call made the follow-up. `waiting` ones need no healing: the open
    sweep assigns them to the next agent.
    """

    sweep_path: SweepPath
    count: int
    unknown: int = 0
    created: bool = False
    waiting: int = 0


def heal_sweep(server: Server, path: SweepPath, retries: int | None = None) -> Healing:
    """Rerun the missing runs of a sweep; a second call creates no second follow-up.

    `retries` are further attempts for a failed run, None for the sweep's own number. For a
    follow-up its original is healed, so that all counts are in one sweep. Raises WandbError, or
    ConfigError if the server does not support retries.
    """
    if server.can_requeue:
        snapshot = get_snapshot(server.client, path)
        coverage = build_results(snapshot.sweep, snapshot.runs).coverage
        if coverage.complete:
            return Healing(path, 0)
        count = requeue_sweep(server.client, path, uuid.uuid4().hex, retries)
        return Healing(path, count, waiting=coverage.waiting)
    if retries:
        reason = f"{server.url} does not retry failed runs"
        raise ConfigError("--retries", reason, "remove --retries, and heal again")
    original, follow_ups = _read_family(server, path)
    if origin := _origin(original.sweep):
        return heal_sweep(server, origin)
    whole = merge_follow_ups(original, follow_ups)
    missing = list_missing(whole, _planned(original.sweep, follow_ups))
    unknown = _count_unknown(whole, len(missing))
    if not missing:
        going = [f.sweep.path for f in follow_ups if not f.sweep.ended]
        waiting = build_results(whole.sweep, whole.runs).coverage.waiting
        return Healing(going[0] if going else path, 0, unknown, waiting=waiting)
    return Healing(_create(server, original.sweep, missing), len(missing), unknown, created=True)


def get_full_snapshot(server: Server, path: SweepPath) -> Snapshot:
    """Return a sweep with its runs, its agents and the runs other sweeps did for it.

    Those are its follow-ups, and the sweep whose runs it reuses.
    """
    if server.can_requeue:
        whole = get_snapshot(server.client, path)
    else:
        whole = merge_follow_ups(*_read_family(server, path))
    found = find_source(whole.sweep)
    if found is None or found[0] == path:
        return whole
    try:
        return add_reused(whole, get_full_snapshot(server, found[0]))
    except WandbError as error:
        if error.status != 404:
            raise
        return whole  # it was deleted with its runs, which no longer count


def list_family(server: Server, path: SweepPath) -> tuple[str, ...]:
    """Return the ids of the sweeps in `get_full_snapshot`, the sweep's own first."""
    found = find_source(get_sweep(server.client, path))
    own: tuple[str, ...] = (path.sweep_id,)
    if not server.can_requeue:
        infos = list_sweeps(server.client, path.entity, path.project)
        own = (*own, *(i.path.sweep_id for i in infos if i.description == _describe(path)))
    return own if found is None or found[0] == path else (*own, *list_family(server, found[0]))


def merge_follow_ups(original: Snapshot, follow_ups: Sequence[Snapshot]) -> Snapshot:
    """Add the follow-ups' runs to the original's as if they were its own; pure.

    The sweep counts as open while a follow-up is.
    """
    runs = list(original.runs)
    for follow_up in follow_ups:
        for run in follow_up.runs:
            runs.append(_as_own(original.sweep, runs, run))
    open_states = [f.sweep.state for f in follow_ups if not f.sweep.ended]
    state = open_states[0] if open_states and original.sweep.ended else original.sweep.state
    agents = (*original.agents, *(agent for f in follow_ups for agent in f.agents))
    return Snapshot(replace(original.sweep, state=state), tuple(runs), agents)


def list_missing(snapshot: Snapshot, planned: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the configurations that are not finished, active or `planned`; pure.

    An open grid will still assign the unassigned ones. For random and bayes only the drawn ones are
    known.
    """
    sweep, names = snapshot.sweep, list_parameters(snapshot.sweep.config)
    taken = {_key(configuration, names) for configuration in planned}
    taken |= {_key(run.config, names) for run in snapshot.runs if _is_taken(sweep, run)}
    found: dict[Hashable, dict[str, Any]] = {}
    for configuration in _candidates(snapshot):
        key = _key(configuration, names)
        if key not in taken:
            found.setdefault(key, configuration)
    return list(found.values())


def _candidates(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the sweep's configurations: all of a closed grid, else the assigned ones."""
    config = snapshot.sweep.config
    if snapshot.sweep.method == "grid" and snapshot.sweep.ended:
        space, _ = parse_parameters(config.get("parameters"))
        return space.list_points()
    return list_handed_out(snapshot)


def list_handed_out(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the configuration of each run, as the agent passed it to the trainer; pure."""
    names = list_parameters(snapshot.sweep.config)
    tops = snapshot.sweep.config.get("parameters") or {}
    return [
        {top: run.config[top] for top in tops if top in run.config}
        for run in snapshot.runs
        if flatten_configuration(run.config, names)
    ]


def _is_taken(sweep: Sweep, run: Run) -> bool:
    waits = run.state in WAITING_STATES and not sweep.ended
    return waits or run.state in ACTIVE_STATES or is_done(sweep, run.state)


def _count_unknown(snapshot: Snapshot, missing: int) -> int:
    """Count the runs a random or bayes sweep still owes, in addition to the drawn ones."""
    coverage = build_results(snapshot.sweep, snapshot.runs).coverage
    owed = coverage.failed + coverage.lost + coverage.cancelled
    return max(0, owed - missing) if snapshot.sweep.ended else 0


def _as_own(sweep: Sweep, runs: Sequence[Run], run: Run) -> Run:
    chosen = run.config.get(PARAMETER)
    own = run
    if isinstance(chosen, Mapping) and not find_list_parameter(sweep.config):
        own = replace(run, config=dict(chosen))
    names = list_parameters(sweep.config)
    key = _key(own.config, names)
    executor = next(
        (
            earlier.heals or earlier.run_id
            for earlier in runs
            if _key(earlier.config, names) == key and not is_done(sweep, earlier.state)
        ),
        "",
    )
    return replace(own, heals=executor)


def _planned(sweep: Sweep, follow_ups: Sequence[Snapshot]) -> list[dict[str, Any]]:
    open_ = [f.sweep.config for f in follow_ups if not f.sweep.ended]
    listed = [c for config in open_ for c in list_configurations(config)]
    name = find_list_parameter(sweep.config)
    return [{name: c} for c in listed] if name else listed


def _read_family(server: Server, path: SweepPath) -> tuple[Snapshot, list[Snapshot]]:
    """Read a sweep and its follow-ups, oldest first."""
    infos = list_sweeps(server.client, path.entity, path.project)
    follow_ups = [i.path for i in reversed(infos) if i.description == _describe(path)]
    original = get_snapshot(server.client, path)
    return original, [get_snapshot(server.client, follow_up) for follow_up in follow_ups]


def _describe(path: SweepPath) -> str:
    return f"{HEAL_MARK}{path}"


def _origin(sweep: Sweep) -> SweepPath | None:
    parts = sweep.description.removeprefix(HEAL_MARK).split("/")
    return (
        SweepPath(*parts) if sweep.description.startswith(HEAL_MARK) and len(parts) == 3 else None
    )


def _create(server: Server, sweep: Sweep, missing: list[dict[str, Any]]) -> SweepPath:
    name = f"{sweep.title} (healed)"
    description = _describe(sweep.path)
    config = build_list_config(sweep.config, missing, name, description)
    entity, project, _ = sweep.path
    path, _warnings = create_sweep(
        server.client, dump_config(config), entity, project, uuid.uuid4().hex, description
    )
    return path
