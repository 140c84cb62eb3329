"""Names, labels and selectors of Kubernetes objects; pure.

Objects are found by label; the whole path of the sweep, too long for a label, is an annotation.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from deployer.config.owner import Owner

PREFIX = "deployer.dev"
SWEEP_LABEL = f"{PREFIX}/sweep"
AGENT_LABEL = f"{PREFIX}/agent"  # as a label, and whole as an annotation
AGENTS_ANNOTATION = f"{PREFIX}/agents"  # the names of all agents of a pod that has several
OWNER_LABEL = f"{PREFIX}/owner"  # as a label a hash, as an annotation the readable name
NO_OWNER = "an unknown owner"  # of objects without the label, as older versions made them
SWEEP_PATH_ANNOTATION = f"{PREFIX}/sweep-path"
ARCHIVE_ANNOTATION = f"{PREFIX}/archive"  # the hash of the code of which a ConfigMap has a part
LOADER_LABEL = f"{PREFIX}/loader"  # tells data loaders apart
MADE_BY_ANNOTATION = f"{PREFIX}/made-by"  # the process that a data loader works for
KUEUE = "kueue.x-k8s.io"
QUEUE_LABEL = f"{KUEUE}/queue-name"
DEFAULT_QUEUE = "default"  # since 0.17 Kueue puts Jobs without a queue into the one of this name
MULTI_KUEUE = f"{KUEUE}/multikueue"
QUEUE_LIMIT_LABEL = f"{KUEUE}/max-exec-time-seconds"
QUEUE_PRIORITY_LABEL = f"{KUEUE}/priority-class"
MANAGED_BY = {"app.kubernetes.io/managed-by": "deployer"}
APPLICATION = {"app.kubernetes.io/name": "wandb-sweep"}
COMPONENT_LABEL = "app.kubernetes.io/component"
BACKEND = "backend"  # the component that is kept when everything else goes
DATA = "data"  # the component of claims of data sets, which only `data delete` removes
LOADER = "data-loader"  # the component of loaders, which end by themselves
WANTED = "wanted"  # the component of the number of agents that an owner wants

# A Job's pod adds 6 characters to its name and the server up to 5 for `generateName`; a label
# holds 63.
LONGEST_NAME = 52
LONGEST_LABEL = 63
HASH_LENGTH = 8

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


def build_name(text: str) -> str:
    """Return a name for an object: `text` itself if it is one, else a slug and a hash of it."""
    if len(text) <= LONGEST_NAME and _NAME.fullmatch(text):
        return text
    return _slug(text, LONGEST_NAME)


def build_label(text: str) -> str:
    """Return a label's value: `text` itself if it is one, else a slug and a hash of it."""
    if len(text) <= LONGEST_LABEL and _LABEL.fullmatch(text):
        return text
    return _slug(text, LONGEST_LABEL)


def build_hash(*contents: bytes) -> str:
    """Return 8 hexadecimal characters that tell contents apart."""
    return hashlib.sha256(b"\0".join(contents)).hexdigest()[:HASH_LENGTH]


def sweep_id(sweep_path: str) -> str:
    """Return the short id at the end of a sweep's path."""
    return sweep_path.rpartition("/")[2]


def build_owned_name(sweep_path: str, owner: Owner, *parts: str) -> str:
    """Return the name of what an owner's agents of a sweep need: no owner deletes another's."""
    what, *end = parts
    return build_name("-".join((sweep_id(sweep_path), what, owner.id[:HASH_LENGTH].lower(), *end)))


def build_labels(component: str, sweep_path: str = "", agent: str = "") -> dict[str, str]:
    """Return the labels of an object: of nothing in particular, of a sweep or of an agent."""
    labels = {**MANAGED_BY, **APPLICATION, COMPONENT_LABEL: build_label(component)}
    if sweep_path:
        labels[SWEEP_LABEL] = build_label(sweep_id(sweep_path))
    if agent:
        labels[AGENT_LABEL] = build_label(agent)
    return labels


def stamp_owner(manifest: Mapping[str, Any], owner: Owner) -> dict[str, Any]:
    """Return a manifest with its owner, as its Jobs and pods; the user's own stay as they are.

    Ours are told by their label `managed-by`.
    """
    stamped = dict(manifest)
    metadata = stamped.get("metadata") or {}
    if not is_ours(manifest):
        return stamped
    stamped["metadata"] = {
        **metadata,
        "labels": {**metadata["labels"], OWNER_LABEL: owner.id},
        "annotations": {**(metadata.get("annotations") or {}), OWNER_LABEL: owner.name},
    }
    for key in {"template", "jobTemplate"} & (stamped.get("spec") or {}).keys():
        stamped["spec"] = {**stamped["spec"], key: stamp_owner(stamped["spec"][key], owner)}
    return stamped


def is_ours(item: Mapping[str, Any]) -> bool:
    """Return True if `deployer` made an object, for whichever owner."""
    labels = (item.get("metadata") or {}).get("labels") or {}
    return MANAGED_BY.items() <= labels.items()


def read_owner(item: Mapping[str, Any]) -> Owner | None:
    """Return an object's owner; None if it has no owner label, as older versions made them."""
    metadata = item["metadata"]
    found = (metadata.get("labels") or {}).get(OWNER_LABEL)
    name = (metadata.get("annotations") or {}).get(OWNER_LABEL)
    return Owner(found, name or found) if found else None


def build_selector(sweep_path: str | None = None, component: str = "", agent: str = "") -> str:
    """Return the selector of what we made: everything, or of one sweep, component or agent.

    Short ids of different projects may be equal: compare the annotation with the whole path.
    """
    wanted = dict(MANAGED_BY)
    if component:
        wanted[COMPONENT_LABEL] = build_label(component)
    if sweep_path is not None:
        wanted[SWEEP_LABEL] = build_label(sweep_id(sweep_path))
    if agent:
        wanted[AGENT_LABEL] = build_label(agent)
    return join_selector(wanted)


def join_selector(labels: Mapping[str, str]) -> str:
    """Return labels as a selector that wants all of them."""
    return ",".join(f"{name}={value}" for name, value in labels.items())


def _slug(text: str, longest: int) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[: longest - HASH_LENGTH - 1].rstrip("-")
    return "-".join(part for part in (slug, build_hash(text.encode())) if part)
