"""The sweep that runs exactly the hyperparameter sets of a file, and the sets of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deployer.errors import ConfigError
from deployer.model import Run
from deployer.sweeps.configuration_list import (
    JOB_ID,
    JOB_ID_MACRO,
    PARAMETER,
    build_command,
    find_list_parameter,
    list_configurations,
)
from deployer.sweeps.parameters.parse import parse_parameters
from deployer.sweeps.set_files import HyperparameterSets, load_sets
from deployer.text import format_count
from deployer.wandb_api.model import Snapshot

# In the command of a sweep whose script reads the file itself: which one.
FILE_VARIABLE = "HYPERPARAMETERS_FILE"


def build_sweep_config(
    found: HyperparameterSets, file: str, program: str, metric: str | None, goal: str
) -> dict[str, Any]:
    """Return a sweep that runs exactly the sets of `file`, with each one's number as `JOB_ID`.

    A script that reads the file itself gets no flags; the values are in `wandb.config` either way.
    """
    read = (f"{FILE_VARIABLE}={file}",) if found.wrapped else ()
    words = ("${env}", JOB_ID_MACRO, *read, "${interpreter}", "${program}")
    values = [{JOB_ID: number, **one} for number, one in enumerate(found.sets, start=1)]
    return {
        "description": f"{format_count(len(found.sets), 'set')} of {file}",
        "program": program,
        "method": "grid",
        **({"metric": {"name": metric, "goal": goal}} if metric else {}),
        "command": list(build_command(words if found.wrapped else (*words, "${args}"))),
        "parameters": {PARAMETER: {"values": values}},
    }


def list_sets(config: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    """Return the configurations of an explicit list or a grid; raise ConfigError for others."""
    if find_list_parameter(config):
        listed = list_configurations(config)
        listed.sort(key=lambda one: one.get(JOB_ID, 0))
        return [{key: value for key, value in one.items() if key != JOB_ID} for one in listed]
    if config.get("method") != "grid":
        said = f"method {config.get('method')} draws its configurations as it runs"
        raise ConfigError(place, said, "export the sweep once it has run: deployer sweep list")
    space, _ = parse_parameters(config.get("parameters"))
    return space.list_points()


def find_run_of_set(snapshot: Snapshot, number: str) -> str:
    """Return the newest run of the set with this number; `number` itself if it is a run's ID."""

    def has_number(run: Run) -> bool:
        chosen = run.config.get(PARAMETER)
        return isinstance(chosen, Mapping) and str(chosen.get(JOB_ID, "")) == number

    if any(run.run_id == number for run in snapshot.runs):
        return number
    found = sorted(filter(has_number, snapshot.runs), key=lambda run: run.created_at or 0.0)
    return found[-1].run_id if found else number


def is_wrapped(config: Mapping[str, Any]) -> bool:
    """Return False for a sweep imported from a plain list, whose script gets flags."""
    numbered = JOB_ID_MACRO in map(str, config.get("command") or ())
    return bool(_find_sets_file(config)) or not numbered


def check_sets_file(config: Mapping[str, Any], folder: Path, place: str) -> None:
    """Raise ConfigError if the file that runs read in `folder` is missing or has other sets."""
    name = _find_sets_file(config)
    if not name:
        return
    again = f"deployer sweep import {name} --to {place} --force, with the options of the first time"
    if not (folder / name).is_file():
        said = f"runs read {name}, which is missing in {folder}"
        raise ConfigError(place, said, f"copy it there; code from git: git add {name}, commit")
    sets = dict(enumerate(load_sets(folder / name).sets, start=1))
    if any(sets.get(number) != one for number, one in _list_numbered(config)):
        raise ConfigError(place, f"its sets differ from {name}", again)


def _find_sets_file(config: Mapping[str, Any]) -> str:
    """Return the file that a sweep's script reads its set from; empty if it reads none."""
    words = map(str, config.get("command") or ())
    return next((w.partition("=")[2] for w in words if w.startswith(f"{FILE_VARIABLE}=")), "")


def _list_numbered(config: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the sets of a sweep with their numbers: all, those that are healed, or a single one."""
    form = (config.get("parameters") or {}).get(PARAMETER) or {}
    for value in form.get("values") or [form.get("value")]:
        if isinstance(value, Mapping) and JOB_ID in value:
            yield value[JOB_ID], {key: v for key, v in value.items() if key != JOB_ID}
