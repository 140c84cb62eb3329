"""The sections of deployer.yaml by name."""

from __future__ import annotations

from typing import Any

from deployer.config.sections import backend, code, data, image, kubernetes, local, metrics, outputs
from deployer.config.sections.section import Section

SECTIONS: dict[str, Section[Any]] = {
    section.name: section
    for section in (
        kubernetes.SECTION,
        image.SECTION,
        backend.SECTION,
        data.SECTION,
        code.SECTION,
        outputs.SECTION,
        metrics.SECTION,
        local.SECTION,
    )
}
