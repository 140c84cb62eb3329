"""Sections of deployer.yaml as its reader makes them, of what a test says without a file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deployer.config.data import DataSet
from deployer.config.document import FILE_NAME, parse_document
from deployer.config.kubernetes import ClusterConfig
from deployer.config.settings import BackendConfig, MetricsConfig, Settings, check_settings


def parse_cluster(section: object) -> ClusterConfig:
    return _parse(kubernetes=section).kubernetes


def parse_backend(section: object) -> BackendConfig:
    return _parse(backend=section).backend


def parse_data(section: object) -> tuple[DataSet, ...]:
    return _parse(data=section).data


def parse_metrics(section: object) -> MetricsConfig:
    return _parse(metrics=section).metrics


def _parse(**sections: Any) -> Settings:
    """Read sections that have no lines; None is a file without one."""
    given = {name: section for name, section in sections.items() if section is not None}
    return check_settings(replace(parse_document("", FILE_NAME), value=given))
