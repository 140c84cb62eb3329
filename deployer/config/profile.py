"""A site's profile: what its cluster demands of every Job, and settings that meet the demands.

One of infra/profiles, or a file of the user's own. What deployer.yaml says counts more than a
profile's defaults; nothing counts more than its demands.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from deployer.config.causes import Cause
from deployer.config.check import read
from deployer.config.deployer_yaml import FILE_NAME
from deployer.config.document.yaml_document import Document, parse_document
from deployer.config.field_types import STRICT, Text, Value
from deployer.config.paths import find_named
from deployer.config.sections.kubernetes_parts import Quantity
from deployer.config.settings import Settings, check_settings, read_settings
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
    defaults: Mapping[str, Any] | None = None
    demands: tuple[Demand, ...] = ()
    hints: Mapping[Cause, Text] = Field(default_factory=dict)


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
        hint = f"in {FILE_NAME}, kubernetes: {{namespace: YOURS}}, or -n YOURS"
        raise ConfigError(f"{FILE_NAME}: kubernetes.namespace", said, hint)
    document = parse_document(Template(text).safe_substitute(namespace=namespace or ""), named)
    if not isinstance(document.value, dict):
        raise ConfigError(named, "is not a mapping", "write `site:` and its name")
    profile, problems = read(Profile, document, document.value)
    defaults = document.value.get("defaults")
    if isinstance(defaults, dict):
        problems += read_settings(document, defaults, ("defaults",))[1]
    if profile is None or problems:
        raise ConfigError.join(problems)
    return profile


def merge_defaults(profile: Profile, document: Document) -> Settings:
    """Return deployer.yaml with the profile's defaults where it says nothing itself."""
    lower, upper = _name_on(profile.defaults or {}), _name_on(document.value or {})
    return check_settings(document, _merge(lower, upper))


def _name_on(value: Mapping[Any, Any]) -> dict[Any, Any]:
    """Name the key `on`, which YAML 1.1 reads as true, and JSON writes so."""
    return {"on" if str(key).lower() == "true" else key: one for key, one in value.items()}


def _merge(lower: Mapping[Any, Any], upper: Mapping[Any, Any]) -> dict[Any, Any]:
    merged = {**lower, **upper}
    for key in lower.keys() & upper.keys():
        if isinstance(lower[key], dict) and isinstance(upper[key], dict):
            merged[key] = _merge(lower[key], upper[key])
    return merged
