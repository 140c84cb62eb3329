"""Runs one configuration again as its lock file has it, and judges what comes of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from deployer.config.project import Project
from deployer.errors import ConfigError, DeployerError, SweepFailed, WandbError
from deployer.executors.registry import find_executor, list_names
from deployer.images.code_archive import LOCK_END, begins_as_lock_file
from deployer.images.code_state import restore_code
from deployer.launch.lock.content import OTHER, DataState, Lock
from deployer.launch.lock.file import find_kept, load_lock, name_lock
from deployer.launch.lock.writing import list_apart, list_data
from deployer.launch.request import Request
from deployer.launch.resolution import Choice, choose_sweep, open_sweep
from deployer.sweeps.metrics import list_logged, metric_value
from deployer.sweeps.records import Records
from deployer.sweeps.repeats import Judgement, build_repeat_config, judge_repeats
from deployer.sweeps.rerun import get_whole_snapshot
from deployer.sweeps.results import Row, build_results
from deployer.sweeps.sweep_file import dump_config, parse_sweep
from deployer.text import format_count
from deployer.wandb_api.model import Snapshot

LOG = logging.getLogger(__name__)

BEST = "best"
REPEATS = 3
SHOWN_PACKAGES = 3
ENDINGS = (".yaml", ".yml")  # of what is a file's name and never a sweep's


@dataclass(frozen=True)
class Again:
    """A run that is about to be repeated: the project as it was then, and the sweep to make.

    Without a `metric`, as of `deployer run`, its repeat only has to finish; `logged` are the
    numbers that the run logged.
    """

    project: Project
    request: Request
    row: Row
    metric: str | None
    logged: Mapping[str, float] = field(default_factory=dict)


def prepare_again(project: Project, run: str, text: str | None, tolerance: float | None) -> Again:
    """Find a run and its lock file, and have its code and image again; checks the data.

    `run` is a run's id or `best`; `text` means a sweep or a lock file. One run if a tolerance is
    given, else three. Raises ConfigError where something cannot be as it was.
    """
    choice, snapshot, lock = _find(project, text)
    row = _find_row(snapshot, run)
    metric = snapshot.sweep.metric_name
    if row.value is None and (metric is not None or tolerance is not None):
        said = f"run {row.run_id} has no metric to compare"
        raise ConfigError(run, said, f"deployer results {lock.sweep}")
    project = _restore(choice.config, project, lock)
    check_data(project, lock)
    for line in list_differences(project, lock):
        LOG.warning(line)
    config = _build_config(snapshot, row, REPEATS if metric and tolerance is None else 1)
    sweep = parse_sweep(dump_config(config), f"the repeat of {row.run_id}")
    place = Path(lock.file).with_name(f"{row.run_id}-again.yaml")
    logged = _read_logged(snapshot, row.run_id)
    return Again(project, Request(place, sweep, continued=False), row, metric, logged)


def judge_again(again: Again, snapshot: Snapshot, tolerance: float | None) -> Judgement | None:
    """Compare the repeats with the run; None where there is no metric and the repeat has finished.

    Raises SweepFailed if not all of them have the metric, or without one have finished.
    """
    results = build_results(snapshot.sweep, snapshot.runs)
    if again.metric is None:
        if results.coverage.complete:
            return None
        said = f"{results.sweep_path}: {results.coverage.sentence()}"
        raise SweepFailed(said, f"deployer agents logs {results.sweep_path}")
    values = [row.value for row in results.rows if row.rank is not None]
    found = [value for value in values if value is not None]
    if len(found) < (again.request.sweep.run_cap or 1) or again.row.value is None:
        said = f"{len(found)} of {again.request.sweep.run_cap} repeats have {again.metric}"
        raise SweepFailed(f"{results.sweep_path}: {said}", f"deployer results {results.sweep_path}")
    return judge_repeats(again.row.value, found, tolerance)


def list_logged_again(again: Again, snapshot: Snapshot) -> dict[str, tuple[float, float]]:
    """Return by its name each number that a run and its one repeat have logged last."""
    repeat = next((run.run_id for run in snapshot.runs if run.state == "finished"), "")
    now = _read_logged(snapshot, repeat)
    return {name: (value, now[name]) for name, value in again.logged.items() if name in now}


def _read_logged(snapshot: Snapshot, run_id: str) -> dict[str, float]:
    summary = next((run.summary for run in snapshot.runs if run.run_id == run_id), {})
    found = {name: metric_value(summary, name) for name in list_logged(summary)}
    return {name: value for name, value in found.items() if value is not None}


def _find(project: Project, text: str | None) -> tuple[Choice, Snapshot, Lock]:
    """Return the sweep that is meant and its lock file."""
    given = _load_given(text) if text else None
    text = text or _find_newest(project)
    if given and not project.explicit_wandb:
        project = project.for_server(given.server, f"{text}: server")
    if given and not project.explicit_on:
        if given.on not in list_names():
            hint = f"--on with one of: {', '.join(list_names())}"
            raise ConfigError(f"{text}: on", f"'{given.on}' is not an executor", hint)
        project = replace(project, on=given.on)  # where its embedded backend is, if it has one
    choice = choose_sweep(given.sweep if given else text, project)
    server, path = open_sweep(choice)
    kept = find_kept(str(path), server.name)
    if given is None and kept is None:
        hint = "name its lock file: deployer reproduce best SWEEP.lock.yaml"
        raise ConfigError(str(path), "there is no lock file of this sweep here", hint)
    lock = given or load_lock(kept or Path())
    try:
        return choice, get_whole_snapshot(server, path), lock
    except WandbError as error:
        if given is None or error.status != 404:
            raise
        said = f"its sweep {path} is not on {server.url}, nor the value to compare with"
        hint = f"--wandb SERVER, if it is elsewhere; deployer up {lock.file} runs it anew"
        raise ConfigError(str(text), said, hint) from error


def _load_given(text: str) -> Lock | None:
    """Return a lock file that was named, itself or by its sweep's file; None for no file."""
    path = Path(text)
    places = [one for one in (path, name_lock(path)) if begins_as_lock_file(one)]
    if places:
        return load_lock(places[0])
    if path.suffix not in ENDINGS and not path.exists():
        return None
    if not path.is_file():
        said = "is a folder" if path.is_dir() else "there is no such file"
        raise ConfigError(text, said, OTHER)
    if path.suffix not in ENDINGS or path.name.endswith(LOCK_END):
        raise ConfigError(text, "is no lock file of deployer", OTHER)
    own = _find_own(path)
    if own is None:
        hint = f"{OTHER}; deployer up {text} runs the sweep, and writes one"
        raise ConfigError(text, "has no lock file beside it", hint)
    return load_lock(own)


def _find_own(file: Path) -> Path | None:
    """Return this machine's copy for the newest sweep made from a file that has one."""
    made = (record for record in Records.load().made_from(file) if record.sweep_path)
    kept = (find_kept(r.sweep_path, r.server) for r in made)
    return next((one for one in kept if one), None)


def _find_newest(project: Project) -> str | None:
    """Return the newest sweep made from this folder that has a lock file, as repeats have not."""
    made = (record for record in Records.load().made_in(project.folder) if record.sweep_path)
    return next((r.sweep_path for r in made if find_kept(r.sweep_path, r.server)), None)


def _find_row(snapshot: Snapshot, run: str) -> Row:
    results = build_results(snapshot.sweep, snapshot.runs)
    finished = [row for row in results.rows if row.state == "finished"]
    only = finished[0] if results.metric is None and len(finished) == 1 else None
    if run == BEST and (best := results.best or only):
        return best
    by_id = [row for row in results.rows if row.run_id == run]
    named = by_id or [row for row in results.rows if row.title == run]
    if not named:
        said = "no run has finished with its metric" if run == BEST else "the sweep has no such run"
        raise ConfigError(run or "''", said, f"deployer results {snapshot.sweep.path}")
    if len(named) > 1:
        ids = ", ".join(row.run_id for row in named)
        raise ConfigError(run, f"{len(named)} runs have this title", f"name one of: {ids}")
    return named[0]


def _restore(found: Project, asked: Project, lock: Lock) -> Project:
    """Return the project with executor, code and image as they were."""
    on = asked.on if asked.explicit_on else lock.on
    project = replace(found, on=on, replicas=asked.replicas, given_replicas=asked.given_replicas)
    if lock.image and not find_executor(project).runs_here:
        project = project.with_image(lock.image)
        if "@sha256:" not in lock.image:
            LOG.warning(f"{lock.image} has no digest: it may be another image by now")
    if not find_executor(project).has_folder:
        return project
    apart = list_apart(project, Path(lock.file))
    code = restore_code(lock.code, project.folder, project.environment, apart)
    if code.folder != project.folder:
        LOG.info(f"code: commit {code.commit}, as it was, in {code.folder}")
    return replace(project, resolved_code=code)


def check_data(project: Project, lock: Lock) -> None:
    """Refuse data that is not what it was, where that is known; raises ConfigError."""
    sets = {one.name: one for one in project.data}
    now = {one.name: one for one in list_data(find_executor(project))}
    for then in lock.data:
        found = now.get(then.name)
        place = f"data set {then.name}"
        if found is None:
            said = "is not in deployer.yaml, and was when it ran"
            raise ConfigError(place, said, f"put it back into `data:` ({then.place})")
        if then.sha256 and found.sha256 != then.sha256:
            said = f"is not what it was: {_describe_change(then, found)}"
            again = f"put it back in {then.place}, or deployer data put {then.name} SOURCE"
            preload = f"deployer data preload {then.name}"
            raise ConfigError(place, said, preload if sets[then.name].url else again)


def _describe_change(then: DataState, now: DataState) -> str:
    """Name the first file that differs, where files have lines of their own; else say how many."""
    for name in sorted({**then.listed, **now.listed}) if then.listed and now.listed else ():
        if name not in now.listed:
            return f"{name} is gone"
        if name not in then.listed:
            return f"{name} is new"
        if now.listed[name] != then.listed[name]:
            return f"{name} is another"
    sizes = [f"{format_count(one.files, 'file')}, {one.size_bytes:,} bytes" for one in (now, then)]
    return f"{sizes[0]} ({sizes[1]} then)"


def list_differences(project: Project, lock: Lock) -> list[str]:
    """Say which packages and which driver are others now."""
    then = lock.surroundings
    if not then.python:
        return []  # the image has them
    now = find_executor(project).read_surroundings()
    named = {**then.packages, "Python": then.python, "driver": then.driver}
    present = {**now.packages, "Python": now.python, "driver": now.driver}
    changed = [
        f"{name} {present.get(name) or 'missing'} ({version} then)"
        for name, version in named.items()
        if version != present.get(name, "")
    ]
    if not changed:
        return []
    more = f" and {len(changed) - SHOWN_PACKAGES} more" if len(changed) > SHOWN_PACKAGES else ""
    return [f"not as it was: {', '.join(changed[:SHOWN_PACKAGES])}{more}"]


def _build_config(snapshot: Snapshot, row: Row, count: int) -> dict[str, Any]:
    run = next(run for run in snapshot.runs if run.run_id == row.run_id)
    sweep = snapshot.sweep
    try:
        config = build_repeat_config(
            sweep.config, run.config, count, f"{sweep.title} again", f"run {row.run_id} again"
        )
    except KeyError as error:
        said = f"the run does not say its parameter {error}"
        raise DeployerError(f"{row.run_id}: {said}", f"deployer results {sweep.path}") from error
    return {**config, "entity": sweep.path.entity, "project": sweep.path.project}
