"""The section `metrics:` of deployer.yaml: metrics of scripts that know no W&B; pure."""

import json
import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic.dataclasses import dataclass

from deployer.config.field_types import STRICT, Text, make_tuple, refuse

ALL = "all"
EXAMPLE = r"'loss: (?P<loss>\S+)'"
OPTIONS = ("names", "step", "pattern")


def _check_pattern(value: str) -> str:
    try:
        compiled = re.compile(value)
    except re.error as error:
        hint = f"a regular expression as Python's re has it, such as {EXAMPLE}"
        refuse(f"is not a regular expression: {error}", hint)
    if not compiled.groupindex:
        hint = f"name each group after its metric: {EXAMPLE}"
        refuse("has no named group", hint)
    return value


@dataclass(frozen=True, kw_only=True, config=STRICT)
class MetricsConfig:
    """Where a script's metrics are read; left out: the script logs them with wandb."""

    source: Annotated[Literal["stdout"] | None, Field(alias="from")] = None
    """`stdout`: what the script prints, to stderr as well."""

    names: Annotated[
        tuple[Text, ...], BeforeValidator(make_tuple, json_schema_input_type=str | list[str])
    ] = ()
    """The names of metrics, or `all`. Default: the sweep's metric, or all if it has none; with
    `pattern`, its groups.
    """

    step: Text | None = None
    """The name whose value is the step, such as epoch. Default: rows count in order."""

    pattern: Annotated[Text, AfterValidator(_check_pattern)] | None = None
    """A regular expression with a named group for each metric, or with the groups `name` and
    `value`. Default: name=value pairs and JSON objects.
    """

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [name for name in OPTIONS if getattr(self, name)]
        if given and self.source is None:
            refuse(f"{given[0]} needs `from`, which is missing", "add `from: stdout`")
        return self

    @property
    def wanted(self) -> tuple[str, ...] | None:
        """Return the names that count, () for the sweep's metric, None for all."""
        if self.names == (ALL,):
            return None
        groups = re.compile(self.pattern).groupindex if self.pattern else ()
        if self.names or {"name", "value"} <= set(groups):
            return self.names
        return tuple(name for name in groups if name != self.step)

    @property
    def variable(self) -> str:
        """Return what agents are told (agent/metrics/spec.py), empty without the section."""
        if self.source is None:
            return ""
        told = {"step": self.step, "pattern": self.pattern}
        found: dict[str, Any] = {key: value for key, value in told.items() if value}
        if self.wanted != ():
            found["names"] = self.wanted
        return json.dumps(found)
