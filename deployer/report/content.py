"""The content of a report, its HTML file, and the checks of the file's path."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from deployer import __version__
from deployer.errors import ConfigError
from deployer.model import SweepPath
from deployer.page.single_file import FileContent, build_single_file
from deployer.report.collection import Material
from deployer.sweeps.results import Results, Row, describe_attempt
from deployer.sweeps.sweep_file import dump_config
from deployer.text import format_count

GOOD_CAUSES = ("finished", "delivered", "stopped")
# The characters that JavaScript's encodeURIComponent does not escape.
UNQUOTED = "-_.!~*'()"
MARK = "<!-- A report of deployer. -->"
PAGES = (".html", ".htm")
MARKED_WITHIN = 200  # the mark is in the first lines


def list_failures(results: Results, last_words: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the failed runs, with their causes, parameters and last output."""
    return [
        {
            "run": row.run_id,
            "title": row.title,
            "state": row.state,
            "cause": describe_cause(row),
            "said": last_words.get(row.run_id, ""),
            "attempts": max(1, len(row.attempts)),
            "parameters": row.parameters,
        }
        for row in results.failures
    ]


def describe_cause(row: Row) -> str:
    """Return how a run ended, if its server knows."""
    last = row.attempts[-1] if row.attempts else None
    if last and last.cause:
        return describe_attempt(last.cause, last.exit_code)
    return f"exit code {row.exit_code}" if row.exit_code is not None else row.state


def count_causes(rows: Sequence[Row]) -> Mapping[str, int]:
    """Count unfinished attempts by their causes, the most frequent first."""
    counted = Counter(
        describe_attempt(attempt.cause, attempt.exit_code)
        for row in rows
        for attempt in row.attempts
        if attempt.cause and attempt.cause not in GOOD_CAUSES
    )
    return dict(counted.most_common())


def describe_curves(shown: int, runs: int, metric: str | None) -> str:
    return f"curves of {metric} of {shown} of {format_count(runs, 'run')}" if metric else ""


@dataclass(frozen=True)
class TextFile:
    """A file in the report."""

    name: str
    text: str


def build_document(material: Material) -> dict[str, Any]:
    """Return the document of the sweep's page, with the report's own content in `report`."""
    return {**material.document, "report": _describe(material)}


def make_address(path: SweepPath) -> str:
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
    return build_single_file(hold(material), MARK)


def hold(material: Material) -> FileContent:
    """Return the documents in the file: the sweep's page, its curves, its importance."""
    address = make_address(material.source.sweep.path)
    metric = material.results.metric
    return FileContent(
        start=address,
        pages={address: build_document(material)},
        curves={metric: list(material.curves)} if metric else {},
        importance={metric: material.importance} if metric else {},
    )


def check_place(path: Path, *, force: bool) -> None:
    """Refuse a path that cannot be written, before any request; raises ConfigError."""
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
