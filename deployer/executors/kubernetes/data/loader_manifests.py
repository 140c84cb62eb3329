"""k8s/data-loader.yaml as the manifests of one loader; pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from deployer.config.sections.kubernetes import ClusterConfig
from deployer.errors import ConfigError
from deployer.executors.kubernetes.manifests.fields import (
    Manifest,
    encode,
    without_none,
)
from deployer.executors.kubernetes.manifests.overlay import REMOVED, overlay
from deployer.executors.kubernetes.manifests.pod import (
    build_identity,
    build_queue_labels,
    list_variables,
)
from deployer.executors.kubernetes.manifests.templates import find_folder, load_documents
from deployer.kube.names import LOADER, LOADER_LABEL, MADE_BY_ANNOTATION, build_labels

PROGRAM_PATH = "/deployer/loader/loader.zip"
PROGRAM_VOLUME = "loader"
VOLUME = "volume"
ROOT = "/volume"
ROOT_VARIABLE = "LOADER_ROOT"
TOKEN_HASH_VARIABLE = "LOADER_TOKEN_HASH"
PORT = 8099
LEASE_SECONDS = 120  # how long a loader outlives whoever made it


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
    labels = {**cluster.labels, **build_labels(LOADER), LOADER_LABEL: task.mark}
    annotations = {**cluster.annotations, MADE_BY_ANNOTATION: task.made_by}
    marks = {"labels": labels, "annotations": annotations}
    named = {"name": task.name, "namespace": cluster.namespace or REMOVED, **marks}
    generated = {"name": REMOVED, "generateName": f"{task.name}-"} if cluster.generate_name else {}
    variables = {
        **cluster.env,
        ROOT_VARIABLE: "/".join(filter(None, (ROOT, task.folder))),
        TOKEN_HASH_VARIABLE: task.token_hash,
    }
    container = {
        "name": "loader",
        "image": cluster.image,
        "imagePullPolicy": cluster.image_pull_policy,
        "command": [cluster.python, PROGRAM_PATH],
        "env": list_variables(variables),
    }
    pod = {
        **build_identity(cluster),
        # Not the GPU's label: a loader needs none, and may run beside.
        "nodeSelector": cluster.node_selector,
        "tolerations": [without_none(asdict(one)) for one in cluster.tolerations],
        "containers": [container],
        "volumes": [
            {"name": PROGRAM_VOLUME, "configMap": {"name": task.name}},
            {"name": VOLUME, **task.source},
        ],
    }
    job, config_map = (overlay(template, {"metadata": named}) for template in templates)
    patch = {
        "metadata": {**generated, "labels": build_queue_labels(cluster)},
        "spec": {
            "activeDeadlineSeconds": LEASE_SECONDS,
            "template": {"metadata": marks, "spec": pod},
        },
    }
    files = {PROGRAM_PATH.rpartition("/")[2]: encode(program)}
    return overlay(job, patch), overlay(config_map, {"binaryData": files})
