"""A lock file's content: built from what was planned, written as YAML, read again; pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from deployer.config.redaction import STRUCTURE, redact
from deployer.config.yaml_document import parse_document
from deployer.errors import ConfigError
from deployer.executors.target import Surroundings
from deployer.images.code_archive import LOCK_MARK
from deployer.images.code_state import CodeState
from deployer.sweeps.sweep_file import dump_config

VERSION = 1
AGENT = "agent"  # the container of a pod that has several


@dataclass(frozen=True)
class DataState:
    """A data set as it was: `sha256` of all its files, empty where that was not read."""

    name: str
    place: str
    files: int = 0
    size_bytes: int = 0
    sha256: str = ""


@dataclass(frozen=True)
class Lock:
    """What a sweep ran.

    `server` is `embedded` or a base URL. `config` is what the server was sent, without secrets, and
    `manifests` are what the cluster was: everything shared, and the first agent's Job.
    """

    sweep: str
    server: str
    file: str
    on: str
    config: Mapping[str, Any]
    seeds: Mapping[str, Any]
    code: CodeState
    image: str = ""
    surroundings: Surroundings = field(default_factory=Surroundings)
    data: tuple[DataState, ...] = ()
    manifests: tuple[Mapping[str, Any], ...] = ()


def dump_lock(lock: Lock) -> str:
    """Return the text of a lock file; no value whose name looks like a secret is in it."""
    # By way of JSON: tuples become lists, and nothing is an alias of something else.
    plain = json.loads(json.dumps(asdict(lock)))
    manifests = redact(plain.pop("manifests"), STRUCTURE)
    # Packages may be called google-auth; the diff was searched for secrets when it was read.
    kept = {name: plain.pop(name) for name in ("surroundings", "code")}
    kept["code"] = {name: value for name, value in kept["code"].items() if value}
    content = {"version": VERSION, **redact(plain), **kept, "manifests": manifests}
    header = f"{LOCK_MARK.decode()}: what {lock.sweep} ran. To run its best again:\n"
    return f"{header}#   deployer reproduce best THIS_FILE\n{dump_config(content)}"


def parse_lock(text: str, place: str) -> Lock:
    """Read the text of a lock file; raises ConfigError where it is none that we know."""
    value = parse_document(text, place).value
    hint = "name a sweep, or the file SWEEP.lock.yaml that `deployer up` wrote beside it"
    if not isinstance(value, dict) or "version" not in value:
        raise ConfigError(place, "is no lock file", hint)
    if value.pop("version") != VERSION:
        raise ConfigError(place, "was written by another version of deployer", hint)
    try:
        around = value["surroundings"]
        return Lock(
            **{
                **value,
                "code": CodeState(**value["code"]),
                "surroundings": Surroundings(**{**around, "gpus": tuple(around["gpus"])}),
                "data": tuple(DataState(**one) for one in value["data"]),
                "manifests": tuple(value["manifests"]),
            }
        )
    except (TypeError, KeyError) as error:
        raise ConfigError(place, f"is no whole lock file: {error}", hint) from error


def list_manifests(documents: Sequence[object]) -> tuple[Mapping[str, Any], ...]:
    """Return what was planned as plain mappings: packed files by their hash, one Job for all.

    Secrets are left out: other objects name them.
    """
    found: list[Mapping[str, Any]] = []
    for document in documents:
        plain = document if isinstance(document, Mapping) else asdict(document)  # type: ignore[call-overload]
        kind = plain.get("kind")
        if kind == "Secret" or (kind == "Job" and any(one.get("kind") == "Job" for one in found)):
            continue
        packed = plain.get("binaryData")
        hashed = {name: _hash(text) for name, text in packed.items()} if packed else {}
        found.append({**plain, "binaryData": hashed} if packed else plain)
    return tuple(found)


def find_image(manifests: Sequence[Mapping[str, Any]]) -> str:
    """Return the image of the agents' container; empty where there is none."""
    jobs = [one for one in manifests if one.get("kind") == "Job"]
    containers = jobs[0]["spec"]["template"]["spec"]["containers"] if jobs else []
    named = [one for one in containers if one.get("name") == AGENT] or containers
    return str(named[0].get("image", "")) if named else ""


def _hash(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
