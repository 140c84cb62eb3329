"""The volumes of an agent's pod: ours, the user's, and what a user's own template lacks; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from deployer.config.sections.kubernetes import ClusterConfig
from deployer.config.sections.kubernetes_parts import Volume
from deployer.executors.kubernetes.manifests.fields import Manifest, merged, without_none
from deployer.executors.kubernetes.manifests.task import AgentTask

SUPERVISOR = "deployer-supervisor"
CODE = "deployer-code"
KEY = "deployer-key"
KEY_FILE = "key"
SHARED_MEMORY = "shared-memory"


def graft(pod: Manifest, container: Manifest, own_pod: Manifest, cluster: ClusterConfig) -> None:
    """Add our volumes, variables and last words, where a user's template does not have them."""
    own = own_pod["containers"][0]
    container["env"] = merged(own["env"], container.get("env") or ())
    container.setdefault("terminationMessagePolicy", own["terminationMessagePolicy"])
    mounts = container.get("volumeMounts") or ()
    taken = {mount[key] for mount in mounts for key in ("name", "mountPath")}
    volumes = {volume["name"]: volume for volume in own_pod["volumes"]}
    for mount in own["volumeMounts"]:
        optional = mount["name"] == SHARED_MEMORY and cluster.shared_memory is None
        if not {mount["name"], mount["mountPath"]} & taken and not optional:
            _mount(pod, container, volumes[mount["name"]], mount)


def set_volumes(
    pod: Manifest, container: Manifest, task: AgentTask, cluster: ClusterConfig
) -> None:
    """Name the ConfigMaps of supervisor and code and the Secret, and mount the user's volumes."""
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    volumes[SUPERVISOR]["configMap"] = {"name": task.supervisor}
    volumes[KEY]["secret"] |= {
        "secretName": task.secret_name,
        "items": _list_keys(task),
    }
    if task.code:
        _set_code(volumes[CODE], task.code)
    else:
        _unmount(pod, container, lambda mount: mount["name"] == CODE)
    if cluster.shared_memory is not None and SHARED_MEMORY in volumes:
        volumes[SHARED_MEMORY]["emptyDir"]["sizeLimit"] = cluster.shared_memory
    for volume in cluster.volumes:
        mount: Manifest = {"name": volume.name, "mountPath": volume.path}
        if volume.read_only:
            mount["readOnly"] = True
        if volume.sub_path:
            mount["subPath"] = volume.sub_path
        _mount(pod, container, _build_volume(volume, task.claims), mount)


def _list_keys(task: AgentTask) -> list[Manifest]:
    """Return the files of the agents' keys: of several, each has its number in the name."""
    if not task.is_pack:
        return [{"key": task.secret_key, "path": KEY_FILE}]
    keys = enumerate((key for _, key in task.agents), 1)
    return [{"key": key, "path": f"{KEY_FILE}-{number}"} for number, key in keys]


def _set_code(volume: Manifest, names: Sequence[str]) -> None:
    """Name the ConfigMap of the code, or all that have a part of it: their files lie together."""
    if len(names) == 1:
        volume["configMap"] = {"name": names[0]}
        return
    volume.pop("configMap", None)
    volume["projected"] = {"sources": [{"configMap": {"name": name}} for name in names]}


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


def _mount(pod: Manifest, container: Manifest, volume: Manifest, mount: Manifest) -> None:
    """Add a volume and its mount, in the place of what has the same name or path."""
    _unmount(
        pod,
        container,
        lambda other: other["name"] == mount["name"] or other["mountPath"] == mount["mountPath"],
    )
    pod["volumes"] = merged(pod.get("volumes") or (), [volume])
    container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def _unmount(pod: Manifest, container: Manifest, chosen: Callable[[Manifest], bool]) -> None:
    """Take mounts from a container, and the volumes that nobody mounts any more."""
    gone = {mount["name"] for mount in container.get("volumeMounts") or () if chosen(mount)}
    container["volumeMounts"] = [m for m in container.get("volumeMounts") or () if not chosen(m)]
    containers = (*pod["containers"], *(pod.get("initContainers") or ()))
    mounted = {m["name"] for one in containers for m in (one.get("volumeMounts") or ())}
    pod["volumes"] = [v for v in pod.get("volumes") or () if v["name"] not in gone - mounted]
