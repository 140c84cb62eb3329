"""The text of a sweep file to its configuration and all that is wrong or doubtful about it; pure.

YAML's own traps are found here, too; what a configuration may hold is `validation/`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from deployer.config.document.yaml_document import (
    Document,
    Remark,
    parse_document,
    refers_to_itself,
)
from deployer.errors import ConfigError
from deployer.sweeps.problem import Problem
from deployer.sweeps.validation.configuration import check_config

# Where a word that YAML reads in its own way may change what a sweep does.
READ_AS_NUMBERS = ("parameters", "run_cap", "metric", "early_terminate")


@dataclass(frozen=True)
class Finding:
    """A complaint about a file; `line` and `column` count from 1, and are 0 for what is missing."""

    file: str
    line: int
    column: int
    severity: Literal["error", "warning"]
    path: str
    message: str
    hint: str

    @property
    def place(self) -> str:
        """Return the place such as `sweeps/lr.yaml:12: parameters.lr.min`."""
        line = f":{self.line}" if self.line else ""
        return f"{self.file}{line}: {self.path}" if self.path else f"{self.file}{line}"


@dataclass(frozen=True)
class Examination:
    """A configuration as it was read, and what was found, in the order of the file."""

    config: dict[str, Any]
    document: Document
    findings: tuple[Finding, ...]


def examine_sweep(text: str, place: str, run_cap: int | None = None) -> Examination:
    """Read the text of a sweep file; `place` names it, and `run_cap` replaces its own.

    Raise ConfigError where there is no configuration at all.
    """
    document = parse_document(text, place)
    config = _as_mapping(document)
    if run_cap is not None:
        config["run_cap"] = run_cap
    return Examination(config, document, list_findings(document, check_config(config)))


def list_findings(document: Document, problems: Iterable[Problem]) -> tuple[Finding, ...]:
    """Return problems, and YAML's remarks, in the order of the file; no doubt beside an error."""
    remarks: list[Remark] = [*document.duplicates]
    remarks += [r for r in document.scalars if r.path[0] in READ_AS_NUMBERS]
    found = [*problems, *(Problem(r.path, r.message, r.hint, "warning") for r in remarks)]
    wrong = {one.path for one in found if one.severity == "error"}
    kept = [one for one in found if one.severity == "error" or one.path not in wrong]
    return tuple(sorted((locate(document, one) for one in kept), key=_place_in_file))


def locate(document: Document, problem: Problem) -> Finding:
    """Return a problem with its place in the file."""
    path = problem.path
    return Finding(
        document.place,
        document.line_of(path),
        document.column_of(path),
        problem.severity,
        document.name_of(path),
        problem.message,
        problem.hint,
    )


def _place_in_file(finding: Finding) -> tuple[int, int]:
    return finding.line, finding.column


def _as_mapping(document: Document) -> dict[str, Any]:
    hint = "begin with program: train.py, method: grid and parameters:"
    if document.value is None or document.value == {}:
        raise ConfigError(document.place, "the file is empty", hint)
    if not isinstance(document.value, dict):
        kind = type(document.value).__name__
        raise ConfigError(document.place, f"a {kind}, not a mapping of keys to values", hint)
    if refers_to_itself(document):
        raise ConfigError(document.place, "an anchor contains itself", "remove the inner alias")
    return dict(document.value)
