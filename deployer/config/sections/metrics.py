"""The section `metrics:` of deployer.yaml: metrics of scripts that know no W&B; pure."""

import json
import re
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic.dataclasses import dataclass

from deployer.config.field_types import STRICT, Text, make_tuple, refuse

ALL = "all"
TENSORBOARD_STEP = "global_step"  # as agent/metrics/spec.py has it, which is above
# For runs whose exit code is all that counts: they are opened, and nothing is read.
EXIT_CODE_ALONE = '{"from": "none", "names": []}'
EXAMPLE = r"'loss: (?P<loss>\S+)'"
# Which of the other keys belong to which source.
OPTIONS = {
    "pattern": ("stdout",),
    "path": ("file", "tensorboard"),
    "format": ("file",),
    "step": ("stdout", "file"),
}


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


def _check_path(value: str) -> str:
    if ".." in PurePosixPath(value).parts:
        hint = "write it relative to DEPLOYER_OUTPUT_DIR, or with ./ to the working folder"
        refuse("is outside the run's folder", hint)
    return value


@dataclass(frozen=True, kw_only=True, config=STRICT)
class MetricsConfig:
    """Where a script's metrics are read; left out: the script logs them with wandb."""

    source: Annotated[Literal["stdout", "file", "tensorboard"] | None, Field(alias="from")] = None
    """`stdout` (and stderr), `file` (CSV or JSON lines), or `tensorboard` (event files)."""

    names: Annotated[
        tuple[Text, ...], BeforeValidator(make_tuple, json_schema_input_type=str | list[str])
    ] = ()
    """The names of metrics, or `all`. Default: the sweep's metric, or all if it has none; with
    `pattern`, its groups.
    """

    step: Text | None = None
    """The name whose value is the step, such as epoch. Default: rows count in order. TensorBoard
    has its own.
    """

    pattern: Annotated[Text, AfterValidator(_check_pattern)] | None = None
    """A regular expression with a named group for each metric, or with the groups `name` and
    `value`. Default: name=value pairs and JSON objects.
    """

    path: Annotated[Text, AfterValidator(_check_path)] | None = None
    """The file, or TensorBoard's folder (optional), relative to DEPLOYER_OUTPUT_DIR, or with `./`
    to the working folder.
    """

    format: Literal["csv", "json"] | None = None
    """`csv` or `json` lines; default: csv if `path` ends with .csv."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [name for name in ("names", *OPTIONS) if getattr(self, name)]
        if given and self.source is None:
            hint = "add `from: stdout`, `from: file` or `from: tensorboard`"
            said = f"{given[0]} needs `from`, which is missing"
            refuse(said, hint)
        for name in given:
            if name in OPTIONS and self.source not in OPTIONS[name]:
                said = f"{name} does not belong to from: {self.source}"
                known = " and ".join(f"from: {one}" for one in OPTIONS[name])
                hint = f"remove it: it belongs to {known}"
                refuse(said, hint)
        if self.source == "file" and self.path is None:
            hint = "path: metrics.csv, which the script writes to DEPLOYER_OUTPUT_DIR"
            refuse("path is missing", hint)
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
        path = self.path or ""
        told = {
            "from": self.source,
            "step": TENSORBOARD_STEP if self.source == "tensorboard" else self.step,
            "pattern": self.pattern,
            "path": path,
            "format": self.format or ("csv" if path.endswith(".csv") else "json"),
        }
        if self.source != "file":
            del told["format"]
        found: dict[str, Any] = {key: value for key, value in told.items() if value}
        if self.wanted != ():
            found["names"] = self.wanted
        return json.dumps(found)
