"""A report as a page in one file."""

from __future__ import annotations

from deployer.page.single_file import Held, build_single_file
from deployer.report.collection import Material
from deployer.report.content import build_document, make_address

MARK = "<!-- A report of deployer. -->"


def build_html(material: Material) -> str:
    """Return the whole file."""
    return build_single_file(hold(material), MARK)


def hold(material: Material) -> Held:
    """Return the documents that the file holds: the sweep's page, its curves, its importance."""
    address = make_address(material.source.sweep.path)
    metric = material.results.metric
    return Held(
        start=address,
        pages={address: build_document(material)},
        curves={metric: list(material.curves)} if metric else {},
        importance={metric: material.importance} if metric else {},
    )
