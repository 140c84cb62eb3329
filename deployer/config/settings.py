"""The settings of deployer.yaml that have no file of their own, and its JSON schema.

A setting is a name with type and default. The string below it is its description, which the
editors' schema and docs/reference.md use.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Collection, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    PlainValidator,
    TypeAdapter,
    model_validator,
)
from pydantic.dataclasses import dataclass
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import DataclassSchema

from deployer.config.check import HINTS, STRICT, Text, Value, make_tuple, read, refuse, section
from deployer.config.data import DataSets
from deployer.config.document import FILE_NAME, MOST_REPLICAS, Document
from deployer.config.image import ImageConfig
from deployer.config.kubernetes import (
    ClusterConfig,
    Image,
    LabelKey,
    LabelValue,
    LongName,
    ObjectName,
    Quantity,
    Toleration,
)
from deployer.errors import ConfigError, KeyPath

ALL = "all"
EXAMPLE = r"'loss: (?P<loss>\S+)'"
OPTIONS = ("names", "step", "pattern")
PATH = Path(__file__).with_name("deployer.schema.json")
NULL = {"type": "null"}


# The section `backend:` of deployer.yaml: the embedded backend in a cluster; pure. Missing settings
# default to those of agents (`kubernetes:`), or to k8s/backend.yaml.


@dataclass(frozen=True, kw_only=True, config=STRICT)
class BackendConfig:
    """The backend's image, resources and disk."""

    image: Image | None = None
    """An image with Python 3.11 or newer; default: the agents' image."""

    python: Text | None = None
    """The Python interpreter in the image; default: the agents'."""

    size: Quantity | None = None
    """The size of a new disk for its data."""

    storage_class: LongName | None = None
    """The StorageClass of its disk; default: the cluster's."""

    cpu: Quantity | None = None
    """CPU cores: both the request and the limit."""

    memory: Quantity | None = None
    """Memory: both the request and the limit."""

    env: Mapping[str, Value] = Field(default_factory=dict)
    """Environment variables of the backend."""

    queue: ObjectName | None = None
    """Its LocalQueue of Kueue, if the site requires one for each workload."""

    node_selector: Mapping[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels that its node must have."""

    tolerations: tuple[Toleration, ...] = ()
    """Taints of nodes that it tolerates."""


def _check_pattern(value: str) -> str:
    try:
        compiled = re.compile(value)
    except re.error as error:
        hint = f"write a regular expression for Python's re module, such as {EXAMPLE}"
        refuse(f"is not a regular expression: {error}", hint)
    if not compiled.groupindex:
        hint = f"name each group after its metric: {EXAMPLE}"
        refuse("has no named group", hint)
    return value


@dataclass(frozen=True, kw_only=True, config=STRICT)
class MetricsConfig:
    """The source of a script's metrics; without it the script logs them with wandb."""

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
        if self.names == (ALL,):
            return None
        groups = re.compile(self.pattern).groupindex if self.pattern else ()
        if self.names or {"name", "value"} <= set(groups):
            return self.names
        return tuple(name for name in groups if name != self.step)

    @property
    def variable(self) -> str:
        """Return the variable for agents (agent/metric_lines.py), empty without the section."""
        if self.source is None:
            return ""
        told = {"step": self.step, "pattern": self.pattern}
        found: dict[str, Any] = {key: value for key, value in told.items() if value}
        if self.wanted != ():
            found["names"] = self.wanted
        return json.dumps(found)


def _read_warm(value: Any) -> Any:
    if isinstance(value, list):
        wrong = [one for one in value if not re.fullmatch(r"[^\W\d]\w*(\.\w+)*", str(one))]
        if wrong:
            hint = "write names as a script imports them, such as [lightning, sklearn]"
            refuse(f"{wrong[0]!r} is not the name of a package", hint)
        return tuple(map(str, value))
    if not isinstance(value, bool | tuple):
        refuse(f"{value!r} is not true or false", HINTS["true or false"])
    return value


@dataclass(frozen=True, kw_only=True, config=STRICT)
class LocalConfig:
    """Settings of runs on this machine."""

    python: Text | None = None
    """The Python interpreter of the runs: a path relative to deployer.yaml, or a name on PATH.
    Default, the first of: `VIRTUAL_ENV` if its Python is the first on PATH; `.venv`, `venv` or
    `.pixi/envs/default` in the project's folder; `CONDA_PREFIX`; the first on PATH that has wandb;
    deployer's own.
    """


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Settings:
    """deployer.yaml; missing settings have their defaults."""

    wandb: str | None = None
    """`embedded`, or the address of a W&B server."""

    entity: str | None = None
    """The owner of the sweeps: a user or a team."""

    project: str | None = None
    """The project of the sweeps."""

    replicas: Annotated[int, Field(ge=1, le=MOST_REPLICAS)] | None = None
    """The number of agents."""

    # YAML 1.1 reads the key as true.
    on: Annotated[str | None, Field(validation_alias=AliasChoices("on", "True"))] = None
    """Where agents run."""

    owner: str | None = None
    """The owner of created objects, as `--owner`; default: your user name in the cluster."""

    polls: Literal["quick", "stock"] | None = None
    """How soon an agent notices that its run has ended: `quick` at once, `stock` within 5 s, like
    `wandb agent`. Default: `quick` on the embedded backend, else `stock`.
    """

    warm: Annotated[
        bool | tuple[str, ...],
        PlainValidator(_read_warm, json_schema_input_type=bool | tuple[str, ...]),
    ] = True
    """Fork each run from a process that has preloaded wandb, numpy, torch and torchvision, if the
    script imports them; a list names more packages to preload.
    """

    isolate: bool = False
    """Give each run its own working folder, a copy of the project. By default, all runs share the
    project's folder.
    """

    kubernetes: ClusterConfig = section()
    """The cluster, and what each agent gets there."""

    gke: str | None = None
    """The GKE cluster: a specification file, or the name of a packaged specification."""

    image: ImageConfig = section()
    """An image that `up` builds and pushes for the agents."""

    backend: BackendConfig = section()
    """The embedded backend in a cluster."""

    data: DataSets = ()
    """The data sets: one mapping, or a list. `DEPLOYER_DATA_DIR` is the first."""

    code: Literal["git"] | None = None
    """The code that agents run: by default this folder's files; `git`: its commit."""

    metrics: MetricsConfig = section()
    """Where to read the metrics of a script without W&B."""

    local: LocalConfig = section()
    """Settings of runs on this machine."""


def check_settings(document: Document, value: Any = None) -> Settings:
    """Read deployer.yaml; raise ConfigError with every complaint.

    `value` replaces the document's own.
    """
    given = document.value if value is None else value
    given = {} if given is None else given
    if not isinstance(given, dict):
        raise ConfigError(document.place, "is not a mapping", "write lines such as `replicas: 2`")
    settings, problems = read_settings(document, given)
    if settings is None or problems:
        raise ConfigError.join(problems)
    return settings


def read_settings(
    document: Document, value: Mapping[Any, Any], within: KeyPath = ()
) -> tuple[Settings | None, list[ConfigError]]:
    """Read settings, possibly inside another file; return them or the errors."""
    known = {*Settings.__dataclass_fields__, "True"}
    said = {str(key): one for key, one in value.items()}
    empty = [key for key, one in said.items() if one is None and key in known]
    hint = "write a value, or remove the key"
    problems = [((*within, key), "is empty", hint) for key in empty]
    if {"on", "True"} <= said.keys():
        problems.append(((*within, "on"), "appears twice", "remove one of them"))
        empty.append("on")
    kept = {key: one for key, one in said.items() if key not in empty}
    return read(Settings, document, kept, within, problems)


class _Described(GenerateJsonSchema):
    """Describes each key by the string below it, in the order of the class.

    Pydantic's own `use_attribute_docstrings` would read the sources whenever a command reads the
    file.
    """

    def dataclass_schema(self, schema: DataclassSchema) -> JsonSchemaValue:
        found = super().dataclass_schema(schema)
        described = _list_descriptions(schema["cls"])
        properties = {}
        for name, field in schema["cls"].__pydantic_fields__.items():
            key = field.alias or name
            properties[key] = {**found["properties"][key], "description": described[name]}
        return {**found, "properties": properties}


def build_schema(executors: Collection[str]) -> dict[str, Any]:
    """Return the schema, generated from the classes that read the file; `on:` has `executors`."""
    schema = TypeAdapter(Settings).json_schema(schema_generator=_Described)
    for one in schema["properties"].values():
        # Null is not valid in deployer.yaml: an empty key is refused.
        choices = one.get("anyOf", ())
        if NULL in choices:
            choices.remove(NULL)
            del one["default"]
        if len(choices) == 1:
            one.update(one.pop("anyOf")[0])
    schema["properties"]["on"]["enum"] = list(executors)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": FILE_NAME}


def format_schema(executors: Collection[str]) -> str:
    return json.dumps(build_schema(executors), indent=2) + "\n"


def _list_descriptions(kind: type) -> dict[str, str]:
    [written] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(written, ast.ClassDef)
    found = {}
    for field, below in pairwise(written.body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found
