"""k8s/data-loader.yaml as the manifests of one loader; pure.

`OWNED` are the fields that Python sets; `# set by deployer` marks the same ones in the file.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from deployer.config.sections.kubernetes import ClusterConfig
from deployer.errors import ConfigError
from deployer.executors.kubernetes.manifests.fields import (
    Manifest,
    encode,
    merged,
    set_namespace,
    update,
    without_none,
)
from deployer.executors.kubernetes.manifests.pod import (
    POD,
    list_common_fields,
    set_identity,
    set_image,
    set_queue,
)
from deployer.executors.kubernetes.manifests.templates import find_folder, load_documents
from deployer.kube.names import (
    LOADER,
    LOADER_LABEL,
    MADE_BY_ANNOTATION,
    build_labels,
)

PROGRAM_PATH = "/deployer/loader/loader.zip"
PROGRAM_VOLUME = "loader"
VOLUME = "volume"
ROOT = "/volume"
ROOT_VARIABLE = "LOADER_ROOT"
TOKEN_HASH_VARIABLE = "LOADER_TOKEN_HASH"
PORT = 8099
LEASE_SECONDS = 120  # how long a loader outlives whoever made it

_MAIN = f"{POD}.containers[loader]"
_COMMON = ("metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations")
OWNED: Mapping[str, tuple[str, ...]] = {
    "Job": (
        *_COMMON,
        "spec.activeDeadlineSeconds",
        "spec.template.metadata.annotations",
        *list_common_fields("loader"),
        f"{_MAIN}.env[{ROOT_VARIABLE}].value",
        f"{_MAIN}.env[{TOKEN_HASH_VARIABLE}].value",
        f"{POD}.volumes",
        f"{POD}.volumes[{PROGRAM_VOLUME}].configMap.name",
        f"{POD}.volumes[{VOLUME}].persistentVolumeClaim.claimName",
    ),
    "ConfigMap": (*_COMMON, "binaryData.loader.zip"),
}


@dataclass(frozen=True)
class LoaderTask:
    """One loader: `source` is its volume as a pod names it, `folder` a part of the volume.

    `mark` tells loaders apart, `made_by` is the process that needs it.
    """

    mark: str
    made_by: str
    token_hash: str
    source: Manifest
    folder: str = ""

    @property
    def name(self) -> str:
        """Return the name of the Job and of the ConfigMap."""
        return f"{LOADER}-{self.mark}"


def load_loader_templates() -> tuple[Manifest, ...]:
    """Read the documents of k8s/data-loader.yaml: the Job, the ConfigMap of its program."""
    return tuple(load_documents(find_folder() / "data-loader.yaml"))


def build_loader(
    templates: tuple[Manifest, ...], task: LoaderTask, cluster: ClusterConfig, program: bytes
) -> tuple[Manifest, Manifest]:
    """Return a loader's Job and the ConfigMap that it needs; raises ConfigError without image."""
    if cluster.image is None:
        hint = "image: any image with Python, for example your trainer's"
        raise ConfigError("deployer.yaml: kubernetes.image", "is missing", hint)
    job, config_map = copy.deepcopy(templates)
    for one in (job, config_map):
        _label(one["metadata"], task, cluster)
        set_namespace(one["metadata"], cluster.namespace)
    config_map["metadata"]["name"] = task.name
    config_map["binaryData"] = {PROGRAM_PATH.rpartition("/")[2]: encode(program)}
    _name_job(job["metadata"], task, cluster)
    job["spec"]["activeDeadlineSeconds"] = LEASE_SECONDS
    template = job["spec"]["template"]
    _label(template["metadata"], task, cluster)
    _set_pod(template["spec"], task, cluster)
    _set_container(template["spec"]["containers"][0], task, cluster)
    return job, config_map


def _name_job(metadata: Manifest, task: LoaderTask, cluster: ClusterConfig) -> None:
    if cluster.generate_name:
        metadata.pop("name", None)
        metadata["generateName"] = f"{task.name}-"
    else:
        metadata["name"] = task.name
    set_queue(metadata, cluster)


def _label(metadata: Manifest, task: LoaderTask, cluster: ClusterConfig) -> None:
    labels = {**cluster.labels, **build_labels(LOADER), LOADER_LABEL: task.mark}
    update(metadata, "labels", labels)
    update(metadata, "annotations", {**cluster.annotations, MADE_BY_ANNOTATION: task.made_by})


def _set_pod(pod: Manifest, task: LoaderTask, cluster: ClusterConfig) -> None:
    set_identity(pod, cluster)
    # Not the GPU's label: a loader needs none, and may run beside.
    update(pod, "nodeSelector", cluster.node_selector)
    pod["tolerations"] = [without_none(asdict(one)) for one in cluster.tolerations]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    volumes[PROGRAM_VOLUME]["configMap"] = {"name": task.name}
    pod["volumes"] = merged(pod["volumes"], [{"name": VOLUME, **task.source}])


def _set_container(container: Manifest, task: LoaderTask, cluster: ClusterConfig) -> None:
    set_image(container, cluster.image, cluster)
    container["command"] = [cluster.python, PROGRAM_PATH]
    users = ({"name": name, "value": value} for name, value in cluster.env.items())
    root = "/".join(filter(None, (ROOT, task.folder)))
    ours = [
        {"name": ROOT_VARIABLE, "value": root},
        {"name": TOKEN_HASH_VARIABLE, "value": task.token_hash},
    ]
    container["env"] = merged(merged(container["env"], users), ours)
