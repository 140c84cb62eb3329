"""The volumes of an agent's pod: those of its template, ours and the user's; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from deployer.config.sections.kubernetes import ClusterConfig
from deployer.config.sections.kubernetes_parts import Volume
from deployer.executors.kubernetes.manifests.fields import Manifest, without_none
from deployer.executors.kubernetes.manifests.overlay import overlay
from deployer.executors.kubernetes.manifests.task import AgentTask

SUPERVISOR = "deployer-supervisor"
CODE = "deployer-code"
KEY = "deployer-key"
KEY_FILE = "key"
TOKEN_FILE = "token"  # in its place, where agents log in by their service account
SHARED_MEMORY = "shared-memory"


def build_volumes(
    pod: Manifest, container: Manifest, own_pod: Manifest, task: AgentTask, cluster: ClusterConfig
) -> tuple[list[Manifest], list[Manifest]]:
    """Return the volumes of an agent's pod, and what its container mounts.

    The template's mounts take the place of ours of the same name or path, and deployer.yaml's
    that of both. A volume that is mounted no more is left out.
    """
    template = container.get("volumeMounts") or []
    users = [_build_mount(volume) for volume in cluster.volumes]
    added = [
        mount
        for mount in own_pod["containers"][0]["volumeMounts"]
        if not _meets(mount, template)
        and (mount["name"] != SHARED_MEMORY or cluster.shared_memory is not None)
    ]
    kept = [
        mount
        for mount in (*template, *added)
        if not _meets(mount, users) and (mount["name"] != CODE or task.code)
    ]
    others = [
        mount
        for one in (*pod["containers"], *(pod.get("initContainers") or ()))
        if one is not container
        for mount in one.get("volumeMounts") or ()
    ]
    gone = _list_names([*template, *added]) - _list_names([*kept, *others])
    ours = [volume for volume in own_pod["volumes"] if volume["name"] in _list_names(added)]
    volumes = [
        _fill(volume, task, cluster)
        for volume in overlay(pod.get("volumes"), ours, "volumes")
        if volume["name"] not in gone
    ]
    added_by_user = [_build_volume(volume, task.claims) for volume in cluster.volumes]
    return overlay(volumes, added_by_user, "volumes"), [*kept, *users]


def _meets(mount: Manifest, others: Sequence[Manifest]) -> bool:
    return any(mount[key] == other[key] for other in others for key in ("name", "mountPath"))


def _list_names(items: Iterable[Manifest]) -> set[str]:
    return {item["name"] for item in items}


def _fill(volume: Manifest, task: AgentTask, cluster: ClusterConfig) -> Manifest:
    """Return a volume as it is, or filled if it is one of ours.

    Of several agents' keys each file has its number in the name; of several ConfigMaps of the code
    the files lie together.
    """
    name = volume["name"]
    if name == SUPERVISOR:
        return volume | {"configMap": {"name": task.supervisor}}
    if name == CODE and len(task.code) == 1:
        return volume | {"configMap": {"name": task.code[0]}}
    if name == CODE and task.code:
        maps = [{"configMap": {"name": one}} for one in task.code]
        return {"name": name, "projected": {"sources": maps}}
    if name == KEY and not task.secret_name:
        token = {"path": TOKEN_FILE, "audience": cluster.identity_audience}
        return {"name": name, "projected": {"sources": [{"serviceAccountToken": token}]}}
    if name == KEY:
        keys = [(task.secret_key, KEY_FILE)]
        if task.is_pack:
            keys = [(key, f"{KEY_FILE}-{i}") for i, (_, key) in enumerate(task.agents, 1)]
        items = [{"key": key, "path": path} for key, path in keys]
        secret = {"secretName": task.secret_name, "items": items}
        return volume | {"secret": volume.get("secret", {}) | secret}
    if name == SHARED_MEMORY and "emptyDir" in volume:
        return dict(overlay(volume, {"emptyDir": {"sizeLimit": cluster.shared_memory}}))
    return volume


def _build_mount(volume: Volume) -> Manifest:
    mount = {"name": volume.name, "mountPath": volume.path}
    return mount | without_none(
        {"readOnly": volume.read_only or None, "subPath": volume.sub_path or None}
    )


def _build_volume(volume: Volume, claims: Mapping[str, str]) -> Manifest:
    source: Manifest
    if claim := volume.pvc or claims.get(volume.name):
        source = {"persistentVolumeClaim": {"claimName": claim}}
    elif volume.nfs:
        source = {"nfs": {"server": volume.nfs.server, "path": volume.nfs.path}}
    elif volume.config_map:
        source = {"configMap": {"name": volume.config_map}}
    elif volume.secret:
        source = {"secret": {"secretName": volume.secret}}
    else:
        assert volume.empty_dir is not None
        medium = "Memory" if volume.empty_dir.memory else None
        source = {"emptyDir": without_none({"medium": medium, "sizeLimit": volume.empty_dir.size})}
    return {"name": volume.name, **source}
