"""deployer.yaml as one frozen class; pure.

A setting is a name with its type and default, and its description below, which the editors' schema
and docs/reference.md have from here.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    Field,
    PlainValidator,
)
from pydantic.dataclasses import dataclass

from deployer.config.check import HINTS, read
from deployer.config.deployer_yaml import MOST_REPLICAS
from deployer.config.document.yaml_document import Document, Path
from deployer.config.field_types import STRICT, Text, refuse, section
from deployer.config.sections.backend import BackendConfig
from deployer.config.sections.data import DataSets
from deployer.config.sections.image import ImageConfig
from deployer.config.sections.kubernetes import ClusterConfig
from deployer.config.sections.metrics import MetricsConfig
from deployer.errors import ConfigError


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
    """deployer.yaml; what was left out has its default."""

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
    document: Document, value: Mapping[Any, Any], within: Path = ()
) -> tuple[Settings | None, list[ConfigError]]:
    """Read settings, also those inside another file, or say what keeps them from being read."""
    known = {*Settings.__dataclass_fields__, "True"}
    said = {str(key): one for key, one in value.items()}
    empty = [key for key, one in said.items() if one is None and key in known]
    hint = "write a value, or remove the key"
    problems = [((*within, key), "is empty", hint) for key in empty]
    if {"on", "True"} <= said.keys():
        problems.append(((*within, "on"), "is there twice", "remove one of them"))
        empty.append("on")
    kept = {key: one for key, one in said.items() if key not in empty}
    return read(Settings, document, kept, within, problems)
