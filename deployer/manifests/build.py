"""A plan as the manifests that are sent, in the order in which they are applied; pure."""

from __future__ import annotations

import base64
import copy
from collections.abc import Mapping
from itertools import chain

from deployer.cluster_config import ClusterConfig
from deployer.cluster_parts import NfsFolder, Volume
from deployer.errors import ConfigError
from deployer.manifests.fields import Manifest, set_namespace, update
from deployer.manifests.job import build_job
from deployer.manifests.task import AgentTask
from deployer.manifests.templates import Templates
from deployer.names import (
    COMPONENT_LABEL,
    SWEEP_PATH_ANNOTATION,
    build_hash,
    build_labels,
    build_name,
    sweep_id,
)
from deployer.plan import Plan


def build_manifests(
    plan: Plan,
    cluster: ClusterConfig,
    templates: Templates,
    *,
    secret_name: str,
    secret_keys: Mapping[str, str],
    supervisor: bytes,
    code: bytes | None,
) -> tuple[Manifest, ...]:
    """Return what a plan means in a cluster: ConfigMaps, volumes, then a Job for each agent.

    `secret_keys` names each agent's key in the Secret `secret_name`; `code` is the project's
    archive, None where the image's code runs. The names of ConfigMaps end with a hash of their
    content, so that running agents keep what they have. Raises ConfigError if no image is named.
    """
    if cluster.image is None and templates.template is None:
        hint = "image: any image with Python and wandb, for example your trainer's"
        raise ConfigError("deployer.yaml: kubernetes.image", "is missing", hint)
    maps = [_build_config_map(templates.supervisor, supervisor, plan, cluster)]
    if code is not None:
        maps.append(_build_config_map(templates.code, code, plan, cluster))
    names = [one["metadata"]["name"] for one in maps]
    folders = [(volume, volume.nfs) for volume in cluster.volumes if volume.nfs]
    claims = {volume.name: _name_claim(volume, nfs, plan, cluster) for volume, nfs in folders}
    volumes = [_build_nfs(templates, claims[v.name], nfs, plan, cluster) for v, nfs in folders]
    tasks = (
        AgentTask(
            name=agent.name,
            sweep_path=plan.sweep_path,
            base_url=plan.base_url,
            environment=agent.environment,
            secret_name=secret_name,
            secret_key=secret_keys[agent.name],
            supervisor=names[0],
            code=names[1] if code is not None else None,
            claims=claims,
            avoided_nodes=plan.avoided_nodes,
        )
        for agent in plan.agents
    )
    template = templates.template or templates.agent
    jobs = (build_job(template, templates.agent, task, cluster) for task in tasks)
    return (*copy.deepcopy(templates.others), *maps, *chain.from_iterable(volumes), *jobs)


def build_secret(
    name: str, namespace: str | None, values: Mapping[str, str], sweep_path: str = ""
) -> Manifest:
    """Return a Secret with these values; with `sweep_path`, one that goes with that sweep.

    It is apart from `build_manifests`, since a plan must never hold a key.
    """
    secret: Manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {}, "type": "Opaque"}
    _set_metadata(secret, name, "key", sweep_path, namespace)
    secret["data"] = {key: encode(value.encode()) for key, value in values.items()}
    return secret


def encode(content: bytes) -> str:
    """Return bytes as `data` and `binaryData` hold them."""
    return base64.b64encode(content).decode()


def _build_config_map(
    template: Manifest, content: bytes, plan: Plan, cluster: ClusterConfig
) -> Manifest:
    """Fill the only file of a ConfigMap; its component says what it is."""
    config_map = copy.deepcopy(template)
    component = config_map["metadata"]["labels"][COMPONENT_LABEL]
    name = build_name(f"{sweep_id(plan.sweep_path)}-{component}-{build_hash(content)}")
    _set_metadata(config_map, name, component, plan.sweep_path, cluster.namespace)
    config_map["binaryData"] = dict.fromkeys(config_map["binaryData"], encode(content))
    return config_map


def _name_claim(volume: Volume, nfs: NfsFolder, plan: Plan, cluster: ClusterConfig) -> str:
    """Name a claim and its PersistentVolume, which shares its names with the whole cluster."""
    parts = (cluster.namespace or "", plan.sweep_path, nfs.server, nfs.path)
    told_apart = build_hash(*(part.encode() for part in parts))
    return build_name(f"{sweep_id(plan.sweep_path)}-{volume.name}-{told_apart}")


def _build_nfs(
    templates: Templates, name: str, nfs: NfsFolder, plan: Plan, cluster: ClusterConfig
) -> tuple[Manifest, Manifest]:
    volume, claim = copy.deepcopy(templates.volume), copy.deepcopy(templates.claim)
    _set_metadata(volume, name, "volume", plan.sweep_path, None)
    _set_metadata(claim, name, "volume", plan.sweep_path, cluster.namespace)
    volume["spec"]["claimRef"] = {"namespace": cluster.namespace or "default", "name": name}
    volume["spec"]["nfs"] = {"server": nfs.server, "path": nfs.path}
    claim["spec"]["volumeName"] = name
    return volume, claim


def _set_metadata(
    manifest: Manifest, name: str, component: str, sweep_path: str, namespace: str | None
) -> None:
    metadata = manifest["metadata"]
    metadata["name"] = name
    set_namespace(metadata, namespace)
    update(metadata, "labels", build_labels(component, sweep_path))
    if sweep_path:
        update(metadata, "annotations", {SWEEP_PATH_ANNOTATION: sweep_path})
