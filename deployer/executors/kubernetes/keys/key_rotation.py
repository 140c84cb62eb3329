"""Replaces the key in the cluster, so that agents at work take it up at their next run."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from deployer.errors import KubeError
from deployer.executors.kubernetes.concurrency import do_all
from deployer.executors.kubernetes.keys.key_secret import (
    BASE_URL_ANNOTATION,
    WANDB_SECRET,
    WANDB_SECRET_KEY,
    decode_key,
    refuse,
)
from deployer.executors.kubernetes.manifests.build import KEY_COMPONENT
from deployer.kube.client import Kube
from deployer.kube.kinds import POD, SECRET, Manifest
from deployer.kube.names import PREFIX, build_selector, read_owner

ROTATED_ANNOTATION = f"{PREFIX}/key-rotated-at"


@dataclass(frozen=True)
class Rotation:
    """The Secrets that have the new key now, and how many agents at work read them."""

    secrets: tuple[str, ...]
    agents: int


def rotate_secret(kube: Kube, key: str, base_url: str, is_mine: Callable[[str], bool]) -> Rotation:
    """Replace the key in `wandb-secret`, and where a sweep has a copy of it; none if all have it.

    Agents have copies if `wandb-secret` held another key when they began. `is_mine` returns True
    for a key of the same user; another owner's Secret is left alone, unless it holds such a key.
    Raises KubeError if there is nothing to be replaced, ConfigError if that is another owner's.
    """
    main = kube.get(SECRET, WANDB_SECRET)
    old = decode_key(main) if main else None
    mine = bool(main and (kube.owns(main) or (read_owner(main) is None and old and is_mine(old))))
    changed = _rotate_copies(kube, key, lambda value: (mine and value == old) or is_mine(value))
    if main and not mine and not changed and old != key:
        raise refuse(kube, main, "keeps its key")
    # Last: by the old key a second try finds the copies that are left.
    if mine or (not main and not changed):
        _rotate_main(kube, key, base_url)
        changed += [WANDB_SECRET] if old != key else []
    return Rotation(tuple(changed), _tell_agents(kube, changed))


def _rotate_main(kube: Kube, key: str, base_url: str) -> None:
    metadata = {"annotations": {BASE_URL_ANNOTATION: base_url}}
    changes = {"metadata": metadata, "stringData": {WANDB_SECRET_KEY: key}}
    kube.patch(SECRET, WANDB_SECRET, changes)


def _rotate_copies(kube: Kube, key: str, is_old: Callable[[str], bool]) -> list[str]:
    """Replace old keys in the Secrets of sweeps; return the names of those that have the new one.

    Who may not list Secrets has made none of them.
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


def _tell_agents(kube: Kube, secrets: Collection[str]) -> int:
    """Change the pods that read these Secrets: their nodes then bring them up to date at once.

    Without that it takes a node a minute or two, and who may not change pods waits that long.
    """
    pods = filter(kube.owns, kube.list_objects(POD, build_selector(component="agent")))
    reading = [pod for pod in pods if _reads(pod, secrets) and pod["status"]["phase"] == "Running"]
    rotated = {"metadata": {"annotations": {ROTATED_ANNOTATION: f"{kube.now():.3f}"}}}

    def tell(pod: Manifest) -> None:
        try:
            kube.patch(POD, pod["metadata"]["name"], rotated)
        except KubeError as error:
            if error.status not in (403, 404):
                raise

    do_all(tell, reading)
    return len(reading)


def _reads(pod: Mapping[str, Any], secrets: Collection[str]) -> bool:
    volumes = pod["spec"].get("volumes") or ()
    return any((one.get("secret") or {}).get("secretName") in secrets for one in volumes)
