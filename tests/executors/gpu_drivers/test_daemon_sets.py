"""The manifests of infra/drivers: labels by which they are found, and what the plugin is given."""

from __future__ import annotations

import pytest

from deployer.executors.kubernetes.gpu_drivers import (
    DEVICE_PLUGIN,
    DISTRIBUTIONS,
    load_manifest,
)
from deployer.executors.kubernetes.gpu_nodes import DRIVER_COMPONENT, PLUGIN_COMPONENT
from deployer.kube.objects import build_labels

COMPONENTS = {**dict.fromkeys(DISTRIBUTIONS, DRIVER_COMPONENT), DEVICE_PLUGIN: PLUGIN_COMPONENT}


@pytest.mark.parametrize("kind", COMPONENTS)
def test_daemon_sets_carry_our_labels(kind: str) -> None:
    manifest = load_manifest(kind)
    metadata, spec = manifest["metadata"], manifest["spec"]
    assert metadata["labels"] == build_labels(COMPONENTS[kind])
    assert metadata["namespace"] == "kube-system"
    of_pod = spec["template"]["metadata"]["labels"]
    assert metadata["labels"].items() <= of_pod.items()
    assert spec["selector"]["matchLabels"].items() <= of_pod.items()
    assert spec["template"]["spec"]["priorityClassName"] == "system-node-critical"


def test_drivers_stay_away_from_nodes_that_gke_manages_and_from_each_other() -> None:
    selectors = []
    for kind in DISTRIBUTIONS:
        pod = load_manifest(kind)["spec"]["template"]["spec"]
        required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        [term] = required["nodeSelectorTerms"]
        wanted = {
            one["key"]: (one["operator"], one.get("values")) for one in term["matchExpressions"]
        }
        confidential = "cloud.google.com/gke-confidential-nodes-instance-type"
        assert (wanted.pop(confidential, None) is not None) == (kind == "cos")
        assert wanted == {
            "cloud.google.com/gke-accelerator": ("Exists", None),
            "cloud.google.com/gke-gpu-driver-version": ("DoesNotExist", None),
            "cloud.google.com/gke-os-distribution": ("In", [kind]),
        }
        selectors.append(load_manifest(kind)["spec"]["selector"]["matchLabels"])
    assert selectors[0] != selectors[1]


def test_an_installation_that_fails_is_seen_and_none_goes_over_a_loaded_driver() -> None:
    pod = load_manifest("cos")["spec"]["template"]["spec"]
    shell, flag, script = pod["initContainers"][0]["command"]
    assert (shell, flag) == ("bash", "-c")
    assert script.index("lsmod") < script.index("/cos-gpu-installer install || exit 1")


def test_device_plugin_is_restricted() -> None:
    pod = load_manifest(DEVICE_PLUGIN)["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["args"] == ["--mig-strategy=none"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert pod["affinity"]


def test_device_plugin_on_chosen_nodes() -> None:
    pod = load_manifest(DEVICE_PLUGIN, {"gpu": "yes"})["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"gpu": "yes"}
    assert "affinity" not in pod
