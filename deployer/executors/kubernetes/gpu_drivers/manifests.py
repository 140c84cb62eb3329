"""The manifests of infra/drivers, as they are sent."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from deployer.config.paths import find_packaged
from deployer.executors.kubernetes.gpu_drivers.labels import DISTRIBUTION_LABEL
from deployer.kube.kinds import Manifest

SYSTEM = "kube-system"
# What can be installed: the driver by GKE's name for a node's distribution, or the plugin alone.
DISTRIBUTIONS = ("cos", "ubuntu")
DEVICE_PLUGIN = "device-plugin"


def load_manifest(kind: str, plugin_selector: Mapping[str, str] | None = None) -> Manifest:
    """Return the DaemonSet `cos`, `ubuntu` or `device-plugin`.

    `plugin_selector` chooses the device plugin's nodes, in the place of the labels by which nodes
    say that they have a GPU.
    """
    text = (find_packaged("infra/drivers") / f"{kind}.yaml").read_text(encoding="utf-8")
    manifest: Manifest = yaml.safe_load(text)
    if kind == DEVICE_PLUGIN and plugin_selector:
        pod = manifest["spec"]["template"]["spec"]
        pod["nodeSelector"] = dict(plugin_selector)
        del pod["affinity"]
    return manifest


def distribution_of(labels: Mapping[str, str]) -> str | None:
    """Return which of our DaemonSets fits a GKE node; None if none does."""
    found = labels.get(DISTRIBUTION_LABEL)
    return found if found in DISTRIBUTIONS else None
