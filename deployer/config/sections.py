"""The sections of deployer.yaml by name."""

from __future__ import annotations

from typing import Any

from deployer.config import (
    backend_section,
    code_section,
    data_section,
    image_section,
    kubernetes_section,
    outputs_section,
)
from deployer.config.section import Section

SECTIONS: dict[str, Section[Any]] = {
    section.name: section
    for section in (
        kubernetes_section.SECTION,
        image_section.SECTION,
        backend_section.SECTION,
        data_section.SECTION,
        code_section.SECTION,
        outputs_section.SECTION,
    )
}
