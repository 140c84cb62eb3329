"""`deployer drivers`: the GPU driver and the device plugin on a cluster's nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from deployer.cli.cluster.target_cluster import open_client
from deployer.cli.output.live import showing_busy
from deployer.cli.output.render import Aside, Table, say
from deployer.cli.shell.call import FORMAT, SERVER, App, Call
from deployer.errors import ConfigError

if TYPE_CHECKING:
    from deployer.executors.kubernetes.gpu_drivers.nodes import NodeGpus

app = App("GPU drivers of a cluster's nodes.")

COLUMNS = ("NODE", "PRODUCT", "RESOURCE", "ALLOCATABLE", "IN-USE", "KIND")
WAIT_SECONDS = 600.0  # until GPUs are counted
DistributionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--distribution",
        metavar="NAME",
        help="cos or ubuntu: install in advance for a GKE pool without nodes.",
    ),
]
DevicePluginOption = Annotated[
    bool,
    typer.Option("--device-plugin", help="Install NVIDIA's device plugin, for on-prem machines."),
]
NodeSelectorOption = Annotated[
    list[str] | None,
    typer.Option(
        "--node-selector",
        metavar="NAME=VALUE",
        help="NAME=VALUE: install the device plugin on these nodes.",
    ),
]


@app.command(without=SERVER)
def status(call: Call) -> None:
    """Show each node with GPUs: product, GPUs available and in use; a label if it counts none."""
    from deployer.executors.kubernetes.gpu_drivers.nodes import (
        describe_dra,
        list_served,
        survey_nodes,
    )

    kube = open_client(call.read())
    survey, served = survey_nodes(kube), describe_dra(list_served(kube))
    notes = [f"node {node.name} {node.obstacle}" for node in survey.gpus if node.obstacle]
    if not survey.complete:
        said = "pods of other namespaces may not be listed"
        notes.append(f"{said}: in use counts {kube.namespace} alone")
    if served or not survey.gpus:
        notes.append(served or "no node has a GPU now")
    rows = [row for node in survey.gpus for row in _build_rows(node)]
    data = {"nodes": [_describe(node) for node in survey.gpus], "notes": notes}
    call.emit(data, Table(COLUMNS, rows), *map(Aside, notes))


@app.command(without=(*SERVER, *FORMAT))
def install(
    call: Call,
    distribution: DistributionOption = None,
    device_plugin: DevicePluginOption = False,
    node_selector: NodeSelectorOption = None,
) -> None:
    """Install missing drivers, if you may, and wait up to ten minutes for the GPUs to appear."""
    from deployer.executors.kubernetes.gpu_drivers.installation import (
        DEVICE_PLUGIN,
        check_device_plugin,
        ensure_drivers,
    )

    kinds = _check_kinds(distribution or [])
    selector = _parse_selector(node_selector or [])
    kube = open_client(call.read())
    if device_plugin:
        check_device_plugin(kube)
        kinds = (*kinds, DEVICE_PLUGIN)
    with showing_busy():
        ensure_drivers(kube, kinds, selector, wait_seconds=WAIT_SECONDS)


@app.command(without=(*SERVER, *FORMAT))
def remove(call: Call) -> None:
    """Delete deployer's DaemonSets; a loaded driver stays until its node is deleted."""
    from deployer.executors.kubernetes.gpu_drivers.installation import remove_drivers

    kube = open_client(call.read())
    if not remove_drivers(kube):
        say("found nothing that deployer installed")


def _build_rows(node: NodeGpus) -> list[tuple[object, ...]]:
    if not node.resources:
        return [(node.name, node.product, "none yet", None, None, f"label {node.label}")]
    return [
        (node.name, node.product, one.name, one.allocatable, one.in_use, one.kind)
        for one in node.resources
    ]


def _describe(node: NodeGpus) -> dict[str, Any]:
    names = ("name", "product", "label", "obstacle", "resources")
    return {name: getattr(node, name) for name in names}


def _check_kinds(kinds: list[str]) -> tuple[str, ...]:
    from deployer.executors.kubernetes.gpu_drivers.installation import DISTRIBUTIONS

    wrong = [kind for kind in kinds if kind not in DISTRIBUTIONS]
    if wrong:
        said = f"'{wrong[0]}' is not a distribution"
        raise ConfigError("--distribution", said, f"one of: {', '.join(DISTRIBUTIONS)}")
    return tuple(kinds)


def _parse_selector(pairs: list[str]) -> dict[str, str]:
    parts = [pair.partition("=") for pair in pairs]
    if any(not name or not equals for name, equals, _ in parts):
        raise ConfigError("--node-selector", "is not NAME=VALUE", "--node-selector gpu=yes")
    return {name: value for name, _, value in parts}
