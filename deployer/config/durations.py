"""Durations in deployer.yaml, written as on the command line: `30s`, `90m`, `2h`; pure."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from deployer.text import DURATION, DURATION_HINT, parse_duration


def at_least(seconds: int) -> AfterValidator:
    """Return a validator that refuses a shorter duration."""

    def check(value: timedelta) -> timedelta:
        if value < timedelta(seconds=seconds):
            raise PydanticCustomError("duration", "is shorter than {least}s", {"least": seconds})
        return value

    return AfterValidator(check)


def _read(value: object) -> timedelta:
    """Take a duration as text; a bare number has no unit."""
    if isinstance(value, timedelta):  # `replace` on a section checks it anew
        return value
    try:
        return timedelta(seconds=parse_duration(str(value)))
    except ValueError as error:
        context = {"said": str(error), "hint": DURATION_HINT}
        raise PydanticCustomError("duration", "{said}", context) from error


Duration = Annotated[
    timedelta,
    BeforeValidator(
        _read, json_schema_input_type=Annotated[str, Field(pattern=f"^{DURATION.pattern}$")]
    ),
]
