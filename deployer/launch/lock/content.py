"""A lock file's content: built from what was planned, written as YAML, read again; pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from deployer.config.check import list_problems
from deployer.config.document.yaml_document import MOST_VALUES, parse_document
from deployer.config.redaction import STRUCTURE, redact
from deployer.errors import ConfigError
from deployer.executors.base import Surroundings
from deployer.images.code_archive import LOCK_MARK
from deployer.images.code_state import CodeState
from deployer.sweeps.sweep_file import dump_config

VERSION = 1
END = "..."  # YAML's end of a document: a file without it was cut off
FIRST_LINE = re.compile(rf"{LOCK_MARK.decode()}: what (\S+/\S+/\S+) ran")
OTHER = "name a sweep, or the file SWEEP.lock.yaml that `deployer up` wrote beside it"
AGENT = "agent"  # the container of a pod that has several


@dataclass(frozen=True)
class DataState:
    """A data set as it was: `sha256` of all its files, empty where that was not read.

    `listed` has each file's checksum, or its size in a large data set; none of one of many files.
    """

    name: str
    place: str
    files: int = 0
    size_bytes: int = 0
    sha256: str = ""
    listed: Mapping[str, str] = field(default_factory=dict)


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
    # Packages may be called google-auth, and files token.py; the diff was searched for secrets
    # when it was read.
    kept = {name: plain.pop(name) for name in ("surroundings", "code")}
    kept["code"] = {name: value for name, value in kept["code"].items() if value}
    files = [one.pop("listed") for one in plain["data"]]
    content = {"version": VERSION, **redact(plain), **kept, "manifests": manifests}
    for one, listed in zip(content["data"], files, strict=True):
        one.update({"listed": listed} if listed else {})
    header = f"{LOCK_MARK.decode()}: what {lock.sweep} ran. To run its best again:\n"
    return f"{header}#   deployer reproduce best THIS_FILE\n{dump_config(content)}{END}\n"


def parse_lock(text: str, place: str) -> Lock:
    """Read the text of a lock file; raises ConfigError where it is none that we know."""
    if not text.startswith(LOCK_MARK.decode()):
        raise ConfigError(place, "is no lock file of deployer", OTHER)
    if not text.rstrip().endswith(f"\n{END}"):
        said = f"is cut off: the line {END} at its end is missing"
        raise ConfigError(place, said, _hint_at_copy(text))
    try:
        document = parse_document(text, place, 2 * MOST_VALUES)  # a sweep, and the rest
    except ConfigError as error:
        raise _say_broken(error, text) from error
    value = document.value
    version = value.get("version") if isinstance(value, dict) else None
    if isinstance(version, int) and version > VERSION:
        said = f"was written by a newer deployer: version {version}"
        raise ConfigError(place, said, "install a deployer as new as that one (docs/index.md)")
    try:
        return TypeAdapter(Lock).validate_python(value)
    except ValidationError as error:
        path, wrong, hint = list_problems(error, Lock, value)[0]
        raise _say_broken(ConfigError(document.place_of(path), wrong, hint), text) from error


def find_sweep(text: str) -> str:
    """Return the sweep that a lock file's first line names, whatever has become of the rest."""
    found = FIRST_LINE.match(text)
    return found[1] if found else ""


def _say_broken(error: ConfigError, text: str) -> ConfigError:
    said = error.findings[0].message
    return ConfigError(error.place, f"a broken lock file: {said}", _hint_at_copy(text))


def _hint_at_copy(text: str) -> str:
    own = f"deployer reproduce best {find_sweep(text)}, by this machine's own copy"
    return f"{own}; or git checkout the file" if find_sweep(text) else "git checkout the file"


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
