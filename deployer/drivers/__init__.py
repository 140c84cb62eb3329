"""GPU drivers of a cluster's nodes: what is there, what is missing, and its installation."""

from deployer.drivers.installing import (
    ASK,
    DriverReport,
    check_device_plugin,
    ensure_drivers,
    install_drivers,
    may_install,
    remove_drivers,
)
from deployer.drivers.manifests import DEVICE_PLUGIN, DISTRIBUTIONS, MIG_STRATEGIES, PluginChoice
from deployer.drivers.nodes import GpuResource, NodeGpus, summarise_nodes
from deployer.drivers.shortage import explain_no_gpu
from deployer.drivers.smoke import DEFAULT_IMAGE, Smoke, SmokePod, any_node, run_smoke
from deployer.drivers.survey import Survey, survey_cluster, survey_nodes

__all__ = [
    "ASK",
    "DEFAULT_IMAGE",
    "DEVICE_PLUGIN",
    "DISTRIBUTIONS",
    "MIG_STRATEGIES",
    "DriverReport",
    "GpuResource",
    "NodeGpus",
    "PluginChoice",
    "Smoke",
    "SmokePod",
    "Survey",
    "any_node",
    "check_device_plugin",
    "ensure_drivers",
    "explain_no_gpu",
    "install_drivers",
    "may_install",
    "remove_drivers",
    "run_smoke",
    "summarise_nodes",
    "survey_cluster",
    "survey_nodes",
]
