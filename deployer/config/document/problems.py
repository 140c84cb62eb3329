"""Translates pydantic's findings about a section to our errors, each with its place; pure."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from deployer.config.document.yaml_document import Document, refers_to_itself
from deployer.errors import ConfigError

PlaceOf = Callable[[tuple[str, ...]], str]
KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dataclass_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
}
HINTS = {
    "text": "put it in quotes",
    "a whole number": "write digits without quotes, such as 2",
    "a number": "write it without quotes, such as 0.5",
    "true or false": "write true or false, without quotes",
    "a mapping": "write `name: value` pairs below it",
    "a list": "write each item on a line of its own, after a dash",
}


@dataclass(frozen=True)
class Shape:
    """The class that reads a section, those that read keys inside it, and hints for patterns."""

    root: type
    parts: Mapping[str, type]
    pattern_hints: Mapping[str, str]


def list_problems(error: ValidationError, shape: Shape, place_of: PlaceOf) -> list[ConfigError]:
    """Return one complaint for each thing wrong; `place_of` names the place of a path."""
    return [_complain(one, shape, place_of) for one in error.errors(include_url=False)]


def write_json(document: Document) -> str:
    """Return a file's value as JSON, of which pydantic takes lists, and no text for a number.

    Raises ConfigError where YAML can write what JSON cannot.
    """
    if refers_to_itself(document):
        raise ConfigError(document.place, "an anchor contains itself", "remove the inner alias")
    try:
        return json.dumps(document.value, default=str)
    except TypeError as error:  # a key that is a date
        said = "a key is neither text nor a number"
        raise ConfigError(document.place, said, "put dates in quotes") from error


def list_path(location: tuple[int | str, ...]) -> tuple[str, ...]:
    """Return pydantic's location as a path of deployer.config.document.yaml_document."""
    # "[key]" is pydantic's word for a mapping's key as opposed to its value.
    parts = location[:-1] if location[-1:] == ("[key]",) else location
    return tuple(f"[{part}]" if isinstance(part, int) else part for part in parts)


def _complain(detail: ErrorDetails, shape: Shape, place_of: PlaceOf) -> ConfigError:
    message, hint = _describe(detail, shape)
    return ConfigError(place_of(list_path(detail["loc"])), message, hint)


def _describe(detail: ErrorDetails, shape: Shape) -> tuple[str, str]:
    """Return what is wrong in our words, and what to do about it."""
    kind, given, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "unexpected_keyword_argument":
        return "unknown key", _hint_at_key(detail["loc"], shape)
    if kind in KINDS:
        return f"{given!r} is not {KINDS[kind]}", HINTS[KINDS[kind]]
    if kind == "string_pattern_mismatch":
        return f"{given!r} is not valid", shape.pattern_hints.get(context["pattern"], "")
    if kind == "literal_error":
        return f"{given!r} is not known", f"one of: {context['expected']}"
    if kind == "enum":
        known = re.findall("'([^']+)'", context["expected"])
        return f"{given!r} is not known", hint_nearest(str(given), known, "one of")
    if kind == "missing":
        return "is missing", f"add `{detail['loc'][-1]}:`"
    return detail["msg"][:1].lower() + detail["msg"][1:], str(context.get("hint", ""))


def _hint_at_key(location: tuple[int | str, ...], shape: Shape) -> str:
    above = (shape.parts[part] for part in reversed(location[:-1]) if part in shape.parts)  # type: ignore[index]
    return hint_nearest(str(location[-1]), list_keys(next(above, shape.root)), "known")


def list_keys(root: type) -> list[str]:
    """Return the keys that a section's class reads; one may be named otherwise in Python."""
    read = getattr(root, "__pydantic_fields__", {})
    return [getattr(read.get(one.name), "alias", None) or one.name for one in fields(root)]


def hint_nearest(given: str, known: Sequence[str], among: str) -> str:
    """Return the question whether the name most like it was meant, or all names."""
    near = difflib.get_close_matches(given, known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"{among}: {', '.join(known)}"
