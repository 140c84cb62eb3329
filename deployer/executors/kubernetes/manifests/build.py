"""Builds all manifests of a sweep's agents, with the ConfigMaps of their code; pure."""

from __future__ import annotations

import base64
import copy
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain

from deployer.config.credentials import Owner
from deployer.config.kubernetes import ClusterConfig, NfsFolder, Volume
from deployer.errors import ConfigError
from deployer.executors.kubernetes.manifests.job import AgentTask, build_job
from deployer.executors.kubernetes.manifests.overlay import REMOVED, build_metadata, encode, overlay
from deployer.executors.kubernetes.manifests.templates import Templates
from deployer.executors.plan import split_by_pod
from deployer.images.code_archive import split_archive
from deployer.kube.objects import (
    ARCHIVE_ANNOTATION,
    COMPONENT_LABEL,
    Manifest,
    build_hash,
    build_owned_name,
)
from deployer.model import Plan

KEY_COMPONENT = "key"


# The ConfigMaps of a sweep, with the supervisor and the project's code; pure. A larger code archive
# is split over several ConfigMaps, whose parts a pod joins.


def build_config_map(
    template: Manifest,
    content: bytes,
    sweep_path: str,
    owner: Owner,
    namespace: str | None,
) -> Manifest:
    """Fill the only file of a ConfigMap, whose name ends with the file's hash."""
    metadata = _build_metadata(template, sweep_path, owner, namespace, build_hash(content))
    [file] = template["binaryData"]
    filled = {"metadata": metadata, "binaryData": {file: encode(content)}}
    return dict(overlay(template, filled))


def build_code_maps(
    template: Manifest, code: bytes, sweep_path: str, owner: Owner, namespace: str | None
) -> list[Manifest]:
    """Return the ConfigMap of an archive, or those of its parts if it is too large for one.

    The parts' files are `code.tar.gz.00`, `.01` and so on. The names of their ConfigMaps have a
    common prefix, and an annotation has the hash of the whole.
    """
    parts = split_archive(code)
    if len(parts) == 1:
        return [build_config_map(template, code, sweep_path, owner, namespace)]
    whole = build_hash(code)
    [file] = template["binaryData"]
    maps = []
    for number, part in enumerate(parts):
        metadata = _build_metadata(template, sweep_path, owner, namespace, whole, str(number))
        metadata["annotations"][ARCHIVE_ANNOTATION] = whole
        files = {file: REMOVED, f"{file}.{number:02}": encode(part)}
        maps.append(overlay(template, {"metadata": metadata, "binaryData": files}))
    return maps


def read_code_maps(maps: Iterable[Manifest]) -> bytes | None:
    """Return the first archive in ConfigMaps, which must be in order of creation.

    An archive with a missing part is ignored: agents start only when it is complete.
    """
    parts: dict[str, dict[str, bytes]] = defaultdict(dict)
    for one in maps:
        held = {name: base64.b64decode(text) for name, text in one["binaryData"].items()}
        whole = (one["metadata"].get("annotations") or {}).get(ARCHIVE_ANNOTATION)
        parts[whole or build_hash(*held.values())] |= held
    joined = (
        (whole, b"".join(held[name] for name in sorted(held))) for whole, held in parts.items()
    )
    return next((code for whole, code in joined if build_hash(code) == whole), None)


def _build_metadata(
    template: Manifest, sweep_path: str, owner: Owner, namespace: str | None, *end: str
) -> Manifest:
    """Return a ConfigMap's name and labels, from its template's component."""
    component = template["metadata"]["labels"][COMPONENT_LABEL]
    name = build_owned_name(sweep_path, owner, component, *end)
    return build_metadata(name, component, sweep_path, namespace)


def build_manifests(
    plan: Plan,
    cluster: ClusterConfig,
    templates: Templates,
    *,
    owner: Owner,
    secret_name: str,
    secret_keys: Mapping[str, str],
    supervisor: bytes,
    code: bytes | None,
    max_seconds: float | None = None,
) -> tuple[Manifest, ...]:
    """Return the manifests of a plan: ConfigMaps, volumes, then a Job for each pod.

    `secret_keys` names each agent's key in the Secret `secret_name`. `code` is the project's
    archive, None if the image's code runs. `max_seconds` is the deadline of a Job. Names contain
    the `owner`, so that no agent needs an object that another owner may delete. Names of ConfigMaps
    end with a hash of their content, so that running agents keep theirs. Raises ConfigError without
    an image.
    """
    if cluster.image is None and templates.template is None:
        hint = "kubernetes: {image: …}: any image with Python and wandb, such as your trainer's"
        raise ConfigError("deployer.yaml: kubernetes.image", "is missing", hint)
    where = (plan.sweep_path, owner, cluster.namespace)
    maps = [build_config_map(templates.supervisor, supervisor, *where)]
    if code is not None:
        maps += build_code_maps(templates.code, code, *where)
    supervisor_name, *code_names = (one["metadata"]["name"] for one in maps)
    folders = [(v, v.nfs) for v in cluster.volumes if v.nfs and not v.nfs.inline]
    claims = {volume.name: _name_claim(volume, nfs, *where) for volume, nfs in folders}
    volumes = [
        build_nfs(templates, claims[v.name], nfs, plan.sweep_path, cluster.namespace)
        for v, nfs in folders
    ]
    tasks = (
        AgentTask(
            agents=tuple((agent.name, secret_keys[agent.name]) for agent in pack),
            sweep_path=plan.sweep_path,
            base_url=plan.base_url,
            environment=pack[0].environment,
            secret_name=secret_name,
            supervisor=supervisor_name,
            code=tuple(code_names),
            claims=claims,
            avoided_nodes=plan.avoided_nodes,
            max_seconds=max_seconds,
        )
        for pack in split_by_pod(plan.agents, cluster.agents_per_pod)
    )
    template = templates.template or templates.agent
    jobs = (build_job(template, templates.agent, task, cluster) for task in tasks)
    return (*copy.deepcopy(templates.others), *maps, *chain.from_iterable(volumes), *jobs)


def build_secret(
    name: str, namespace: str | None, values: Mapping[str, str], sweep_path: str = ""
) -> Manifest:
    """Return a Secret with these values; with `sweep_path`, one of that sweep.

    It is separate from `build_manifests`, since a plan must never hold a key.
    """
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": overlay({}, build_metadata(name, KEY_COMPONENT, sweep_path, namespace)),
        "type": "Opaque",
        "data": {key: encode(value.encode()) for key, value in values.items()},
    }


def build_nfs(
    templates: Templates, name: str, nfs: NfsFolder, sweep_path: str, namespace: str | None
) -> tuple[Manifest, Manifest]:
    """Return a PersistentVolume for a folder of an NFS server, and its claim."""
    volume = {
        "metadata": build_metadata(name, "volume", sweep_path, None),
        "spec": {
            "claimRef": {"namespace": namespace or "default", "name": name},
            "nfs": {"server": nfs.server, "path": nfs.path},
        },
    }
    claim = {
        "metadata": build_metadata(name, "volume", sweep_path, namespace),
        "spec": {"volumeName": name},
    }
    return overlay(templates.volume, volume), overlay(templates.claim, claim)


def _name_claim(
    volume: Volume, nfs: NfsFolder, sweep_path: str, owner: Owner, namespace: str | None
) -> str:
    """Return a name for a claim and its PersistentVolume, unique in the whole cluster."""
    parts = (namespace or "", sweep_path, nfs.server, nfs.path)
    told_apart = build_hash(*(part.encode() for part in parts))
    return build_owned_name(sweep_path, owner, volume.name, told_apart)
