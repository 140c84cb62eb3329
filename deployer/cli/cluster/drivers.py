"""`deployer drivers`: the GPU driver and the device plugin on a cluster's nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from deployer.cli.cluster.target_cluster import open_client
from deployer.cli.output.live import showing_busy
from deployer.cli.output.render import Aside, say
from deployer.cli.output.table import Table
from deployer.cli.shell.call import FORMAT, SERVER, App, Call
from deployer.errors import ConfigError, KubeError

if TYPE_CHECKING:
    from deployer.executors.kubernetes.gpu_drivers.nodes import GpuResource, NodeGpus
    from deployer.executors.kubernetes.gpu_drivers.survey import Survey

app = App("GPU drivers of a cluster's nodes.")

COLUMNS = ("NODE", "PRODUCT", "DRIVER", "PLUGIN", "RESOURCE", "ALLOCATABLE", "IN-USE", "KIND")
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
    """Show each node with GPUs: product, driver, plugin, GPUs available and in use."""
    from deployer.executors.kubernetes.gpu_drivers.survey import survey_cluster

    survey = survey_cluster(open_client(call.read()))
    rows = [
        _build_row(node, resource)
        for node in survey.nodes
        for resource in (node.resources or (None,))
    ]
    notes = map(Aside, (*_list_troubles(survey), *survey.limits, *survey.quotas))
    call.emit(_describe(survey), Table(COLUMNS, rows), *notes)


@app.command(without=(*SERVER, *FORMAT))
def install(
    call: Call,
    distribution: DistributionOption = None,
    device_plugin: DevicePluginOption = False,
    node_selector: NodeSelectorOption = None,
) -> None:
    """Install missing drivers, if you may, and wait up to ten minutes for the GPUs to appear."""
    from deployer.executors.kubernetes.gpu_drivers.installation import (
        ASK,
        check_device_plugin,
        ensure_drivers,
        install_drivers,
    )
    from deployer.executors.kubernetes.gpu_drivers.manifests import DEVICE_PLUGIN

    kinds = _check_kinds(distribution or [])
    selector = _parse_selector(node_selector or [])
    kube = open_client(call.read())
    if device_plugin:
        check_device_plugin(kube)
        kinds = (*kinds, DEVICE_PLUGIN)
    with showing_busy():
        if kinds:
            install_drivers(kube, kinds, selector)
        report = ensure_drivers(kube, wait_seconds=WAIT_SECONDS)
    if not any(node.allocatable for node in report.nodes) and not (kinds or report.served):
        ahead = "for a GKE pool that has no nodes yet: deployer drivers install --distribution cos"
        said = "no GPU is known here"
        raise KubeError(said, ASK if report.refused else ahead)


@app.command(without=(*SERVER, *FORMAT))
def remove(call: Call) -> None:
    """Delete deployer's DaemonSets; a loaded driver stays until its node is deleted."""
    from deployer.executors.kubernetes.gpu_drivers.installation import remove_drivers

    kube = open_client(call.read())
    if not remove_drivers(kube):
        say("found nothing that deployer installed")


def _build_row(node: NodeGpus, resource: GpuResource | None) -> tuple[object, ...]:
    if resource is None:
        counts: tuple[object, ...] = ("none yet", None, None, None)
    else:
        counts = (resource.name, resource.allocatable, resource.in_use, resource.kind)
    return (node.name, node.product, _describe_driver(node), node.plugin, *counts)


def _describe_driver(node: NodeGpus) -> str:
    if node.driver == "installed":
        return node.driver_version or node.driver
    version = f" ({node.driver_version})" if node.driver_version else ""
    return f"{node.driver}{version}"


def _list_troubles(survey: Survey) -> list[str]:
    from deployer.executors.kubernetes.gpu_drivers.shortage import describe_dra, describe_gap

    obstacles = [f"node {node.name} {node.obstacle}" for node in survey.nodes if node.obstacle]
    if served := describe_dra(survey.served):
        return [served, *obstacles]
    gaps = [describe_gap(node) for node in survey.nodes if survey.complete]
    none = ["no node has a GPU now"] if survey.complete and not survey.nodes else []
    return [*filter(None, gaps), *obstacles, *none]


def _describe(survey: Survey) -> dict[str, Any]:
    nodes = [
        {name: value for name, value in vars(node).items() if name != "labels"}
        for node in survey.nodes
    ]
    return {
        "nodes": nodes,
        "complete": survey.complete,
        "limits": survey.limits,
        "quotas": survey.quotas,
    }


def _check_kinds(kinds: list[str]) -> tuple[str, ...]:
    from deployer.executors.kubernetes.gpu_drivers.manifests import DISTRIBUTIONS

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
