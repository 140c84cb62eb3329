"""The parts of a cluster's specification: the system pool and the choices of GPUs; pure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from deployer.config.field_types import STRICT, make_tuple, matching

# GKE's own rules: https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/
# projects.locations.clusters#Cluster (name), Compute Engine's for the others.
CLUSTER_NAME = r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$"
PROJECT = r"^([a-z0-9.-]+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]$"
# As an AI zone: us-central1-ai1a.
LOCATION = r"^[a-z]+-[a-z]+[0-9]+(-(ai[0-9]+)?[a-z])?$"
ZONE = r"^[a-z]+-[a-z]+[0-9]+-(ai[0-9]+)?[a-z]$"
# Stricter than Google, which takes any script: they become Kubernetes labels of the nodes too.
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


# GKE's own default is pd-standard where the API is used, which G2, A2 and A3 machines do not take.
DISK_TYPE = "pd-balanced"
HYPERDISK = "hyperdisk-balanced"
# These take no persistent disk. https://cloud.google.com/compute/docs/disks/hyperdisks
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
LabelKey = Annotated[str, matching(LABEL_KEY, f"{LABEL_HINT}, a letter first")]
LabelValue = Annotated[str, matching(LABEL_VALUE, LABEL_HINT)]
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
Nodes = Annotated[int, Field(ge=1, le=1000)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SystemPool:
    """The nodes without a GPU that always run: Kubernetes' own pods, and the backend if it is ours.

    `nodes` is their number in each zone of the cluster: of one in a zone, of three in a region.
    """

    machine_type: MachineType = "e2-standard-2"
    nodes: Nodes = 1
    disk_gb: DiskSize = 50


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Sharing:
    """Several pods on one GPU, `clients` of them at most; their memory is not kept apart."""

    strategy: Literal["time-sharing", "mps"]
    # GKE allows 48: https://cloud.google.com/kubernetes-engine/docs/concepts/timesharing-gpus
    clients: Annotated[int, Field(ge=2, le=48)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class GpuChoice:
    """GPU nodes of one kind, which become a pool of 0 to `max_nodes`; each has `count` GPUs.

    They are bought on demand, or as Spot, by flex-start (Google queues the wish, for seven days at
    most), or from a reservation.
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
    max_nodes: Nodes = 4
    zones: Annotated[tuple[Zone, ...], BeforeValidator(make_tuple)] = ()

    def zones_in(self, location: str) -> tuple[str, ...]:
        """Return the choice's zones in the region of a location; none means the cluster's own."""
        return tuple(zone for zone in self.zones if region_of(zone) == region_of(location))


def region_of(location: str) -> str:
    """Return the region of a zone, or the region itself."""
    return "-".join(location.split("-")[:2])


def is_zone(location: str) -> bool:
    """Tell a zone from a region."""
    return location != region_of(location)


def find_disk_type(machine_type: str) -> str:
    """Return the kind of disk that the nodes of a machine type start from."""
    return HYPERDISK if machine_type.startswith(HYPERDISK_MACHINES) else DISK_TYPE
