"""The section `local:` of deployer.yaml: agents on this machine; pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from deployer.config.sections.section import STRICT, Section, Text


@dataclass(frozen=True, kw_only=True, config=STRICT)
class LocalConfig:
    """What runs on this machine use."""

    python: Annotated[
        Text | None,
        Field(
            description="The Python interpreter of the runs: a path, relative to deployer.yaml, or "
            "a name on PATH; left out: that of `VIRTUAL_ENV`, else of `CONDA_PREFIX`, else the "
            "first `python` on PATH if it has wandb, else the first `python3` if that has it, else "
            "deployer's own."
        ),
    ] = None


SECTION = Section("local", LocalConfig)
