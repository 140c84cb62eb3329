"""A cluster's specification (infra/gke/*.yaml) as one frozen `ClusterSpec`.

Pure except for reading files. It imports neither Google's client nor Kubernetes'.
"""

from __future__ import annotations

import difflib
import json
import re
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
    matching,
    read,
    refuse,
    to_plain,
)
from deployer.config.credentials import Owner
from deployer.config.document import Document, parse_document, read_user_text
from deployer.config.paths import find_packaged
from deployer.errors import ConfigError, KeyPath
from deployer.text import format_count

# GKE's own rules: https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/
# projects.locations.clusters#Cluster (name), Compute Engine's for the others.
CLUSTER_NAME = r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$"
PROJECT = r"^([a-z0-9.-]+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]$"
# Also matches an AI zone: us-central1-ai1a.
LOCATION = r"^[a-z]+-[a-z]+[0-9]+(-(ai[0-9]+)?[a-z])?$"
ZONE = r"^[a-z]+-[a-z]+[0-9]+-(ai[0-9]+)?[a-z]$"
# Stricter than Google, which allows any script: they also become Kubernetes labels of the nodes.
LABEL_KEY = r"^[a-z]([-_a-z0-9]{0,61}[a-z0-9])?$"
LABEL_VALUE = r"^([a-z0-9]([-_a-z0-9]{0,61}[a-z0-9])?)?$"
MACHINE_TYPE = r"^[a-z][a-z0-9]*(-[a-z0-9]+)+$"
ACCELERATOR = r"^nvidia-[a-z0-9]+(-[a-z0-9]+)*$"
PARTITION = r"^[1-7]g\.[0-9]+gb$"
NETWORK = r"^[-a-z0-9./_:]+$"
SERVICE_ACCOUNT = r"^[a-z0-9][-a-z0-9.]*@[-a-z0-9.:]+\.gserviceaccount\.com$"
RESERVATION = r"^(projects/[^/]+/reservations/)?[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
LABEL_HINT = (
    "small letters, digits, dashes and underscores, at most 63, a letter or digit at the end"
)


# The API's own default is pd-standard, which G2, A2 and A3 machines do not support.
DISK_TYPE = "pd-balanced"
HYPERDISK = "hyperdisk-balanced"
# These machines support no persistent disk. https://cloud.google.com/compute/docs/disks/hyperdisks
HYPERDISK_MACHINES = ("a3-ultragpu-", "a4-", "a4x-", "g4-")


ClusterName = Annotated[
    str,
    matching(
        CLUSTER_NAME, "small letters, digits and dashes, at most 40, a letter first, no dash last"
    ),
]
Project = Annotated[str, matching(PROJECT, "the project's id, not its title: gcloud projects list")]
Location = Annotated[
    str, matching(LOCATION, "a zone such as us-central1-a, or a region such as us-central1")
]
Zone = Annotated[str, matching(ZONE, "a zone such as us-central1-a")]
CloudLabelKey = Annotated[str, matching(LABEL_KEY, f"{LABEL_HINT}, a letter first")]
CloudLabelValue = Annotated[str, matching(LABEL_VALUE, LABEL_HINT)]
MachineType = Annotated[str, matching(MACHINE_TYPE, "such as n1-standard-8")]
Partition = Annotated[str, matching(PARTITION, "such as 1g.5gb")]
ServiceAccount = Annotated[
    str,
    matching(SERVICE_ACCOUNT, "its address, such as nodes@my-project.iam.gserviceaccount.com"),
]
Reservation = Annotated[
    str,
    matching(RESERVATION, "the reservation's name, or projects/PROJECT/reservations/NAME"),
]
Network = Annotated[
    str, matching(NETWORK, "the network's name, or projects/PROJECT/global/networks/NAME")
]
DiskSize = Annotated[int, Field(ge=10, le=65536)]
NodeCount = Annotated[int, Field(ge=1, le=1000)]
KeyProblem = tuple[str, str, str]  # key, message, hint
# GPUs that can be attached to N1 machines, in these numbers.
ATTACHED = {
    "nvidia-tesla-t4": (1, 2, 4),
    "nvidia-tesla-p4": (1, 2, 4),
    "nvidia-tesla-p100": (1, 2, 4),
    "nvidia-tesla-v100": (1, 2, 4, 8),
}
# GPUs built into the machine type. The longer prefix is first.
BUILT_IN = {
    "a2-ultragpu-": "nvidia-a100-80gb",
    "a2-": "nvidia-tesla-a100",
    "a3-ultragpu-": "nvidia-h200-141gb",
    "a3-megagpu-": "nvidia-h100-mega-80gb",
    "a3-": "nvidia-h100-80gb",
    "a4-": "nvidia-b200",
    "a4x-": "nvidia-gb200",
    "g2-": "nvidia-l4",
    "g4-": "nvidia-rtx-pro-6000",
}
KNOWN = (*ATTACHED, *dict.fromkeys(BUILT_IN.values()))
G2_COUNTS = {4: 1, 8: 1, 12: 1, 16: 1, 24: 2, 32: 1, 48: 4, 96: 8}
SHARED_CORE = ("f1-micro", "g1-small")
# Kinds that can be partitioned but are missing here are not checked.
PARTITIONS: dict[str, tuple[str, ...]] = {
    "nvidia-tesla-a100": ("1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb"),
    "nvidia-a100-80gb": ("1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"),
}
# Every GPU that can be partitioned has seven compute slices.
COMPUTE_SLICES = 7
MEMORY_GB = {
    "nvidia-tesla-a100": 40,
    "nvidia-a100-80gb": 80,
    "nvidia-h100-80gb": 80,
    "nvidia-h100-mega-80gb": 80,
    "nvidia-h200-141gb": 141,
    "nvidia-b200": 180,
}
UNPARTITIONED = (*ATTACHED, "nvidia-l4")
# Ways to buy a machine other than on demand, by the keys of a choice.
WAYS = ("spot", "flex_start", "reservation")
# GPUs that are not sold on demand, and the ways they are sold.
NOT_ON_DEMAND = {
    "a3-highgpu-1g": ("spot", "flex_start"),
    "a3-highgpu-2g": ("spot", "flex_start"),
    "a3-highgpu-4g": ("spot", "flex_start"),
    "a3-ultragpu-8g": WAYS,
    "a4-highgpu-8g": WAYS,
    "a4x-highgpu-4g": ("reservation",),
}
A_PLACE = "such as us-central1-a"
AN_ACCELERATOR = "such as {accelerator: nvidia-tesla-t4, machine_type: n1-standard-8}"
DEFAULT = "t4"
# Our resources carry these labels; nothing else is ever touched.
MANAGED_BY = "managed-by"
MANAGER = "deployer"
CLUSTER_LABEL = "deployer-cluster"
OWNER_LABEL = "deployer-owner"
MADE_FOR = "made by deployer for "  # begins a cluster's description; the owner's name follows
OWN_PREFIX = "deployer-"  # prefix of all our labels except the first
# A resource has at most 64 labels. Three are ours, and GKE adds about ten of its own to nodes and
# disks. Source: https://cloud.google.com/kubernetes-engine/docs/how-to/creating-managing-labels
MOST_LABELS = 50
# Google's own labels begin with it: https://cloud.google.com/compute/docs/labeling-resources
GOOGLE_PREFIX = "goog"


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SystemPool:
    """The nodes without a GPU that always run: Kubernetes' own pods, and an embedded backend.

    `nodes` is their number in each zone of the cluster: one zone for a zonal cluster, three for a
    regional one.
    """

    machine_type: MachineType = "e2-standard-2"
    nodes: NodeCount = 1
    disk_gb: DiskSize = 50


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Sharing:
    """Several pods on one GPU, at most `clients`; their memory is not isolated."""

    strategy: Literal["time-sharing", "mps"]
    # GKE allows 48: https://cloud.google.com/kubernetes-engine/docs/concepts/timesharing-gpus
    clients: Annotated[int, Field(ge=2, le=48)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class GpuChoice:
    """GPU nodes of one kind, which become a pool of 0 to `max_nodes`; each has `count` GPUs.

    They are bought on demand, as Spot, by flex-start (Google queues the request for at most seven
    days), or from a reservation.
    """

    accelerator: str
    count: Annotated[int, Field(ge=1, le=16)] = 1
    machine_type: MachineType
    spot: bool = False
    flex_start: bool = False
    reservation: Reservation | None = None
    disk_gb: DiskSize = 100
    driver_version: Literal["default", "latest", "disabled"] = "default"
    partition_size: Partition | None = None
    sharing: Sharing | None = None
    max_nodes: NodeCount = 4
    zones: Annotated[tuple[Zone, ...], BeforeValidator(make_tuple)] = ()

    def zones_in(self, location: str) -> tuple[str, ...]:
        """Return the choice's zones in a location's region; empty means the cluster's own."""
        return tuple(zone for zone in self.zones if region_of(zone) == region_of(location))


def region_of(location: str) -> str:
    return "-".join(location.split("-")[:2])


def is_zone(location: str) -> bool:
    return location != region_of(location)


def find_disk_type(machine_type: str) -> str:
    return HYPERDISK if machine_type.startswith(HYPERDISK_MACHINES) else DISK_TYPE


# Which accelerators, machine types and partitions go together, as documented by Google; pure.
# Unknown values are not rejected: Google adds machines, and refuses wrong ones itself. Sources:
# https://cloud.google.com/compute/docs/gpus (machine types and their GPUs) and
# https://cloud.google.com/kubernetes-engine/docs/how-to/gpus-multi (partitions).


def check_choice(choice: GpuChoice) -> Iterator[KeyProblem]:
    """Yield the errors in a choice: (key, message, hint)."""
    yield from _check_accelerator(choice.accelerator)
    yield from _check_machine(choice)
    yield from _check_partition(choice)
    yield from _check_purchase(choice)


def count_slots(choice: GpuChoice) -> int:
    """Return how many agents with one GPU, or one part of a GPU, fit on a node."""
    parts = 1
    if choice.partition_size:
        compute, memory = (int(one) for one in re.findall(r"[0-9]+", choice.partition_size))
        whole = MEMORY_GB.get(choice.accelerator, memory)
        # Names round sizes down: two of 3g.71gb fit into 141.
        parts = max(1, min(COMPUTE_SLICES // compute, (whole + 1) // memory))
    return choice.count * parts * (choice.sharing.clients if choice.sharing else 1)


def find_built_in(machine_type: str) -> str | None:
    return next((gpu for start, gpu in BUILT_IN.items() if machine_type.startswith(start)), None)


def _check_accelerator(name: str) -> Iterator[KeyProblem]:
    words = set(name.split("-")) - {"nvidia", "tesla", "gpu"}
    # `t4`, `nvidia-t4` and `nvidia-a100` contain only words of a known name.
    like = [one for one in KNOWN if name not in KNOWN and words <= set(one.split("-"))]
    if like:
        yield "accelerator", f"{name!r} is not Google's name for it", f"write {' or '.join(like)}"
    elif not re.fullmatch(ACCELERATOR, name):
        near = difflib.get_close_matches(name.lower(), KNOWN, n=1) or KNOWN
        yield "accelerator", f"{name!r} is not an accelerator", f"such as {', '.join(near)}"


def _check_machine(choice: GpuChoice) -> Iterator[KeyProblem]:
    machine_type, accelerator = choice.machine_type, choice.accelerator
    built_in = find_built_in(machine_type)
    if built_in:
        yield from _check_built_in(choice, built_in)
    elif accelerator in BUILT_IN.values():
        starts = [start for start, gpu in BUILT_IN.items() if gpu == accelerator]
        hint = f"it comes with the machine types {' and '.join(f'{one}*' for one in starts)}"
        yield "machine_type", f"{machine_type} has no {accelerator}", hint
    elif machine_type in SHARED_CORE or not machine_type.startswith(("n1-", "custom-")):
        hint = "only N1 machines can have attached GPUs, such as n1-standard-8"
        yield "machine_type", f"{machine_type} does not support {accelerator}", hint
    elif choice.count not in ATTACHED.get(accelerator, (choice.count,)):
        counts = ", ".join(str(one) for one in ATTACHED[accelerator])
        yield "count", f"a machine cannot have {choice.count} of {accelerator}", f"one of: {counts}"


def _check_built_in(choice: GpuChoice, built_in: str) -> Iterator[KeyProblem]:
    machine_type = choice.machine_type
    count = _count_built_in(machine_type)
    if choice.accelerator != built_in:
        said = f"{machine_type} comes with {built_in}, not with {choice.accelerator}"
        yield "accelerator", said, f"write {built_in}, or another machine_type"
    elif count is not None and choice.count != count:
        said = f"{machine_type} comes with {format_count(count, 'GPU')}"
        yield "count", f"{said}, not with {choice.count}", f"write count: {count}"


def _count_built_in(machine_type: str) -> int | None:
    ending = machine_type.rpartition("-")[2]
    if machine_type.startswith("g2-standard-") and ending.isdigit():
        return G2_COUNTS.get(int(ending))
    return int(ending[:-1]) if re.fullmatch(r"[0-9]+g", ending) else None


def _check_purchase(choice: GpuChoice) -> Iterator[KeyProblem]:
    said = [way for way in WAYS if getattr(choice, way)]
    if len(said) > 1:
        yield said[1], f"conflicts with `{said[0]}`", "choose one of them"
    ways = NOT_ON_DEMAND.get(choice.machine_type, ())
    if ways and not set(said) & set(ways):
        how = " or ".join(f"`{way}`" for way in ways)
        wanted = " or ".join(f"{way}: {'NAME' if way == 'reservation' else 'true'}" for way in ways)
        message = f"{choice.machine_type} is not sold on demand, only by {how}"
        yield "machine_type", message, f"write {wanted}"


def _check_partition(choice: GpuChoice) -> Iterator[KeyProblem]:
    size, accelerator = choice.partition_size, choice.accelerator
    if size is None:
        return
    if choice.sharing and choice.sharing.strategy == "mps":
        hint = "strategy: time-sharing, or remove partition_size"
        yield "sharing", "MPS does not share partitions of a GPU", hint
    if accelerator in UNPARTITIONED:
        hint = "only A100, H100 and later GPUs can; remove it, or choose one of them"
        yield "partition_size", f"{accelerator} cannot be partitioned", hint
    elif size not in PARTITIONS.get(accelerator, (size,)):
        hint = f"one of: {', '.join(PARTITIONS[accelerator])}"
        yield "partition_size", f"{accelerator} has no partition {size}", hint


Choices = Mapping[KeyPath, GpuChoice]
CHOICE = TypeAdapter(GpuChoice)


def list_rules(value: Any, place_of: PlaceOf) -> list[ConfigError]:
    """Return the complaints about a file's value, even if other parts are malformed."""
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
    # Invalid values are removed; the remaining errors are missing keys.
    return _read_choice(sound) if len(sound) < len(given) else None


def _check_lists(value: Mapping[str, Any]) -> Iterator[Problem]:
    if "location" in value and "locations" in value:
        hint = "remove one; each takes one location, or a list in order of preference"
        yield ("locations",), "`location` is also set", hint
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
            yield (key, f"[{index}]"), f"{one} appears twice", "remove one of them"
    regions = {region_of(one): one for one in locations}
    for path, choice in choices.items():
        for index, zone in enumerate(choice.zones):
            if region_of(zone) not in regions:
                said = f"{zone} is not in {' or '.join(regions)}"
                hint = "nodes are in the region of the cluster: see `location`"
                yield (*path, "zones", f"[{index}]"), said, hint


def _check_system_pool(pool: Any) -> Iterator[Problem]:
    machine_type = pool.get("machine_type") if isinstance(pool, dict) else None
    gpu = find_built_in(machine_type) if isinstance(machine_type, str) else None
    if gpu:
        said = f"{machine_type} comes with {gpu}, and the system pool always runs"
        yield ("system_pool", "machine_type"), said, "such as e2-standard-2"


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ClusterSpec:
    """A GKE cluster: its location, its system pool, and the GPU choices in the order to try.

    Without `project`, the credentials' project is used. `locations` are zones or regions, the first
    one preferred. With `delete_when_idle` a timer in the cluster deletes it, if it has a role.
    """

    name: ClusterName
    project: Project | None = None
    locations: Annotated[
        tuple[Location, ...],
        BeforeValidator(make_tuple),
        Field(validation_alias=AliasChoices("location", "locations")),
    ]
    labels: Annotated[Mapping[CloudLabelKey, CloudLabelValue], Field(max_length=MOST_LABELS)] = (
        Field(default_factory=dict)
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
        """Return the specification with GPU nodes limited to so many seconds, if not less."""
        limit = timedelta(seconds=round(seconds))
        kept = self.max_node_time is not None and self.max_node_time <= limit
        return self if kept else replace(self, max_node_time=limit)

    @property
    def needs_host_ipc(self) -> bool:
        """Return True if agents must share their node's IPC, as clients of NVIDIA's MPS do.

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
            whose = "Google" if taken[0].startswith(GOOGLE_PREFIX) else "deployer"
            said = f"'{taken[0]}' is reserved by {whose}"
            refuse(said, "choose another")
        return value


def cluster_labels(spec: ClusterSpec, owner: Owner) -> dict[str, str]:
    """Return the labels of all resources made for a cluster: the user's and ours."""
    return {**spec.labels, **own_labels(spec.name, owner)}


def own_labels(cluster: str, owner: Owner) -> dict[str, str]:
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
    """Return the YAML file: a path relative to a folder, or one of the package by its name.

    Raises ConfigError if it does not exist.
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
    """Keep only one of two conflicting location keys; a rule reports the conflict."""
    both = isinstance(value, dict) and {"location", "locations"} <= value.keys()
    return {key: one for key, one in value.items() if key != "locations"} if both else value
