"""Where agents' keys lie: in a Secret of their sweep, or in the user's own `wandb-secret`."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

from deployer.errors import KubeError
from deployer.kube import SECRET, Kube, Manifest
from deployer.manifests import build_secret
from deployer.names import build_label, build_name, sweep_id

WANDB_SECRET = "wandb-secret"
WANDB_SECRET_KEY = "secret"
KEYS = "keys"
KEY_COMPONENT = "key"


@dataclass(frozen=True)
class KeyPlace:
    """A Secret and the key of each agent in it; `values` is what `write` puts there."""

    kube: Kube = field(repr=False)
    sweep_path: str
    name: str
    keys: Mapping[str, str]
    values: Mapping[str, str] = field(repr=False)

    def write(self) -> None:
        """Add the keys to the Secret; those of agents that are at work stay."""
        if not self.values:
            return
        if self.kube.get(SECRET, self.name) is None:
            try:
                self.kube.create(
                    build_secret(self.name, self.kube.namespace, self.values, self.sweep_path)
                )
            except KubeError as error:
                if error.reason != "AlreadyExists":
                    raise
        self.kube.patch(SECRET, self.name, {"stringData": dict(self.values)})


def place_keys(kube: Kube, sweep_path: str, api_keys: Mapping[str, str]) -> KeyPlace:
    """Decide where the agents' keys shall lie; writes nothing.

    If `wandb-secret` has the very key that all agents shall have, they use it, so that a key that
    is rotated there reaches them. Keys of their own lie in a Secret of the sweep.
    """
    if set(api_keys.values()) == {read_wandb_secret(kube)}:
        return KeyPlace(
            kube, sweep_path, WANDB_SECRET, dict.fromkeys(api_keys, WANDB_SECRET_KEY), {}
        )
    name = build_name(f"{sweep_id(sweep_path)}-{KEYS}")
    keys = {agent: build_label(agent) for agent in api_keys}
    values = {keys[agent]: key for agent, key in api_keys.items()}
    return KeyPlace(kube, sweep_path, name, keys, values)


def read_wandb_secret(kube: Kube) -> str | None:
    """Return the key in `wandb-secret`; None if there is none or we may not read it."""
    try:
        secret = kube.get(SECRET, WANDB_SECRET)
    except KubeError as error:
        if error.status != 403:
            raise
        return None
    return decode_key(secret) if secret else None


def decode_key(secret: Manifest) -> str | None:
    """Return the W&B key in a Secret object."""
    encoded = (secret.get("data") or {}).get(WANDB_SECRET_KEY)
    return base64.b64decode(encoded).decode(errors="replace").strip() if encoded else None
