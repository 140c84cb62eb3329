"""A site's profile: what its cluster demands of every Job, and settings that meet the demands.

One of infra/profiles, or a file of the user's own. What deployer.yaml says counts more than a
profile's defaults; nothing counts more than its demands.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from deployer.config.causes import Cause
from deployer.config.deployer_yaml import FILE_NAME, list_values
from deployer.config.document.problems import Shape, list_problems, write_json
from deployer.config.document.yaml_document import Document, parse_document
from deployer.config.paths import find_named
from deployer.config.sections.kubernetes_parts import Quantity
from deployer.config.sections.section import STRICT, Text, Value
from deployer.config.user_file import read_user_text
from deployer.errors import ConfigError

NAMESPACE = "${namespace}"


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Demand:
    """What a Job has at a path, in which `*` is each item of a list: anything, or one of these.

    `at_most` is a bound where there is an amount at all. `hint` is the edit of deployer.yaml that
    meets the demand.
    """

    path: Annotated[tuple[Text, ...], Field(min_length=1)]
    hint: Text
    one_of: tuple[Value, ...] = ()
    at_most: int | Quantity | None = None


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Profile:
    """A site: values of deployer.yaml, what its Jobs have to have, what its users do about a wait.

    `hints` are by the cause for which an agent does not start.
    """

    site: Text
    defaults: Mapping[str, Any] = Field(default_factory=dict)
    demands: tuple[Demand, ...] = ()
    hints: Mapping[Cause, Text] = Field(default_factory=dict)


ADAPTER = TypeAdapter(Profile)
SHAPE = Shape(Profile, {"demands": Demand}, {})


def load_profile(named: str, source: str, folder: Path, namespace: str | None) -> Profile:
    """Read a profile by its name or path; raises ConfigError with every complaint.

    `source` is where it was named; `namespace` is what the text ${namespace} in it stands for.
    """
    path = find_named(named, folder, "infra/profiles", "profile")
    try:
        text = read_user_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(source, f"{named} cannot be read: {error}") from error
    if NAMESPACE in text and namespace is None:
        said = f"is missing, and the profile {named} needs it"
        hint = f"in {FILE_NAME}, kubernetes: {{namespace: YOURS}}"
        raise ConfigError(f"{FILE_NAME}: kubernetes.namespace", said, hint)
    filled = Template(text).safe_substitute(namespace=namespace or "")
    return _parse(parse_document(filled, named))


def merge_defaults(profile: Profile, document: Document | None) -> Document:
    """Return deployer.yaml with the profile's defaults where it says nothing itself."""
    known = document or Document(FILE_NAME, None, {}, {}, (), ())
    given: Mapping[Any, Any] = known.value or {}
    given = {"on" if key is True else key: one for key, one in given.items()}  # as YAML 1.1 has it
    return replace(known, value=_merge(profile.defaults, given))


def _parse(document: Document) -> Profile:
    value = json.loads(write_json(document))
    problems = [
        ConfigError(document.place_of(one.path), one.message, one.hint)
        for one in document.duplicates
    ]
    if not isinstance(value, dict):
        hint = "write `site:` and its name"
        raise ConfigError(document.place, "is not a mapping", hint)
    try:
        value["defaults"] = dict(list_values(_take_part(document, "defaults")))
    except ConfigError as error:
        problems.append(error)
    try:
        profile = ADAPTER.validate_json(json.dumps(value))
    except ValidationError as error:
        problems += list_problems(error, SHAPE, document.place_of)
    if problems:
        raise ConfigError.join(problems)
    return profile


def _take_part(document: Document, key: str) -> Document:
    """Return the part of a document below a key as one of its own, with its lines."""
    return replace(
        document,
        value=document.value.get(key),
        lines={path[1:]: line for path, line in document.lines.items() if path[0] == key},
        typed={path[1:]: name for path, name in document.typed.items() if path[0] == key},
        duplicates=(),
    )


def _merge(lower: Mapping[Any, Any], upper: Mapping[Any, Any]) -> dict[Any, Any]:
    merged = {**lower, **upper}
    for key in lower.keys() & upper.keys():
        if isinstance(lower[key], dict) and isinstance(upper[key], dict):
            merged[key] = _merge(lower[key], upper[key])
    return merged
