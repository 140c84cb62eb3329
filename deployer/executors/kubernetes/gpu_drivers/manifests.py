"""The manifests of infra/drivers, as they are sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml

from deployer.config.paths import find_packaged
from deployer.executors.kubernetes.gpu_drivers.labels import DISTRIBUTION_LABEL
from deployer.kube.kinds import Kind, Manifest

DAEMON_SET = Kind("apps/v1", "DaemonSet", "daemonsets")
SYSTEM = "kube-system"
# What can be installed: the driver by GKE's name for a node's distribution, or the plugin alone.
DISTRIBUTIONS = ("cos", "ubuntu")
DEVICE_PLUGIN = "device-plugin"
MIG_STRATEGIES = ("none", "single", "mixed")


@dataclass(frozen=True)
class PluginChoice:
    """How the device plugin is installed.

    `mig_strategy` is NVIDIA's: none, single (a slice is a nvidia.com/gpu) or mixed (each size is a
    resource). `node_selector` takes the place of the labels by which nodes say that they have a
    GPU; `runtime_class` is for nodes whose usual runtime is not NVIDIA's.
    """

    mig_strategy: str = "none"
    node_selector: Mapping[str, str] = field(default_factory=dict)
    runtime_class: str = ""


def load_manifest(kind: str, plugin: PluginChoice | None = None) -> Manifest:
    """Return the DaemonSet `cos`, `ubuntu` or `device-plugin`."""
    text = (find_packaged("infra/drivers") / f"{kind}.yaml").read_text(encoding="utf-8")
    manifest: Manifest = yaml.safe_load(text)
    return _set_plugin(manifest, plugin or PluginChoice()) if kind == DEVICE_PLUGIN else manifest


def distribution_of(labels: Mapping[str, str]) -> str | None:
    """Return which of our DaemonSets fits a GKE node; None if none does."""
    found = labels.get(DISTRIBUTION_LABEL)
    return found if found in DISTRIBUTIONS else None


def _set_plugin(manifest: Manifest, choice: PluginChoice) -> Manifest:
    pod = manifest["spec"]["template"]["spec"]
    container = pod["containers"][0]
    container["args"] = [f"--mig-strategy={choice.mig_strategy}"]
    if choice.mig_strategy != "none":
        # As NVIDIA's chart: to see all MIG devices it needs the right to administer the system.
        container["env"].append({"name": "NVIDIA_MIG_MONITOR_DEVICES", "value": "all"})
        container["securityContext"].pop("allowPrivilegeEscalation")
        container["securityContext"]["capabilities"]["add"] = ["SYS_ADMIN"]
    if choice.node_selector:
        pod["nodeSelector"] = dict(choice.node_selector)
        del pod["affinity"]
    if choice.runtime_class:
        pod["runtimeClassName"] = choice.runtime_class
    return manifest
