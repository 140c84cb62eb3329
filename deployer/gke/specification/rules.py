"""Rules for a well-formed specification that cannot work; pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from deployer.config.check import PlaceOf, Problem
from deployer.errors import ConfigError
from deployer.gke.specification.gpu_rules import check_choice, find_built_in
from deployer.gke.specification.parts import GpuChoice, region_of

Path = tuple[str, ...]
Choices = Mapping[Path, GpuChoice]
CHOICE = TypeAdapter(GpuChoice)
A_PLACE = "such as us-central1-a"
AN_ACCELERATOR = "such as {accelerator: nvidia-tesla-t4, machine_type: n1-standard-8}"


def list_rules(value: Any, place_of: PlaceOf) -> list[ConfigError]:
    """Return the complaints about a file's value, also where other parts are not well-formed."""
    if not isinstance(value, dict):
        return []
    choices = dict(_list_sound_choices(value.get("gpus")))
    found = [
        ((*path, key), said, hint)
        for path, choice in choices.items()
        for key, said, hint in check_choice(choice)
    ]
    found += _check_lists(value)
    found += _check_locations(value, choices)
    found += _check_system_pool(value.get("system_pool"))
    return [ConfigError(place_of(path), said, hint) for path, said, hint in found]


def _list_sound_choices(gpus: Any) -> Iterator[tuple[Path, GpuChoice]]:
    """Yield each choice without those of its keys that are complained about elsewhere."""
    for index, given in enumerate(gpus if isinstance(gpus, list) else ()):
        choice = _read_choice(given) if isinstance(given, dict) else None
        if choice is not None:
            yield ("gpus", f"[{index}]"), choice


def _read_choice(given: Mapping[str, Any]) -> GpuChoice | None:
    try:
        return CHOICE.validate_json(json.dumps(given))
    except ValidationError as error:
        wrong = {one["loc"][0] for one in error.errors(include_url=False)}
    sound = {key: value for key, value in given.items() if key not in wrong}
    # What is still wrong then is missing.
    return _read_choice(sound) if len(sound) < len(given) else None


def _check_lists(value: Mapping[str, Any]) -> Iterator[Problem]:
    if "location" in value and "locations" in value:
        hint = "remove one; either takes a place, or a list of them in the order of preference"
        yield ("locations",), "there is `location` too", hint
    for key, hint in (("location", A_PLACE), ("locations", A_PLACE), ("gpus", AN_ACCELERATOR)):
        if value.get(key) == []:
            yield (key,), "is empty", hint


def _check_locations(value: Mapping[str, Any], choices: Choices) -> Iterator[Problem]:
    key = "location" if "location" in value else "locations"
    given = value.get(key)
    locations = [given] if isinstance(given, str) else given
    if not isinstance(locations, list) or not all(isinstance(one, str) for one in locations):
        return
    for index, one in enumerate(locations):
        if one in locations[:index]:
            yield (key, f"[{index}]"), f"{one} is there twice", "remove one of them"
    regions = {region_of(one): one for one in locations}
    for path, choice in choices.items():
        for index, zone in enumerate(choice.zones):
            if region_of(zone) not in regions:
                said = f"{zone} does not lie in {' or '.join(regions)}"
                hint = "nodes are in the region of the cluster: see `location`"
                yield (*path, "zones", f"[{index}]"), said, hint


def _check_system_pool(pool: Any) -> Iterator[Problem]:
    machine_type = pool.get("machine_type") if isinstance(pool, dict) else None
    gpu = find_built_in(machine_type) if isinstance(machine_type, str) else None
    if gpu:
        said = f"{machine_type} comes with {gpu}, and would always run"
        yield ("system_pool", "machine_type"), said, "such as e2-standard-2"
