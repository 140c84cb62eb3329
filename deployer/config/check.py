"""Reads a YAML file into a class of settings, and reports every error with its line; pure."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Annotated, Any, NoReturn, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from deployer.config.document import Document, refers_to_itself
from deployer.config.redaction import CREDENTIALS
from deployer.errors import ConfigError, KeyPath
from deployer.text import DURATION, DURATION_HINT, parse_duration

# Refuses unknown keys, and text for a number. A class that is only read inside another needs no
# validator of its own.
STRICT = ConfigDict(extra="forbid", strict=True, defer_build=True)
# The hint of each pattern for a text that does not match.
PATTERN_HINTS: dict[str, str] = {}
Text = Annotated[str, StringConstraints(min_length=1)]
T = TypeVar("T")
PlaceOf = Callable[[KeyPath], str]
Problem = tuple[KeyPath, str, str]  # path, message, hint
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
    "a list": "write each item on its own line, after a dash",
}


def refuse(said: str, hint: str = "") -> NoReturn:
    """Raise a validator's error for a value; braces in the text stay unchanged."""
    raise PydanticCustomError("refused", "{said}", {"hint": hint, "said": said})


def refuse_twice(items: Iterable[Any], within: str = "") -> None:
    for what in ("name", "path"):
        seen = [getattr(one, what) for one in items]
        twice = next((value for value in seen if seen.count(value) > 1), None)
        if twice is not None:
            refuse(
                f"{within}two entries have the {what} '{twice}'", f"give each entry its own {what}"
            )


def section() -> Any:
    """Return the default of a section: its class, validated from no keys.

    The class itself as the factory would build its validator a second time, apart from the file's.
    """
    return Field(default_factory=dict, validate_default=True)


def matching(pattern: str, hint: str = "") -> StringConstraints:
    PATTERN_HINTS[pattern] = hint
    return StringConstraints(pattern=pattern)


def at_least(seconds: int) -> AfterValidator:
    def check(value: timedelta) -> timedelta:
        if value.total_seconds() < seconds:
            refuse(f"is shorter than {seconds}s")
        return value

    return AfterValidator(check)


def make_tuple(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    # A validator's return value is checked as a Python value, where strict mode accepts only a
    # tuple.
    return tuple(value) if isinstance(value, list) else value


def _number_to_text(value: object) -> object:
    """Convert YAML's numbers to text; a boolean is not a number."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _read_duration(value: object) -> timedelta:
    if isinstance(value, timedelta):  # `replace` validates a section again
        return value
    try:
        return timedelta(seconds=parse_duration(str(value)))
    except ValueError as error:
        refuse(str(error), DURATION_HINT)


Value = Annotated[str, BeforeValidator(_number_to_text, json_schema_input_type=str | int | float)]
Duration = Annotated[
    timedelta,
    BeforeValidator(
        _read_duration,
        json_schema_input_type=Annotated[str, Field(pattern=f"^{DURATION.pattern}$")],
    ),
]


def check(model: type[T], document: Document, value: object) -> T:
    """Read a file into a class; raise ConfigError with every error, in the file's order.

    `value` is the document's own, or its replacement.
    """
    found, problems = read(model, document, value)
    if found is None or problems:
        raise ConfigError.join(problems)
    return found


def read(
    model: type[T],
    document: Document,
    value: object,
    within: KeyPath = (),
    more: Sequence[Problem] = (),
) -> tuple[T | None, list[ConfigError]]:
    """Read a file, or its part at a path, into a class; return it or the errors.

    Errors are in the order of the file, including `more`. Raises ConfigError for a value that
    contains itself.
    """
    found: T | None = None
    twice = () if within else document.duplicates
    problems = [*more, *((one.path, one.message, one.hint) for one in twice)]
    plain = to_plain(document, value)
    adapter: TypeAdapter[T] = _adapt(model)  # type: ignore[arg-type]  # mypy: has no hash
    try:
        # As JSON, in which pydantic accepts lists for tuples, but no text for a number.
        found = adapter.validate_json(json.dumps(plain))
    except ValidationError as error:
        wrong = list_problems(error, model, plain)
        problems += [((*within, *path), said, hint) for path, said, hint in wrong]
    problems.sort(key=lambda one: document.line_of(one[0]))
    return found, [
        ConfigError(document.place_of(path), said, hint) for path, said, hint in problems
    ]


def change(settings: T, place: str, **values: object) -> T:
    """Return settings with other values; raise ConfigError for invalid ones."""
    try:
        return replace(settings, **values)  # type: ignore[type-var]
    except ValidationError as error:
        raise ConfigError.join(
            ConfigError(".".join((place, *path)), said, hint)
            for path, said, hint in list_problems(error, type(settings), values)
        ) from error


@cache
def _adapt(model: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(model)


def to_plain(document: Document, value: object, path: KeyPath = ()) -> Any:
    """Return a value of a file as JSON types; dates and the like become text.

    Raises ConfigError for a value that contains itself, and for keys that JSON does not allow.
    """
    if not path and refers_to_itself(document):
        raise ConfigError(document.place, "an anchor contains itself", "remove the inner alias")
    if isinstance(value, list):
        items = enumerate(value)
        return [to_plain(document, one, (*path, f"[{index}]")) for index, one in items]
    if not isinstance(value, dict):
        return value if value is None or isinstance(value, str | int | float) else str(value)
    plain = {}
    for key, one in value.items():
        if not isinstance(key, str | int | float | None):
            said = "a key must be text or a number"
            raise ConfigError(document.place_of(path), said, "put dates in quotes")
        plain[str(key)] = to_plain(document, one, (*path, str(key)))
    return plain


def list_problems(error: ValidationError, model: Any, value: object) -> list[Problem]:
    """Return path, message and hint of each error; only the first for each value.

    Messages omit user and password from addresses.
    """
    found: dict[tuple[KeyPath, bool], tuple[str, str]] = {}
    for one in error.errors(include_url=False):
        # Errors of a key are separate from those of its value.
        what = _find_path(one["loc"], value), "[key]" in one["loc"]
        found.setdefault(what, _describe(one, model))
    return [
        (path, CREDENTIALS.sub("", said), CREDENTIALS.sub("", hint))
        for (path, _), (said, hint) in found.items()
    ]


def _find_path(location: tuple[int | str, ...], value: Any) -> KeyPath:
    path: list[str] = []
    for part in location:
        if isinstance(value, dict) and isinstance(part, str) and part != "[key]":
            path.append(part)
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int):
            path.append(f"[{part}]")
            value = value[part]
        # Otherwise it is the item of a value that stands for a list of one, or the name of a
        # choice.
    return tuple(path)


def _describe(detail: ErrorDetails, model: Any) -> tuple[str, str]:
    """Return the error in our words, and the hint."""
    kind, given, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "unexpected_keyword_argument":
        return "unknown key", _hint_at_key(detail["loc"], model)
    if kind in KINDS:
        return f"{given!r} is not {KINDS[kind]}", HINTS[KINDS[kind]]
    if kind == "string_pattern_mismatch":
        return f"{given!r} is not valid", PATTERN_HINTS.get(context["pattern"], "")
    if kind == "literal_error":
        return f"{given!r} is not known", f"one of: {context['expected']}"
    if kind == "enum":
        known = re.findall("'([^']+)'", context["expected"])
        return f"{given!r} is not known", hint_nearest(str(given), known, "one of")
    if kind == "greater_than_equal":
        return f"{given:,} is below {context['ge']:,g}", f"write {context['ge']:g} or more"
    if kind == "less_than_equal":
        return f"{given:,} is above {context['le']:,g}", f"write {context['le']:g} or less"
    if kind == "missing":
        return "is missing", f"add `{detail['loc'][-1]}:`"
    return detail["msg"][:1].lower() + detail["msg"][1:], str(context.get("hint", ""))


def hint_nearest(given: str, known: Sequence[str], among: str) -> str:
    """Return a question with the most similar name, or all names."""
    near = difflib.get_close_matches(given, known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"{among}: {', '.join(known)}"


def _hint_at_key(location: tuple[int | str, ...], model: Any) -> str:
    *above, key = map(str, location)
    inside = _find_class(model)
    for part in above:
        # Item numbers and user-given names stay in the class that reads them.
        inside = _find_class(_list_fields(inside).get(part)) or inside
    fields = _list_fields(inside)
    deeper = [name for name, kind in fields.items() if key in _list_fields(_find_class(kind))]
    if deeper and not difflib.get_close_matches(key, fields, n=1):
        return f"did you mean `{deeper[0]}.{key}`?"
    return hint_nearest(key, list(fields), "known")


def _list_fields(model: Any) -> dict[str, Any]:
    fields = getattr(model, "__pydantic_fields__", {})
    return {one.alias or name: one.annotation for name, one in fields.items()}


def _find_class(annotation: Any) -> Any:
    if hasattr(annotation, "__pydantic_fields__"):
        return annotation
    return next(filter(None, map(_find_class, get_args(annotation))), None)
