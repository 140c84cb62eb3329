"""Where a report is written: never over what is no report."""

from __future__ import annotations

import os
from pathlib import Path

from deployer.errors import ConfigError
from deployer.report.html_file import MARK

PAGES = (".html", ".htm")
MARKED_WITHIN = 200  # the mark stands in the first lines


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
