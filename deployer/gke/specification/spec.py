"""A cluster's specification (infra/gke/*.yaml) as one frozen `ClusterSpec`; pure but for reading.

It knows neither Google's client nor Kubernetes'.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
)
from pydantic.dataclasses import dataclass

from deployer.config.check import (
    STRICT,
    Duration,
    PlaceOf,
    Problem,
    at_least,
    make_tuple,
    read,
    refuse,
    to_plain,
)
from deployer.config.credentials import Owner
from deployer.config.document import Document, parse_document, read_user_text
from deployer.config.paths import find_packaged
from deployer.errors import ConfigError
from deployer.gke.specification.parts import (
    ClusterName,
    GpuChoice,
    LabelKey,
    LabelValue,
    Location,
    Network,
    Project,
    ServiceAccount,
    SystemPool,
    check_choice,
    find_built_in,
    region_of,
)

KeyPath = tuple[str, ...]
Choices = Mapping[KeyPath, GpuChoice]
CHOICE = TypeAdapter(GpuChoice)
A_PLACE = "such as us-central1-a"
AN_ACCELERATOR = "such as {accelerator: nvidia-tesla-t4, machine_type: n1-standard-8}"
DEFAULT = "t4"
# What is ours carries these labels, and nothing else is ever touched.
MANAGED_BY = "managed-by"
MANAGER = "deployer"
CLUSTER_LABEL = "deployer-cluster"
OWNER_LABEL = "deployer-owner"
MADE_FOR = "made by deployer for "  # begins a cluster's description; the owner's name follows
OWN_PREFIX = "deployer-"  # of all of ours but the first
# A resource takes 64: https://cloud.google.com/kubernetes-engine/docs/how-to/creating-managing-labels
# Three are ours, and GKE adds some ten of its own to nodes and disks.
MOST_LABELS = 50
# Google's own begin with it: https://cloud.google.com/compute/docs/labeling-resources
GOOGLE_PREFIX = "goog"


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


def _list_sound_choices(gpus: Any) -> Iterator[tuple[KeyPath, GpuChoice]]:
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


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ClusterSpec:
    """A GKE cluster: where, its system pool, and the GPUs in the order in which they are tried.

    Without a project it is that of the credentials. `locations` are zones or regions, the first
    one preferred. With `delete_when_idle` a timer in the cluster deletes it, if it is given a role.
    """

    name: ClusterName
    project: Project | None = None
    locations: Annotated[
        tuple[Location, ...],
        BeforeValidator(make_tuple),
        Field(validation_alias=AliasChoices("location", "locations")),
    ]
    labels: Annotated[Mapping[LabelKey, LabelValue], Field(max_length=MOST_LABELS)] = Field(
        default_factory=dict
    )
    service_account: ServiceAccount | None = None
    image_streaming: bool = False
    max_node_time: Duration | None = None
    delete_when_idle: Annotated[Duration, at_least(600)] | None = None
    network: Network = "default"
    subnetwork: Network | None = None
    private_nodes: bool = False
    release_channel: Literal["rapid", "regular", "stable", "extended"] = "regular"
    system_pool: SystemPool = SystemPool()
    gpus: tuple[GpuChoice, ...]

    def limit_nodes(self, seconds: float) -> ClusterSpec:
        """Return the specification whose GPU nodes end after so long, unless they end sooner."""
        limit = timedelta(seconds=round(seconds))
        kept = self.max_node_time is not None and self.max_node_time <= limit
        return self if kept else replace(self, max_node_time=limit)

    @property
    def needs_host_ipc(self) -> bool:
        """Tell whether agents must share their node's IPC, as clients of NVIDIA's MPS do.

        https://cloud.google.com/kubernetes-engine/docs/how-to/nvidia-mps-gpus
        """
        return any(one.sharing and one.sharing.strategy == "mps" for one in self.gpus)

    @property
    def pool_names(self) -> tuple[str, ...]:
        """The names of the choices' pools, in the same order: `gpu-1`, `gpu-2`, …"""
        return tuple(f"gpu-{number}" for number in range(1, len(self.gpus) + 1))

    @field_validator("labels")
    @classmethod
    def _check_labels(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        taken = [one for one in value if one == MANAGED_BY or one.startswith(OWN_PREFIX)]
        taken += [one for one in value if one.startswith(GOOGLE_PREFIX)]
        if taken:
            whose = "Google's" if taken[0].startswith(GOOGLE_PREFIX) else "deployer's"
            said = f"'{taken[0]}' is one of {whose} own"
            refuse(said, "choose another")
        return value


def cluster_labels(spec: ClusterSpec, owner: Owner) -> dict[str, str]:
    """Return the labels of everything that is made for a cluster: the user's and ours."""
    return {**spec.labels, **own_labels(spec.name, owner)}


def own_labels(cluster: str, owner: Owner) -> dict[str, str]:
    """Return the labels by which what was made for a cluster is found, and whose it is."""
    return {MANAGED_BY: MANAGER, CLUSTER_LABEL: cluster, OWNER_LABEL: owner.id}


def load_spec(named: str | None, folder: Path) -> ClusterSpec:
    """Read a specification: a path relative to a folder, or the name of one in the package.

    Raises ConfigError with every complaint, its line and a hint.
    """
    path = find_spec(named or DEFAULT, folder)
    try:
        text = read_user_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(named or path.name, f"cannot be read: {error}") from error
    return parse_spec(parse_document(text, named or path.name))


def find_spec(named: str, folder: Path) -> Path:
    """Return the YAML file that is meant: a path from a folder, or one of ours by its name.

    Raises ConfigError if there is none.
    """
    own = folder / named
    if own.exists() and not own.is_dir():
        return own
    ours = {path.stem: path for path in sorted(find_packaged("infra/gke").glob("*.yaml"))}
    if named in ours:
        return ours[named]
    near = difflib.get_close_matches(named, ours, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"a path, or one of: {', '.join(ours)}"
    raise ConfigError(named, "cluster specification not found", hint)


def parse_spec(document: Document) -> ClusterSpec:
    """Read a specification; raises ConfigError with every complaint."""
    value = to_plain(document, {} if document.value is None else document.value)
    spec, problems = read(ClusterSpec, document, _take_one_location(value))
    problems += list_rules(value, document.place_of)
    if spec is None or problems:
        raise ConfigError.join(problems)
    return spec


def _take_one_location(value: Any) -> Any:
    """Drop the second of two ways to say where, about which the rules complain."""
    both = isinstance(value, dict) and {"location", "locations"} <= value.keys()
    return {key: one for key, one in value.items() if key != "locations"} if both else value
