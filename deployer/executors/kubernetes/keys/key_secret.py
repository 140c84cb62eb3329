"""The Secret with the key of a W&B server: made, changed and deleted; the key is never shown."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from deployer.errors import ConfigError, KubeError
from deployer.executors.kubernetes.manifests.build import build_secret
from deployer.kube.client import Kube
from deployer.kube.objects import NO_OWNER, PREFIX, SECRET, Manifest, read_owner

WANDB_SECRET = "wandb-secret"
WANDB_SECRET_KEY = "secret"
BASE_URL_ANNOTATION = f"{PREFIX}/base-url"
SHOWN_CHARACTERS = 4
OWN_COPIES = "your agents need no change: `up` keeps your key in a Secret of your own sweep"


@dataclass(frozen=True)
class KeySecret:
    """What may be said about the Secret; it is deleted only if it is `mine`."""

    name: str
    namespace: str
    masked_key: str
    base_url: str
    owner: str
    mine: bool


def get_key(kube: Kube) -> str | None:
    """Return the key in the Secret, None if there is no Secret. Raises KubeError."""
    found = kube.get(SECRET, WANDB_SECRET)
    if found is None:
        return None
    key = decode_key(found)
    if key is None:
        raise KubeError(
            f"Secret {WANDB_SECRET} in namespace {kube.namespace} has no key '{WANDB_SECRET_KEY}'",
            "deployer secret set",
        )
    return key


def create_secret(kube: Kube, key: str, base_url: str) -> bool:
    """Make the Secret; tell whether it was made: one that holds this key already is left alone.

    Raises ConfigError if it holds another key.
    """
    if make_secret(kube, key, base_url):
        return True
    if get_key(kube) == key:
        return False
    found = kube.get(SECRET, WANDB_SECRET)
    if found and not kube.owns(found):
        raise refuse(kube, found, "holds another key")
    raise ConfigError(
        f"Secret {WANDB_SECRET} in namespace {kube.namespace}",
        "is there and holds another key",
        "deployer secret set replaces the key; deployer secret show says whose it is",
    )


def make_secret(kube: Kube, key: str, base_url: str) -> bool:
    """Make the Secret unless there is one, whatever its key; tell whether it was made."""
    manifest = build_secret(WANDB_SECRET, kube.namespace, {WANDB_SECRET_KEY: key})
    manifest["metadata"]["annotations"] = {BASE_URL_ANNOTATION: base_url}
    return kube.create_once(manifest)


def describe_secret(kube: Kube, options: str = "") -> KeySecret:
    """Return what may be shown; raises KubeError without a Secret. `options` name the place."""
    found = kube.get(SECRET, WANDB_SECRET)
    if found is None:
        raise KubeError(
            f"Secret {WANDB_SECRET} not found in namespace {kube.namespace}",
            f"deployer secret set{options}",
            status=404,
        )
    annotations = found["metadata"].get("annotations") or {}
    owner = read_owner(found)
    return KeySecret(
        name=WANDB_SECRET,
        namespace=kube.namespace,
        masked_key=mask_key(decode_key(found) or ""),
        base_url=annotations.get(BASE_URL_ANNOTATION, ""),
        owner=owner.name if owner else NO_OWNER,
        mine=kube.owns(found),
    )


def delete_secret(kube: Kube) -> bool:
    """Delete the caller's own Secret; return False if there is none.

    Raises ConfigError if it is another owner's.
    """
    found = kube.get(SECRET, WANDB_SECRET)
    if found is None:
        return False
    if not kube.owns(found):
        raise refuse(kube, found, "stays")
    kube.delete(SECRET, WANDB_SECRET)
    return True


def refuse(kube: Kube, secret: Manifest, consequence: str) -> ConfigError:
    """Return the error for another owner's Secret, which is left as it is."""
    owner = read_owner(secret)
    return ConfigError(
        f"Secret {WANDB_SECRET} in namespace {kube.namespace}",
        f"belongs to {owner.name if owner else NO_OWNER} and {consequence}",
        OWN_COPIES,
    )


def decode_key(secret: Manifest) -> str | None:
    """Return the W&B key in a Secret object."""
    encoded = (secret.get("data") or {}).get(WANDB_SECRET_KEY)
    return base64.b64decode(encoded).decode(errors="replace").strip() if encoded else None


def mask_key(key: str) -> str:
    """Return a key masked, so that its owner recognises it and it is of no use to others."""
    if not key:
        return ""
    return f"…{key[-SHOWN_CHARACTERS:]} ({len(key)} characters)"
