"""The types of settings: what pydantic takes for each, and what to write where it takes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Any, NoReturn

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)
from pydantic_core import PydanticCustomError

from deployer.text import DURATION, DURATION_HINT, parse_duration

# No key that the class does not know, no text for a number. A class that is only read inside
# another needs no validator of its own.
STRICT = ConfigDict(extra="forbid", strict=True, defer_build=True)
# What to write instead of a text that does not match: the hint of each pattern.
PATTERN_HINTS: dict[str, str] = {}


def refuse(said: str, hint: str = "") -> NoReturn:
    """Raise what a validator says of a value; text in braces stays as it is."""
    raise PydanticCustomError("refused", "{said}", {"hint": hint, "said": said})


def refuse_twice(items: Iterable[Any], within: str = "") -> None:
    """Refuse items of which two have the same name, or the same path."""
    for what in ("name", "path"):
        seen = [getattr(one, what) for one in items]
        twice = next((value for value in seen if seen.count(value) > 1), None)
        if twice is not None:
            refuse(f"{within}two entries have the {what} '{twice}'", f"give each its own {what}")


def section() -> Any:
    """Return the default of a section, which its class makes of no keys.

    The class itself as the factory would build its validator a second time, apart from the file's.
    """
    return Field(default_factory=dict, validate_default=True)


def matching(pattern: str, hint: str = "") -> StringConstraints:
    """Return the constraint that a text matches; the hint says what to write."""
    PATTERN_HINTS[pattern] = hint
    return StringConstraints(pattern=pattern)


def at_least(seconds: int) -> AfterValidator:
    """Return a validator that refuses a shorter duration."""

    def check(value: timedelta) -> timedelta:
        if value.total_seconds() < seconds:
            refuse(f"is shorter than {seconds}s")
        return value

    return AfterValidator(check)


def make_tuple(value: object) -> object:
    """Take one text as a list of one."""
    if isinstance(value, str):
        return (value,)
    # A validator's value is taken as Python's own, where only a tuple is strictly a tuple.
    return tuple(value) if isinstance(value, list) else value


def _number_to_text(value: object) -> object:
    """Take YAML's numbers where text is wanted; a boolean is no number."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _read_duration(value: object) -> timedelta:
    if isinstance(value, timedelta):  # `replace` checks a section again
        return value
    try:
        return timedelta(seconds=parse_duration(str(value)))
    except ValueError as error:
        refuse(str(error), DURATION_HINT)


Text = Annotated[str, StringConstraints(min_length=1)]
Value = Annotated[str, BeforeValidator(_number_to_text, json_schema_input_type=str | int | float)]
Duration = Annotated[
    timedelta,
    BeforeValidator(
        _read_duration,
        json_schema_input_type=Annotated[str, Field(pattern=f"^{DURATION.pattern}$")],
    ),
]
