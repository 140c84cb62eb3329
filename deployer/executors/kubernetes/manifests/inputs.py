"""What manifests are made from: templates, the supervisor's zip file, the project's archive."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from deployer.config.sections.kubernetes import ClusterConfig
from deployer.executors.kubernetes.manifests.templates import Templates, load_templates
from deployer.images.code_archive import build_code_archive, build_supervisor_zip


@dataclass(frozen=True)
class Inputs:
    """Read once for a plan; `code` is None where the image's code runs."""

    templates: Templates
    supervisor: bytes = field(repr=False)
    code: bytes | None = field(repr=False)


def load_inputs(cluster: ClusterConfig, folder: Path, code_folder: Path) -> Inputs:
    """Read the templates of the project in `folder` and pack its code; raises ConfigError."""
    template = folder / cluster.template if cluster.template else None
    code = build_code_archive(code_folder) if cluster.code == "archive" else None
    return Inputs(load_templates(template), build_supervisor_zip(), code)
