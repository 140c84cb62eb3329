"""The Secrets of W&B keys: the user's Secret, and the copy for agents."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from deployer.config.credentials import Owner
from deployer.errors import ConfigError, KubeError
from deployer.executors.kubernetes.manifests.build import build_secret
from deployer.kube.client import Kube
from deployer.kube.objects import (
    NO_OWNER,
    PREFIX,
    SECRET,
    Manifest,
    build_label,
    build_owned_name,
    read_owner,
)
from deployer.model import Plan

# The Secret with the key of a W&B server: created, changed and deleted; the key is never shown.

WANDB_SECRET = "wandb-secret"
WANDB_SECRET_KEY = "secret"
BASE_URL_ANNOTATION = f"{PREFIX}/base-url"
SHOWN_CHARACTERS = 4
OWN_COPIES = "your agents need no change: `up` keeps your key in a Secret of your own sweep"
KEYS = "keys"


@dataclass(frozen=True)
class KeySecret:
    """The public facts about the Secret; it is deleted only if it is `mine`."""

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
    """Create the Secret; return True if created, False if it already holds this key.

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
        "deployer secret set replaces the key; deployer secret show prints its owner",
    )


def make_secret(kube: Kube, key: str, base_url: str) -> bool:
    """Create the Secret unless there is one with any key; return True if created."""
    manifest = build_secret(WANDB_SECRET, kube.namespace, {WANDB_SECRET_KEY: key})
    manifest["metadata"]["annotations"] = {BASE_URL_ANNOTATION: base_url}
    return kube.create_once(manifest)


def describe_secret(kube: Kube, options: str = "") -> KeySecret:
    """Return the public facts; raises KubeError without a Secret. `options` are for the hint."""
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
    owner = read_owner(secret)
    return ConfigError(
        f"Secret {WANDB_SECRET} in namespace {kube.namespace}",
        f"belongs to {owner.name if owner else NO_OWNER} and {consequence}",
        OWN_COPIES,
    )


def decode_key(secret: Manifest) -> str | None:
    encoded = (secret.get("data") or {}).get(WANDB_SECRET_KEY)
    return base64.b64decode(encoded).decode(errors="replace").strip() if encoded else None


def mask_key(key: str) -> str:
    """Return a masked key that its owner recognises and others cannot use."""
    if not key:
        return ""
    return f"…{key[-SHOWN_CHARACTERS:]} ({len(key)} characters)"


# The location of agents' keys: the shared `wandb-secret`, or their owner's Secret for the sweep.


@dataclass(frozen=True)
class KeyStore:
    """A Secret and the key name of each agent in it; `values` is the content for `write`."""

    kube: Kube = field(repr=False)
    plan: Plan = field(repr=False)
    name: str
    keys: Mapping[str, str]
    values: Mapping[str, str] = field(repr=False)

    def write(self) -> None:
        """Add the keys to the Secret; those of running agents stay.

        Raises KubeError, and ConfigError if `wandb-secret` has got another key meanwhile.
        """
        if self.values and self.name == WANDB_SECRET:
            create_secret(self.kube, self.values[WANDB_SECRET_KEY], self.plan.base_url)
        elif self.values:
            if _get_allowed(self.kube, self.name) is None:
                path = self.plan.sweep_path
                self.kube.create_once(
                    build_secret(self.name, self.kube.namespace, self.values, path)
                )
            self.kube.patch(SECRET, self.name, {"stringData": dict(self.values)})


def store_keys(
    kube: Kube, plan: Plan, api_keys: Mapping[str, str], by_identity: bool = False
) -> KeyStore:
    """Decide where to keep the agents' keys; writes nothing.

    Agents that log in `by_identity` have no keys, unless they have their own. Agents that share the
    user's key read `wandb-secret`, which is created if missing, so that a key is replaced in one
    place. If it holds another key or is unreadable, or agents have their own keys, a Secret of this
    owner's agents of the sweep holds them.
    """
    if by_identity and not plan.own_keys:
        return KeyStore(kube, plan, *name_keys(plan, api_keys, kube.owner, by_identity), {})
    if not plan.own_keys:
        [key] = set(api_keys.values())
        missing = _find_missing(kube, key)
        if missing is not None:
            return KeyStore(kube, plan, *name_keys(plan, api_keys, kube.owner), missing)
    name, keys = _name_own_keys(plan, api_keys, kube.owner)
    return KeyStore(kube, plan, name, keys, {keys[agent]: key for agent, key in api_keys.items()})


def name_keys(
    plan: Plan, agents: Iterable[str], owner: Owner, by_identity: bool = False
) -> tuple[str, dict[str, str]]:
    """Return the Secret of a plan's agents and each agent's key in it, assuming no conflict.

    Both are empty for agents that log in `by_identity`.
    """
    if plan.own_keys:
        return _name_own_keys(plan, agents, owner)
    if by_identity:
        return "", dict.fromkeys(agents, "")
    return WANDB_SECRET, dict.fromkeys(agents, WANDB_SECRET_KEY)


def name_secret(sweep_path: str, owner: Owner) -> str:
    return build_owned_name(sweep_path, owner, KEYS)


def _name_own_keys(plan: Plan, agents: Iterable[str], owner: Owner) -> tuple[str, dict[str, str]]:
    return name_secret(plan.sweep_path, owner), {agent: build_label(agent) for agent in agents}


def _find_missing(kube: Kube, key: str) -> dict[str, str] | None:
    """Return what to write so that `wandb-secret` holds this key; None if that is not allowed."""
    try:
        secret = kube.get(SECRET, WANDB_SECRET)
    except KubeError as error:
        if not error.forbidden:
            raise
        return None
    if secret is None:
        return {WANDB_SECRET_KEY: key}
    return {} if decode_key(secret) == key else None


def _get_allowed(kube: Kube, name: str) -> Manifest | None:
    """Return a Secret; None if there is none or we may not read it."""
    try:
        return kube.get(SECRET, name)
    except KubeError as error:
        if not error.forbidden:
            raise
        return None
