"""Replaces the key in the cluster; running agents keep their old key."""

from __future__ import annotations

from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from deployer.errors import KubeError
from deployer.executors.kubernetes.agents.objects import identify, list_names
from deployer.executors.kubernetes.keys import (
    BASE_URL_ANNOTATION,
    WANDB_SECRET,
    WANDB_SECRET_KEY,
    decode_key,
    refuse,
)
from deployer.executors.kubernetes.manifests.build import KEY_COMPONENT
from deployer.kube.client import Kube
from deployer.kube.objects import POD, SECRET, build_selector, read_owner


@dataclass(frozen=True)
class Rotation:
    """The Secrets with the new key, and by sweep the running agents with an old one."""

    secrets: tuple[str, ...]
    agents: Mapping[str, tuple[str, ...]]


def rotate_secret(kube: Kube, key: str, base_url: str, is_mine: Callable[[str], bool]) -> Rotation:
    """Replace the key in `wandb-secret` and in sweeps' copies; no changes if all have it.

    Agents have copies if `wandb-secret` held another key when they started. `is_mine` returns True
    for a key of the same user. Another owner's Secret is left alone, unless it holds such a key.
    Raises KubeError if there is nothing to replace, ConfigError if it is another owner's.
    """
    main = kube.get(SECRET, WANDB_SECRET)
    old = decode_key(main) if main else None
    mine = bool(main and (kube.owns(main) or (read_owner(main) is None and old and is_mine(old))))
    changed = _rotate_copies(kube, key, lambda value: (mine and value == old) or is_mine(value))
    if main and not mine and not changed and old != key:
        raise refuse(kube, main, "keeps its key")
    # Last, because a retry finds the remaining copies by the old key.
    if mine or (not main and not changed):
        metadata = {"annotations": {BASE_URL_ANNOTATION: base_url}}
        changes = {"metadata": metadata, "stringData": {WANDB_SECRET_KEY: key}}
        kube.patch(SECRET, WANDB_SECRET, changes)
        changed += [WANDB_SECRET] if old != key else []
    return Rotation(tuple(changed), _list_readers(kube, changed))


def _rotate_copies(kube: Kube, key: str, is_old: Callable[[str], bool]) -> list[str]:
    """Replace old keys in the Secrets of sweeps; return the names of all with the new one.

    A user who may not list Secrets has created none of them.
    """
    is_old = cache(is_old)
    changed: list[str] = []
    try:
        secrets = kube.list_objects(SECRET, build_selector(component=KEY_COMPONENT))
    except KubeError as error:
        if not error.forbidden:
            raise
        return changed
    for secret in secrets:
        name = secret["metadata"]["name"]
        if name == WANDB_SECRET or not (kube.owns(secret) or read_owner(secret) is None):
            continue
        held = {n: b64decode(v).decode() for n, v in (secret.get("data") or {}).items()}
        copies = [n for n, value in held.items() if value != key and is_old(value)]
        if copies:
            kube.patch(SECRET, name, {"stringData": dict.fromkeys(copies, key)})
        if copies or key in held.values():
            changed.append(name)
    return changed


def _list_readers(kube: Kube, secrets: Collection[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = defaultdict(list)
    for pod in filter(kube.owns, kube.list_objects(POD, build_selector(component="agent"))):
        identity = identify(pod)
        if identity and pod["status"]["phase"] == "Running" and _reads(pod, secrets):
            found[identity.sweep_path] += list_names(pod) or [identity.name]
    return {path: tuple(sorted(names)) for path, names in sorted(found.items())}


def _reads(pod: Mapping[str, Any], secrets: Collection[str]) -> bool:
    volumes = pod["spec"].get("volumes") or ()
    return any((one.get("secret") or {}).get("secretName") in secrets for one in volumes)
