"""Where agents' keys are kept: in the shared `wandb-secret`, or in their owner's of the sweep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from deployer.config.credentials import Owner
from deployer.errors import KubeError
from deployer.executors.kubernetes.keys.key_secret import (
    WANDB_SECRET,
    WANDB_SECRET_KEY,
    create_secret,
    decode_key,
)
from deployer.executors.kubernetes.manifests.build import build_secret
from deployer.kube.client import Kube
from deployer.kube.objects import SECRET, Manifest, build_label, build_owned_name
from deployer.model import Plan

KEYS = "keys"


@dataclass(frozen=True)
class KeyStore:
    """A Secret and the key of each agent in it; `values` is what `write` puts there."""

    kube: Kube = field(repr=False)
    plan: Plan = field(repr=False)
    name: str
    keys: Mapping[str, str]
    values: Mapping[str, str] = field(repr=False)

    def write(self) -> None:
        """Add the keys to the Secret; those of agents that are at work stay.

        Raises KubeError, and ConfigError if `wandb-secret` has got another key meanwhile.
        """
        if self.values and self.name == WANDB_SECRET:
            create_secret(self.kube, self.values[WANDB_SECRET_KEY], self.plan.base_url)
        elif self.values:
            self._add_values()

    def _add_values(self) -> None:
        if _get_allowed(self.kube, self.name) is None:
            path = self.plan.sweep_path
            self.kube.create_once(build_secret(self.name, self.kube.namespace, self.values, path))
        self.kube.patch(SECRET, self.name, {"stringData": dict(self.values)})


def store_keys(
    kube: Kube, plan: Plan, api_keys: Mapping[str, str], by_identity: bool = False
) -> KeyStore:
    """Decide where to keep the agents' keys; writes nothing.

    There are none to keep if agents log in `by_identity`, unless they have keys of their own.
    Agents that share the user's key read `wandb-secret`, which is made if it does not exist: a key
    is then replaced in one place. If it holds another key, or may not be read, and for keys of
    agents' own, it is a Secret of this owner's agents of the sweep.
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
    """Return the Secret of a plan's agents and each agent's key in it, if nobody is in the way.

    Both are empty for agents that log in `by_identity`.
    """
    if plan.own_keys:
        return _name_own_keys(plan, agents, owner)
    if by_identity:
        return "", dict.fromkeys(agents, "")
    return WANDB_SECRET, dict.fromkeys(agents, WANDB_SECRET_KEY)


def name_secret(sweep_path: str, owner: Owner) -> str:
    """Return the name of the Secret with the keys of an owner's agents of a sweep."""
    return build_owned_name(sweep_path, owner, KEYS)


def _name_own_keys(plan: Plan, agents: Iterable[str], owner: Owner) -> tuple[str, dict[str, str]]:
    return name_secret(plan.sweep_path, owner), {agent: build_label(agent) for agent in agents}


def _find_missing(kube: Kube, key: str) -> dict[str, str] | None:
    """Return what has to be written for `wandb-secret` to hold this key; None if it may not be."""
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
