"""Everything that is wrong or doubtful about a sweep file on disk, none of it raised."""

from __future__ import annotations

from pathlib import Path

from deployer.config.yaml_document import UnreadableYaml
from deployer.errors import ConfigError
from deployer.sweeps.examination import Finding, examine_sweep, locate
from deployer.sweeps.program import find_missing_scripts
from deployer.sweeps.sweep_file import load_text


def check_file(path: Path, folder: Path, run_cap: int | None = None) -> tuple[Finding, ...]:
    """Return the findings about a file, and the scripts that are not in the project's folder."""
    try:
        examined = examine_sweep(load_text(path), str(path), run_cap)
    except UnreadableYaml as error:
        return (_refuse(path, error.said, error.hint, error.line, error.column),)
    except ConfigError as error:
        return (_refuse(path, error.message.removeprefix(f"{error.place}: "), error.hint),)
    if any(one.severity == "error" for one in examined.findings):
        return examined.findings
    missing = find_missing_scripts(examined.config, folder)
    return (*(locate(examined.document, one) for one in missing), *examined.findings)


def _refuse(path: Path, said: str, hint: str, line: int = 0, column: int = 0) -> Finding:
    return Finding(str(path), line, column, "error", "", said, hint)
