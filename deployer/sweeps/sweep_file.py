"""W&B sweep file to a frozen `Sweep`, every complaint at once, each with its place and line.

Files are read as W&B reads them. `load_sweep` reads a file; everything else is pure.
"""

from __future__ import annotations

import difflib
import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from deployer.config.document.yaml_document import Document
from deployer.config.user_file import read_user_text
from deployer.errors import ConfigError
from deployer.findings import Finding, Severity
from deployer.sweeps.examination import examine_sweep
from deployer.sweeps.parameters.counting import expected_count
from deployer.sweeps.parameters.parse import fill_distributions
from deployer.text import number_hint


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
