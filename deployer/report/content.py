"""The content of a report, its HTML file, and where that is written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from deployer import __version__
from deployer.errors import ConfigError
from deployer.model import SweepPath
from deployer.page.single_file import Held, build_single_file
from deployer.report.collection import Material
from deployer.report.words import count_causes, describe_curves, list_failures
from deployer.sweeps.sweep_file import dump_config

# What JavaScript's encodeURIComponent leaves as it is.
UNQUOTED = "-_.!~*'()"
MARK = "<!-- A report of deployer. -->"
PAGES = (".html", ".htm")
MARKED_WITHIN = 200  # the mark stands in the first lines


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


def check_place(path: Path, *, force: bool) -> None:
    """Refuse, before a server is asked, what cannot be written; raises ConfigError."""
    if path.suffix.lower() not in PAGES:
        said = f"{path} does not end in .html, and a report is a page"
        raise ConfigError("--to", said, "--to report.html")
    folder = path.parent
    if path.is_dir():
        raise ConfigError(str(path), "is a folder", f"name a file: {path / 'report.html'}")
    if not folder.is_dir():
        raise ConfigError(str(path), f"folder {folder} not found", f"mkdir -p {folder}")
    if not os.access(folder, os.W_OK):
        said = f"you may not write to the folder {folder.resolve()}"
        raise ConfigError(str(path), said, "name a file in a folder of yours")
    if path.exists() and not force and not (path.is_file() and _is_report(path)):
        said = "the file exists and is not a report"
        raise ConfigError(str(path), said, "name another one, or --force overwrites it")


def _is_report(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        return MARK in file.read(MARKED_WITHIN)
