"""W&B sweep file to a frozen `Sweep`, every complaint at once with its line.

Files are read as W&B reads them. `load_sweep` reads a file; everything else is pure.
"""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from deployer.config.document import (
    Document,
    Remark,
    parse_document,
    read_user_text,
    refers_to_itself,
)
from deployer.errors import ConfigError, Finding, Severity
from deployer.sweeps.parameters.parse import expected_count, fill_distributions
from deployer.sweeps.problem import Problem
from deployer.sweeps.validation.configuration import check_config
from deployer.text import number_hint

# Where a word that YAML reads in its own way may change what a sweep does.
READ_AS_NUMBERS = ("parameters", "run_cap", "metric", "early_terminate")


@dataclass(frozen=True)
class Complaint:
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


# The text of a sweep file to its configuration and all that is wrong or doubtful about it; pure.
# YAML's own traps are found here, too; what a configuration may hold is `validation/`.


@dataclass(frozen=True)
class Examination:
    """A configuration as it was read, and what was found, in the order of the file."""

    config: dict[str, Any]
    document: Document
    findings: tuple[Complaint, ...]


def examine_sweep(text: str, place: str, run_cap: int | None = None) -> Examination:
    """Read the text of a sweep file; `place` names it, and `run_cap` replaces its own.

    Raise ConfigError where there is no configuration at all.
    """
    document = parse_document(text, place)
    config = _as_mapping(document)
    if run_cap is not None:
        config["run_cap"] = run_cap
    return Examination(config, document, list_findings(document, check_config(config)))


def list_findings(document: Document, problems: Iterable[Problem]) -> tuple[Complaint, ...]:
    """Return problems, and YAML's remarks, in the order of the file; no doubt beside an error."""
    remarks: list[Remark] = [*document.duplicates]
    remarks += [r for r in document.scalars if r.path[0] in READ_AS_NUMBERS]
    found = [*problems, *(Problem(r.path, r.message, r.hint, "warning") for r in remarks)]
    wrong = {one.path for one in found if one.severity == "error"}
    kept = [one for one in found if one.severity == "error" or one.path not in wrong]
    return tuple(sorted((locate(document, one) for one in kept), key=_place_in_file))


def locate(document: Document, problem: Problem) -> Complaint:
    """Return a problem with its place in the file."""
    path = problem.path
    return Complaint(
        document.place,
        document.line_of(path),
        document.column_of(path),
        problem.severity,
        document.name_of(path),
        problem.message,
        problem.hint,
    )


def _place_in_file(finding: Complaint) -> tuple[int, int]:
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


@dataclass(frozen=True)
class SweepFile:
    """A sweep that can run.

    `config` is what is sent, distributions filled in; `text` is the same as YAML. `expected` is
    the number of configurations, None for an endless one. `warnings` are sentences, `document` is
    the file with its lines.
    """

    name: str | None
    method: str
    program: str | None
    command: tuple[str, ...]
    metric_name: str | None
    metric_goal: str
    metric_target: float | None
    run_cap: int | None
    entity: str | None
    project: str | None
    config: dict[str, Any]
    text: str
    expected: int | None
    document: Document = field(repr=False, compare=False)
    warnings: tuple[str, ...] = ()


def load_sweep(path: str | Path, run_cap: int | None = None) -> SweepFile:
    """Read a sweep file; `run_cap` replaces the file's. Raise ConfigError with every complaint."""
    return parse_sweep(load_text(path), str(path), run_cap)


def load_text(path: str | Path) -> str:
    """Read a sweep file; raise ConfigError where that is not possible."""
    place = str(path)
    if not place or place == ".":
        raise ConfigError("FILE", "is empty", "name a W&B sweep file: deployer up sweeps/x.yaml")
    if place.endswith(".py") and Path(place).is_file():
        hint = f"deployer init {shlex.quote(place)}"
        raise ConfigError(place, "is a script, not a sweep file", hint)
    try:
        return read_user_text(Path(path))
    except UnicodeDecodeError as error:
        raise ConfigError(place, "not a UTF-8 text file", "save it as UTF-8") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(place, f"cannot be read: {reason}", _hint_at_file(Path(path))) from error


def _hint_at_file(path: Path) -> str:
    """Name the file of the same folder that was probably meant, else where one comes from."""
    others = {one.stem: one for kind in ("*.yaml", "*.yml") for one in path.parent.glob(kind)}
    near = difflib.get_close_matches(path.stem, others, n=1)
    if near and not path.exists():
        return f"did you mean {others[near[0]]}?"
    return "name a W&B sweep file; deployer init SCRIPT writes one"


def parse_sweep(text: str, place: str, run_cap: int | None = None) -> SweepFile:
    """Parse the text of a sweep file; `place` names it in complaints.

    Raise ConfigError with every complaint.
    """
    examined = examine_sweep(text, place, run_cap)
    found = examined.findings
    doubts = [f for f in found if f.severity == "warning"]
    errors = [ConfigError(f.place, f.message, f.hint) for f in found if f.severity == "error"]
    if errors:
        warnings = (Finding("sweep", f.place, f.message, f.hint, Severity.WARNING) for f in doubts)
        raise ConfigError.join(errors, warnings)
    said = tuple(f"{f.place}: {f.message} ({f.hint})" for f in doubts)
    return _build(examined.config, said, examined.document)


def dump_config(config: dict[str, Any] | list[Any]) -> str:
    """Return a configuration, or a list, as YAML that every reader understands alike.

    Texts that some YAML version takes for a number ('008', '1e-5') are quoted; those of several
    lines, such as a program, stay readable.
    """
    return yaml.dump(config, Dumper=_QuotingDumper, sort_keys=False, allow_unicode=True)


def _build(config: dict[str, Any], warnings: tuple[str, ...], document: Document) -> SweepFile:
    sent: dict[str, Any] = json.loads(json.dumps(fill_distributions(config)))
    metric = sent.get("metric", {})
    name = sent.get("name")
    return SweepFile(
        name=None if name is None else str(name),
        method=sent["method"],
        program=sent.get("program"),
        command=tuple(str(word) for word in sent.get("command") or ()),
        metric_name=metric.get("name"),
        metric_goal=metric.get("goal", "minimize"),
        metric_target=metric.get("target"),
        run_cap=sent.get("run_cap"),
        entity=sent.get("entity"),
        project=sent.get("project"),
        config=sent,
        text=dump_config(sent),
        expected=expected_count(sent),
        document=document,
        warnings=warnings,
    )


class _QuotingDumper(yaml.SafeDumper):
    """Quotes texts that look like numbers to some reader."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    risky = bool(number_hint(text)) or (text.startswith("0") and len(text) > 1)
    style = "|" if "\n" in text else "'" if risky else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_QuotingDumper.add_representer(str, _represent_text)
