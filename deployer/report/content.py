"""What a report has beyond the sweep's page, as a document; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from deployer import __version__
from deployer.model import SweepPath
from deployer.report.collection import Material
from deployer.report.words import count_causes, describe_curves, list_failures
from deployer.sweeps.sweep_file import dump_config

# What JavaScript's encodeURIComponent leaves as it is.
UNQUOTED = "-_.!~*'()"


@dataclass(frozen=True)
class TextFile:
    """A file as the report shows it."""

    name: str
    text: str


def build_document(material: Material) -> dict[str, Any]:
    """Return the document of the sweep's page, and in its `report` what only a report has."""
    return {**material.document, "report": _describe(material)}


def make_address(path: SweepPath) -> str:
    """Return the address of a sweep's page, as its scripts make it."""
    entity, project, sweep = (quote(part, safe=UNQUOTED) for part in path)
    return f"/{entity}/{project}/sweeps/{sweep}"


def list_files(material: Material) -> list[TextFile]:
    """Return the sweep's config as YAML, without secrets."""
    return [TextFile("sweep.yaml", dump_config(material.source.sweep.config))]


def _describe(material: Material) -> dict[str, Any]:
    results, source = material.results, material.source
    coverage = results.coverage
    return {
        "made_at": source.now,
        "version": __version__,
        "server": material.server_url,
        "page": material.page_url,
        "curves": describe_curves(len(material.curves), len(results.rows), results.metric),
        "failures": list_failures(results, material.last_words),
        "causes": count_causes(results.rows),
        "coverage": {**vars(coverage), "complete": coverage.complete},
        "files": [vars(file) for file in _as_texts(list_files(material))],
    }


def _as_texts(files: Sequence[TextFile]) -> list[TextFile]:
    return [file for file in files if file.text]
