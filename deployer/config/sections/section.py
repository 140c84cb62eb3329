"""A section of deployer.yaml: read into a frozen class, with every complaint at its place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Generic, TypeVar

from pydantic import BeforeValidator, ConfigDict, StringConstraints, TypeAdapter, ValidationError

from deployer.config.document.problems import PlaceOf, Shape, list_problems
from deployer.config.document.yaml_document import Document
from deployer.errors import ConfigError

T = TypeVar("T")
FILE_NAME = "deployer.yaml"
# How the classes of sections read: no key that they do not know, no text for a number.
STRICT = ConfigDict(extra="forbid", strict=True)


def _number_to_text(value: object) -> object:
    """Take YAML's numbers where text is wanted; a boolean is no number."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Text = Annotated[str, StringConstraints(min_length=1)]
Value = Annotated[str, BeforeValidator(_number_to_text, json_schema_input_type=str | int | float)]


@dataclass(frozen=True)
class Section(Generic[T]):
    """A section's name, the class that reads it, those that read keys inside, hints for patterns.

    The class needs no arguments: that is what a file without the section says.
    """

    name: str
    root: type[T]
    parts: Mapping[str, type] = field(default_factory=dict)
    pattern_hints: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def adapter(self) -> TypeAdapter[T]:
        """Return what reads the section, and knows its JSON schema."""
        return TypeAdapter(self.root)

    def parse(self, value: object, place_of: PlaceOf | None = None) -> T:
        """Read what YAML has made of the section; `place_of` names the place of a path inside.

        Raises ConfigError with every complaint.
        """
        places = place_of or self.place_of
        try:
            # As JSON, so that pydantic takes lists and mappings, and still no text for a number.
            return self.adapter.validate_json(
                json.dumps({} if value is None else value, default=str)
            )
        except ValidationError as error:
            shape = Shape(self.root, self.parts, self.pattern_hints)
            raise ConfigError.join(list_problems(error, shape, places)) from error
        except TypeError as error:  # a key that is a date
            raise ConfigError(places(()), str(error), "put it in quotes") from error

    def read(self, document: Document | None) -> T:
        """Read the section of deployer.yaml; the defaults without one.

        Raises ConfigError with every complaint and its line.
        """
        if document is None or not isinstance(document.value, dict):
            return self.root()
        value = document.value.get(self.name)
        return self.parse(value, lambda inside: document.place_of((self.name, *inside)))

    def place_of(self, path: tuple[str, ...]) -> str:
        """Name the place of a path such as (gpu, count) where no line of a file is known."""
        return ".".join((f"{FILE_NAME}: {self.name}", *path)).replace(".[", "[")
