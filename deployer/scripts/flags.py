"""The flags of a script, as its own parser has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Flag:
    """One flag; `default` is a plain value, else None, and `plain` flags take no value.

    `paired` flags have a --no-NAME that no agent writes.
    """

    name: str
    type: str = ""
    choices: tuple[Any, ...] = ()
    default: Any = None
    required: bool = False
    plain: bool = False
    many: bool = False
    paired: bool = False
    help: str = ""
    place: str = ""


def parse_flag(said: Mapping[str, Any], place: str) -> Flag | None:
    """Return a flag from a rehearsal's answer; None if an agent cannot write it as --NAME."""
    names = [name[2:] for name in said["names"] if name.startswith("--")]
    if not names:
        return None
    default = said["default"]
    return Flag(
        name=names[0],
        type=said["type"] or _name_type(default),
        choices=tuple(said["choices"]),
        default=default,
        required=said["required"],
        plain=not said["takes_value"],
        many=said["many"],
        paired=said["paired"],
        help=" ".join(str(said["help"]).split()),
        place=place,
    )


def _name_type(default: Any) -> str:
    return "" if default is None else type(default).__name__
