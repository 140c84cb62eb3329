"""Edits of deployer.yaml that remedies advise, made to the letter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from deployer.config.kubernetes import ClusterConfig
from deployer.errors import EDIT
from tests.sections import parse_cluster


def follow(remedy: str, section: Mapping[str, Any]) -> ClusterConfig:
    """Return the section `kubernetes:` with an edit made; raises ConfigError if it is refused."""
    assert remedy.endswith(f" {EDIT}")
    changes = yaml.safe_load(remedy.removesuffix(f" {EDIT}"))
    assert list(changes) == ["kubernetes"]
    return parse_cluster({**section, **changes["kubernetes"]})
