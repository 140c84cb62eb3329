"""deployer.yaml read once: its document, and every complaint about it at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from deployer.config.document.yaml_document import Document, parse_document
from deployer.config.user_file import read_user_text
from deployer.errors import ConfigError

FILE_NAME = "deployer.yaml"
KEYS: dict[str, type] = {
    "wandb": str,
    "entity": str,
    "project": str,
    "replicas": int,
    "on": str,
    "profile": str,
    "owner": str,
    "polls": str,
    "warm": bool,
    "isolate": bool,
    "kubernetes": dict,
    "gke": str,
    "image": dict,
    "backend": dict,
    "data": list,
    "code": dict,
    "outputs": dict,
    "metrics": dict,
    "local": dict,
}
CHOICES = {"polls": ("quick", "stock")}
NAME_LISTS = ("warm",)  # which may also be a list of modules
WORDS = {"code": ("git",)}  # that stand for a whole section
KINDS = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    dict: "a mapping",
    list: "a list of mappings",
}
HINTS: dict[type, str] = {
    str: "put it in quotes",
    int: "write digits without quotes, such as 2",
    bool: "write true or false, without quotes",
    dict: "write `name: value` pairs below it",
    list: "write `name: value` pairs below it",
}
SECTION_KINDS = (dict, list)
MOST_REPLICAS = 10_000


def read_document(folder: Path) -> Document | None:
    """Read deployer.yaml in a folder; None if there is none. Raises ConfigError.

    This is the only place that opens the file.
    """
    path = folder / FILE_NAME
    try:
        text = read_user_text(path)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        hint = "make it a text file in UTF-8 that you may read"
        raise ConfigError(str(path), f"cannot be read: {error}", hint) from error
    return parse_document(text, path.name)


def place_of_key(document: Document | None, name: str) -> str:
    """Name the place of a top-level key."""
    if document is None or not isinstance(document.value, dict):
        return f"{FILE_NAME}: {name}"
    keys = (str(key) for key in document.value if name in (key, "on" if key is True else ""))
    return document.place_of((next(keys, name),))


def place_of_flag(flag: str, value: str, environment: Mapping[str, str]) -> str:
    """Name the place of a flag's value: the variable that it came from, else the flag."""
    variable = f"DEPLOYER_{flag.strip('-').upper()}"
    return variable if environment.get(variable) == value else flag


def list_values(document: Document | None) -> Mapping[str, Any]:
    """Return the values by key; raises ConfigError with every complaint, also in sections."""
    value = document.value if document else None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(FILE_NAME, "is not a mapping", "write lines such as `replicas: 2`")
    # YAML 1.1 reads the key `on` as true.
    named = {"on" if key is True else str(key): item for key, item in value.items()}
    assert document is not None  # it has a value
    places = {name: document.place_of((str(key),)) for name, key in zip(named, value, strict=True)}
    errors = [e for key, item in named.items() if (e := _find_problem(places[key], key, item))]
    for remark in document.duplicates:
        errors.append(ConfigError(document.place_of(remark.path), remark.message, remark.hint))
    for section, kind in KEYS.items():
        value = named.get(section)
        # What the key itself refuses is said once.
        taken = SECTION_KINDS if kind is list else kind
        if kind in SECTION_KINDS and value and isinstance(value, taken):
            errors += _list_section_problems(document, section)
    if errors:
        raise ConfigError.join(errors)
    return named


def _find_problem(place: str, key: str, value: Any) -> ConfigError | None:
    if key not in KEYS:
        near = difflib.get_close_matches(key, KEYS, n=1) or _find_in_sections(key)
        hint = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(KEYS)}"
        return ConfigError(place, "unknown key", hint)
    if isinstance(value, str) and value in WORDS.get(key, ()):
        return None
    if key in NAME_LISTS and isinstance(value, list):
        wrong = [one for one in value if not re.fullmatch(r"[^\W\d]\w*(\.\w+)*", str(one))]
        hint = "write names as a script imports them, such as [lightning, sklearn]"
        return ConfigError(place, f"{wrong[0]!r} is not a package's name", hint) if wrong else None
    # One mapping stands for a list of one.
    kinds = SECTION_KINDS if KEYS[key] is list else KEYS[key]
    if key in WORDS and isinstance(value, str):
        hint = f"did you mean `{WORDS[key][0]}`? Or write `name: value` pairs below it"
        return ConfigError(place, f"'{value}' is not known", hint)
    if isinstance(value, bool) != (kinds is bool) or not isinstance(value, kinds):
        return ConfigError(place, f"{value!r} is not {KINDS[KEYS[key]]}", HINTS[KEYS[key]])
    if key in CHOICES and value not in CHOICES[key]:
        return ConfigError(place, f"{value!r} is not known", f"one of: {', '.join(CHOICES[key])}")
    if not isinstance(value, int) or kinds is not int:
        return None
    if value < 1:
        return ConfigError(place, f"{value} is below 1", "write 1 or more")
    return find_too_many(place, value) if key == "replicas" else None


def find_too_many(place: str, replicas: int, hint: str = "") -> ConfigError | None:
    """Return what is wrong with a number of agents that no sweep needs."""
    if replicas <= MOST_REPLICAS:
        return None
    said = f"{replicas:,} agents are more than {MOST_REPLICAS:,}"
    return ConfigError(place, said, hint or f"write {MOST_REPLICAS} or less")


def _find_in_sections(key: str) -> list[str]:
    """Return the paths of a key that stands in a section, not above all."""
    from deployer.config.document.problems import list_keys  # pydantic, as below
    from deployer.config.sections.registry import SECTIONS

    found = [one for one in SECTIONS.values() if is_dataclass(one.root)]
    return [f"{s.name}.{key}" for s in found if key in list_keys(s.root)]


def _list_section_problems(document: Document | None, name: str) -> list[ConfigError]:
    from deployer.config.sections.registry import SECTIONS  # pydantic: 0.1 s, for who has a section

    try:
        SECTIONS[name].read(document)
    except ConfigError as error:
        return [error]
    return []
