"""k8s/backend.yaml as the manifests of one cluster, in the order they are applied; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from deployer.config.deployer_yaml import FILE_NAME
from deployer.config.sections.backend import BackendConfig
from deployer.config.sections.kubernetes import ClusterConfig
from deployer.errors import ConfigError
from deployer.executors.kubernetes.manifests.fields import (
    Manifest,
    encode,
    without_none,
)
from deployer.executors.kubernetes.manifests.overlay import REMOVED, Whole, overlay
from deployer.executors.kubernetes.manifests.pod import build_identity, list_variables
from deployer.executors.kubernetes.manifests.templates import find_folder, load_documents
from deployer.images.code_archive import split_archive
from deployer.kube.names import BACKEND, QUEUE_LABEL, build_hash, build_labels

NAME = "sweep-backend"
KEY_SECRET = f"{NAME}-key"
KEY_FIELD = "key"
PORT = 8080


def build_url(name: str, namespace: str) -> str:
    """Return where agents reach it: a name that is right whatever the cluster's domain is."""
    return f"http://{name}.{namespace}.svc:{PORT}"


def load_backend_templates() -> tuple[Manifest, ...]:
    """Read k8s/backend.yaml: claim, Service, NetworkPolicy, ConfigMap, StatefulSet."""
    return tuple(load_documents(find_folder() / "backend.yaml"))


def build_backend(
    templates: Sequence[Manifest], program: bytes, settings: BackendConfig, cluster: ClusterConfig
) -> tuple[Manifest, ...]:
    """Return the backend's manifests without its key; `program` is the archive of its server.

    What `settings` leave out about image and interpreter is as for agents. Raises ConfigError if
    no image is named.
    """
    labels = {**cluster.labels, **build_labels(BACKEND)}
    metadata = {"namespace": cluster.namespace or REMOVED, "labels": labels}
    documents = [overlay(one, {"metadata": metadata}) for one in templates]
    claim, service, policy, config_map, stateful_set = documents
    config_maps = _build_config_maps(config_map, program)
    claim = _build_claim(claim, settings)
    stateful_set = _build_stateful_set(stateful_set, config_maps, settings, cluster)
    return claim, service, policy, *config_maps, stateful_set


def _build_claim(template: Manifest, settings: BackendConfig) -> Manifest:
    # An empty one is another wish: no class, not even the cluster's default.
    storage_class = REMOVED if settings.storage_class is None else settings.storage_class
    patch = {
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": settings.size}},
    }
    return dict(overlay(template, {"spec": patch}))


def _build_config_maps(template: Manifest, program: bytes) -> list[Manifest]:
    """Return a ConfigMap for each part of the archive; other content has another name."""
    whole = build_hash(program, template["data"]["__main__.py"].encode())
    return [
        {
            **overlay(template, {"metadata": {"name": f"{NAME}-{whole}-{number}"}}),
            "binaryData": {f"program.tar.gz.{number:02}": encode(part)},
        }
        for number, part in enumerate(split_archive(program))
    ]


def _build_stateful_set(
    template: Manifest,
    config_maps: Sequence[Manifest],
    settings: BackendConfig,
    cluster: ClusterConfig,
) -> Manifest:
    image = settings.image or cluster.image
    if image is None:
        hint = "backend: {image: …}: an image with Python 3.11 or newer, such as python:3.13-slim"
        raise ConfigError(f"{FILE_NAME}: backend.image", "is missing", hint)
    known = template["spec"]["template"]["spec"]["containers"][0]
    wanted = {"cpu": settings.cpu, "memory": settings.memory}
    container = {
        "name": known["name"],
        "image": image,
        "imagePullPolicy": cluster.image_pull_policy,
        "command": [settings.python or cluster.python, *known["command"][1:]],
        # Here the template's variables win over the user's.
        "env": Whole(overlay(list_variables(settings.env), known["env"], "env")),
        "resources": {"requests": wanted, "limits": wanted},
    }
    sources = [{"configMap": {"name": one["metadata"]["name"]}} for one in config_maps]
    pod = {
        **build_identity(cluster),
        "nodeSelector": settings.node_selector,
        "tolerations": [without_none(asdict(one)) for one in settings.tolerations],
        "containers": [container],
        "volumes": [{"name": "program", "projected": {"sources": sources}}],
    }
    patch = {
        "metadata": {"labels": {QUEUE_LABEL: settings.queue}},
        "spec": {"template": {"metadata": {"labels": template["metadata"]["labels"]}, "spec": pod}},
    }
    return dict(overlay(template, patch))
