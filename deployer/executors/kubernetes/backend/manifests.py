"""k8s/backend.yaml as the manifests of one cluster, in the order in which they are applied; pure.

`OWNED` are the fields that Python sets; `# set by deployer` marks the same ones in the file.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from deployer.config.sections.backend import SECTION, BackendConfig
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
)
from deployer.executors.kubernetes.manifests.templates import find_folder, load_documents
from deployer.images.code_archive import split_archive
from deployer.kube.names import BACKEND, QUEUE_LABEL, build_hash, build_labels

NAME = "sweep-backend"
KEY_SECRET = f"{NAME}-key"
KEY_FIELD = "key"
PORT = 8080

_MAIN = f"{POD}.containers[backend]"
_COMMON = ("metadata.namespace", "metadata.labels")
OWNED: Mapping[str, tuple[str, ...]] = {
    "PersistentVolumeClaim": (
        *_COMMON,
        "spec.storageClassName",
        "spec.resources.requests.storage",
    ),
    "Service": _COMMON,
    "NetworkPolicy": _COMMON,
    "ConfigMap": ("metadata.name", *_COMMON, "binaryData"),
    "StatefulSet": (
        *_COMMON,
        *list_common_fields("backend"),
        f"{_MAIN}.resources.requests.cpu",
        f"{_MAIN}.resources.requests.memory",
        f"{_MAIN}.resources.limits.cpu",
        f"{_MAIN}.resources.limits.memory",
        f"{POD}.volumes[program].projected.sources",
    ),
}


def build_url(name: str, namespace: str) -> str:
    """Return where agents reach it: a name that is right whatever the cluster's domain is."""
    return f"http://{name}.{namespace}.svc:{PORT}"


def load_backend_templates() -> tuple[Manifest, ...]:
    """Read the documents of k8s/backend.yaml, of the kinds in `OWNED`."""
    return tuple(load_documents(find_folder() / "backend.yaml"))


def build_backend(
    templates: Sequence[Manifest], program: bytes, settings: BackendConfig, cluster: ClusterConfig
) -> tuple[Manifest, ...]:
    """Return the backend's manifests without its key; `program` is the archive of its server.

    What `settings` leave out about image and interpreter is as for agents. Raises ConfigError if
    no image is named.
    """
    documents = copy.deepcopy(tuple(templates))
    for one in documents:
        _label(one, cluster)
    claim, service, policy, config_map, stateful_set = documents
    _set_claim(claim["spec"], settings)
    config_maps = _build_config_maps(config_map, program)
    pod = stateful_set["spec"]["template"]
    update(pod["metadata"], "labels", stateful_set["metadata"]["labels"])
    _set_pod(pod["spec"], settings, cluster)
    _set_container(pod["spec"]["containers"][0], settings, cluster)
    if settings.queue:
        stateful_set["metadata"]["labels"][QUEUE_LABEL] = settings.queue
    [volume] = (one for one in pod["spec"]["volumes"] if one["name"] == "program")
    names = [{"name": one["metadata"]["name"]} for one in config_maps]
    volume["projected"]["sources"] = [{"configMap": name} for name in names]
    return claim, service, policy, *config_maps, stateful_set


def _build_config_maps(template: Manifest, program: bytes) -> list[Manifest]:
    """Return a ConfigMap for each part of the archive; other content has another name."""
    whole = build_hash(program, template["data"]["__main__.py"].encode())
    config_maps = []
    for number, part in enumerate(split_archive(program)):
        config_map = copy.deepcopy(template)
        config_map["metadata"]["name"] = f"{NAME}-{whole}-{number}"
        config_map["binaryData"] = {f"program.tar.gz.{number:02}": encode(part)}
        config_maps.append(config_map)
    return config_maps


def _label(manifest: Manifest, cluster: ClusterConfig) -> None:
    metadata = manifest["metadata"]
    set_namespace(metadata, cluster.namespace)
    update(metadata, "labels", {**cluster.labels, **build_labels(BACKEND)})


def _set_claim(spec: Manifest, settings: BackendConfig) -> None:
    if settings.storage_class is None:
        del spec["storageClassName"]
    else:
        spec["storageClassName"] = settings.storage_class
    if settings.size is not None:
        spec["resources"]["requests"]["storage"] = settings.size


def _set_pod(pod: Manifest, settings: BackendConfig, cluster: ClusterConfig) -> None:
    set_identity(pod, cluster)
    pod["nodeSelector"] = dict(settings.node_selector)
    pod["tolerations"] = [without_none(asdict(one)) for one in settings.tolerations]


def _set_container(container: Manifest, settings: BackendConfig, cluster: ClusterConfig) -> None:
    image = settings.image or cluster.image
    if image is None:
        hint = "backend: {image: …}: an image with Python 3.11 or newer, such as python:3.13-slim"
        raise ConfigError(SECTION.place_of(("image",)), "is missing", hint)
    set_image(container, image, cluster)
    container["command"][0] = settings.python or cluster.python
    added = [{"name": name, "value": value} for name, value in settings.env.items()]
    container["env"] = merged(added, container["env"])
    for kind in ("requests", "limits"):
        wanted = without_none({"cpu": settings.cpu, "memory": settings.memory})
        container["resources"][kind] |= wanted
