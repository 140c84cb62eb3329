"""The file deployer.yaml: reading it, and naming its places; without pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from deployer.config.document.yaml_document import Document, parse_document
from deployer.config.user_file import read_user_text
from deployer.errors import ConfigError

FILE_NAME = "deployer.yaml"
MOST_REPLICAS = 1000  # of a sweep and owner: a larger number is a slip


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
    if document is None:
        return f"{FILE_NAME}: {name}"
    # YAML 1.1 reads the key `on` as true.
    written = "True" if name == "on" and True in (document.value or {}) else name
    return document.place_of((written,))


def place_of_flag(flag: str, value: str, environment: Mapping[str, str]) -> str:
    """Name the place of a flag's value: the variable that it came from, else the flag."""
    variable = f"DEPLOYER_{flag.strip('-').upper()}"
    return variable if environment.get(variable) == value else flag


def find_too_many(place: str, replicas: int, hint: str = "") -> ConfigError | None:
    """Return what is wrong with a number of agents that no sweep needs."""
    if replicas <= MOST_REPLICAS:
        return None
    said = f"{replicas:,} agents are more than {MOST_REPLICAS:,}"
    return ConfigError(place, said, hint or f"write {MOST_REPLICAS} or less")
