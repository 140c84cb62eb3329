"""Every object that the tool can create, against Pod Security's restricted level and plain rights.

The YAML of k8s/ and infra/ is what objects are made from, the goldens are what is made for each
kind of settings. What is privileged stands in PRIVILEGED, with its reason.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.golden_files import FOLDER

ROOT = Path(__file__).parents[2]
Manifest = dict[str, Any]
# By file: which rules its pods break, and why that has to be.
PRIVILEGED: dict[str, tuple[set[str], str]] = {
    "infra/drivers/cos.yaml": (
        {
            *("privileged", "allowPrivilegeEscalation", "capabilities", "runAsNonRoot"),
            *("seccompProfile", "hostNetwork", "hostPID", "volume hostPath"),
        },
        "installs a kernel module on its node, as Google's installer does",
    ),
    "infra/drivers/ubuntu.yaml": (
        {
            *("privileged", "allowPrivilegeEscalation", "capabilities", "runAsNonRoot"),
            *("seccompProfile", "volume hostPath"),
        },
        "installs a kernel module on its node, as Google's installer does",
    ),
    "infra/drivers/device-plugin.yaml": (
        {"runAsNonRoot", "volume hostPath"},
        "registers GPUs with the kubelet, through root's socket on the node",
    ),
    "infra/timer/timer.yaml": (
        {"automountServiceAccountToken"},
        "asks the API server whether the cluster is idle",
    ),
    "tests/goldens/data_agents.yaml": (
        {"volume nfs"},
        "`nfs: {inline: true}`, for who may make no PersistentVolume",
    ),
}
# A user's own template stays as it is, whatever it lacks.
OWN_TEMPLATES = (
    *("list_with_sidecar", "own_pod", "own_volumes", "shared_cluster", "shared_cluster_changed"),
)
VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"),
    *("persistentVolumeClaim", "projected", "secret"),
}
# Rights by which one gets others, or into others' pods.
WIDENING = {"*", "bind", "escalate", "impersonate", "nodes/proxy", "pods/exec", "pods/attach"}
# The only rights in all namespaces: whether anything still runs, for the timer inside a cluster,
# which also lets the disk with results outlive it.
EVERYWHERE = {
    ("list", "persistentvolumes"),
    ("patch", "persistentvolumes"),
    ("list", "pods"),
    ("list", "persistentvolumeclaims"),
    ("list", "services"),
    ("list", "jobs"),
}
# What a person who looks after nodes is given, and no pod: volumes of `nfs:`, a new namespace.
BY_HAND = {
    "administrator": EVERYWHERE
    | {("list", "nodes"), ("get", "namespaces"), ("create", "namespaces")}
    | {(verb, "persistentvolumes") for verb in ("create", "get", "list", "patch", "delete")}
    | {("get", "workloadpriorityclasses"), ("list", "workloadpriorityclasses")}
}


def list_files() -> list[Path]:
    folders = (ROOT / "k8s", ROOT / "infra", FOLDER)
    files = [file for folder in folders for file in sorted(folder.rglob("*.yaml"))]
    return [file for file in files if any(is_object(one) for one in read(file))]


def list_ours() -> list[Path]:
    return [file for file in list_files() if file.stem not in OWN_TEMPLATES]


@functools.cache
def read(file: Path) -> list[Any]:
    return list(yaml.load_all(file.read_text(), yaml.CSafeLoader))


def is_object(value: Any) -> bool:
    return isinstance(value, dict) and "apiVersion" in value and "kind" in value


def list_objects(file: Path) -> Iterator[Manifest]:
    for one in read(file):
        if is_object(one):
            yield from one["items"] if one["kind"].endswith("List") else (one,)


def find_pods(value: Any) -> Iterator[Manifest]:
    """Yield the pod specifications anywhere inside an object."""
    if isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield value
        for inside in value.values():
            yield from find_pods(inside)


def list_privileges(spec: Manifest) -> Iterator[str]:
    """Yield the rules of the restricted level that a pod breaks."""
    pod = spec.get("securityContext") or {}
    for shared in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(shared):
            yield shared
    for volume in spec.get("volumes") or ():
        if not VOLUMES & volume.keys():
            yield f"volume {', '.join(sorted(volume.keys() - {'name'}))}"
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        own = container.get("securityContext") or {}
        if own.get("privileged"):
            yield "privileged"
        if own.get("allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation"
        capabilities = own.get("capabilities") or {}
        if capabilities.get("drop") != ["ALL"] or set(capabilities.get("add") or ()):
            yield "capabilities"
        if not own.get("runAsNonRoot", pod.get("runAsNonRoot")):
            yield "runAsNonRoot"
        if 0 in (own.get("runAsUser"), pod.get("runAsUser")):
            yield "runAsUser"
        profile = own.get("seccompProfile") or pod.get("seccompProfile") or {}
        if profile.get("type") not in ("RuntimeDefault", "Localhost"):
            yield "seccompProfile"
        if any(port.get("hostPort") for port in container.get("ports") or ()):
            yield "hostPort"
    if spec.get("automountServiceAccountToken") is not False:
        yield "automountServiceAccountToken"


def list_rights(one: Manifest) -> Iterator[tuple[str, str]]:
    """Yield verb and resource of each right that a role gives."""
    for rule in one.get("rules") or ():
        for verb in rule["verbs"]:
            yield from ((verb, resource) for resource in rule["resources"])


@pytest.mark.parametrize("file", list_ours(), ids=lambda file: str(file.relative_to(ROOT)))
def test_pods_have_no_privilege_but_those_listed(file: Path) -> None:
    pods = [spec for one in list_objects(file) for spec in find_pods(one)]
    broken = {rule for spec in pods for rule in list_privileges(spec)}
    allowed, _ = PRIVILEGED.get(str(file.relative_to(ROOT)), (set(), ""))
    assert broken == allowed


@pytest.mark.parametrize("file", list_files(), ids=lambda file: str(file.relative_to(ROOT)))
def test_roles_give_no_way_to_more(file: Path) -> None:
    for one in list_objects(file):
        rights = set(list_rights(one))
        assert not WIDENING & {part for right in rights for part in right}
        if one["kind"] == "ClusterRole":
            assert rights <= BY_HAND.get(file.stem, EVERYWHERE)


def test_every_exception_is_still_needed() -> None:
    assert {str(file.relative_to(ROOT)) for file in list_files()} >= PRIVILEGED.keys()
