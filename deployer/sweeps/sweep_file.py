"""W&B sweep file to a frozen `Sweep`, every complaint at once, each with its place and line.

Files are read as W&B reads them. `load_sweep` reads a file; everything else is pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deployer.config.yaml_document import Document, Remark, parse_document, refers_to_itself
from deployer.errors import ConfigError, ConfigErrors
from deployer.sweeps.parameters.counting import expected_count
from deployer.sweeps.parameters.parse import Problem, fill_distributions
from deployer.sweeps.validation import check_config
from deployer.text import number_hint


@dataclass(frozen=True)
class Sweep:
    """A sweep that can run.

    `config` is what is sent, distributions filled in; `text` is the same as YAML. `expected` is
    the number of configurations, None for an endless one. `content_hash` is the same for the same
    configuration, whatever the order and the comments of the file. `warnings` are sentences.
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
    content_hash: str
    warnings: tuple[str, ...] = ()


def load_sweep(path: str | Path, run_cap: int | None = None) -> Sweep:
    """Read a sweep file; `run_cap` replaces the file's. Raise ConfigErrors with every complaint."""
    place = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(place, "not a text file in UTF-8", "save it as UTF-8") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(place, f"cannot be read: {reason}", "name a W&B sweep file") from error
    return parse_sweep(text, place, run_cap)


def parse_sweep(text: str, place: str, run_cap: int | None = None) -> Sweep:
    """Parse the text of a sweep file; `place` names it in complaints.

    Raise ConfigErrors with every complaint, or ConfigError where YAML cannot be read at all.
    """
    document = parse_document(text, place)
    config = _as_mapping(document)
    if run_cap is not None:
        config["run_cap"] = run_cap
    problems = check_config(config)
    errors = [c for c in problems if c.severity == "error"]
    wrong = {c.path for c in errors}
    doubts = [c for c in problems if c.severity == "warning"]
    warnings = _warnings(document, doubts, wrong)
    if errors:
        raise ConfigErrors(
            [
                ConfigError(document.place_of(c.path), c.message, c.hint)
                for c in sorted(errors, key=lambda c: document.line_of(c.path))
            ],
            warnings,
        )
    return _build(config, warnings)


def dump_config(config: dict[str, Any] | list[Any]) -> str:
    """Return a configuration, or a list, as YAML that every reader understands alike.

    Texts that some YAML version takes for a number ('008', '1e-5') are quoted; those of several
    lines, such as a program, stay readable.
    """
    return yaml.dump(config, Dumper=_QuotingDumper, sort_keys=False, allow_unicode=True)


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


def _warnings(
    document: Document, doubts: list[Problem], wrong: Collection[tuple[str, ...]]
) -> tuple[str, ...]:
    """Return what is doubtful as sentences, in the order of the file; not where an error stands."""
    inside = tuple(r for r in document.scalars if r.path[0] == "parameters")
    remarks: list[Problem | Remark] = [*doubts, *document.duplicates, *inside]
    remarks = [remark for remark in remarks if remark.path not in wrong]
    remarks.sort(key=lambda remark: document.line_of(remark.path))
    return tuple(f"{document.place_of(r.path)}: {r.message} ({r.hint})" for r in remarks)


def _build(config: dict[str, Any], warnings: tuple[str, ...]) -> Sweep:
    sent: dict[str, Any] = json.loads(json.dumps(fill_distributions(config)))
    metric = sent.get("metric", {})
    name = sent.get("name")
    return Sweep(
        name=None if name is None else str(name),
        method=sent["method"],
        program=sent.get("program"),
        command=tuple(str(word) for word in sent.get("command", ())),
        metric_name=metric.get("name"),
        metric_goal=metric.get("goal", "minimize"),
        metric_target=metric.get("target"),
        run_cap=sent.get("run_cap"),
        entity=sent.get("entity"),
        project=sent.get("project"),
        config=sent,
        text=dump_config(sent),
        expected=expected_count(sent),
        content_hash=hashlib.sha256(json.dumps(sent, sort_keys=True).encode()).hexdigest(),
        warnings=warnings,
    )


class _QuotingDumper(yaml.SafeDumper):
    """Quotes texts that look like numbers to some reader."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    risky = bool(number_hint(text)) or (text.startswith("0") and len(text) > 1)
    style = "|" if "\n" in text else "'" if risky else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_QuotingDumper.add_representer(str, _represent_text)
