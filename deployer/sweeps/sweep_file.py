"""Parses a W&B sweep file to a frozen `SweepFile`, reporting every error at once with its line.

Files are read as W&B reads them. `load_sweep` reads a file; everything else is pure.
"""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from deployer.config.document import (
    Document,
    Remark,
    parse_document,
    read_user_text,
    refers_to_itself,
)
from deployer.errors import ConfigError, Finding
from deployer.sweeps.keys import doubt
from deployer.sweeps.parameters import expected_count, fill_distributions
from deployer.sweeps.program import ASSIGNMENT, NO_PROGRAM, list_scripts
from deployer.sweeps.rules import check_config
from deployer.text import number_hint

# Keys where YAML's own reading of a word may change the sweep.
READ_AS_NUMBERS = ("parameters", "run_cap", "metric", "early_terminate")
PLACE = "deployer run"  # shown instead of a file name
RUN_PARAMETER = "deployer_run"  # W&B requires at least one parameter
TITLE_CHARACTERS = 80
# Runs in the user's image: standard library only, Python 3.8 or newer. It starts the command as its
# child, forwards signals and exits as the command did. After exit code 0 it makes sure that the
# server has a run: a script without wandb has opened none, unless a wrapper reads its metrics and
# opens the run. `allow`, since a script may have opened one in another folder: that run is kept.
START = """\
import sys
sys.path = [path for path in sys.path if path]
import glob, json, os, signal, subprocess
child = None

def hand_on(number, _):
    if child:
        child.send_signal(number)

def start(words, **more):
    global child
    try:
        child = subprocess.Popen(words, **more)
    except OSError as error:
        sys.stderr.write("deployer run: %s: %s\\n" % (words[0], error.strerror))
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
    return child.wait()

def list_runs():
    folder = os.path.join(os.environ.get("WANDB_DIR") or ".", "wandb")
    return set(glob.glob(os.path.join(glob.escape(folder), "run-*-" + os.environ["WANDB_RUN_ID"])))

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, hand_on)
before = list_runs()
code = start(json.loads(sys.argv[1]))
wrapped = "DEPLOYER_METRICS_CLAIM" in os.environ
if code == 0 and not wrapped and list_runs() == before:
    more = {"WANDB_RESUME": "allow", "WANDB_SILENT": "true"}
    record = [sys.executable, "-c", "import wandb; wandb.init(); wandb.finish()"]
    code = start(record, env=dict(os.environ, **more))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


# Parses the text of a sweep file to its configuration and all errors and warnings; pure. Includes
# YAML's own pitfalls; `rules.py` checks the configuration.


@dataclass(frozen=True)
class Examination:
    """A configuration, and the findings about it in the order of the file."""

    config: dict[str, Any]
    document: Document
    findings: tuple[Finding, ...]


def examine_sweep(text: str, place: str, run_cap: int | None = None) -> Examination:
    """Parse the text of a sweep file; `place` names it, and `run_cap` replaces its own.

    Raise ConfigError if there is no configuration at all.
    """
    document = parse_document(text, place)
    hint = "begin with program: train.py, method: grid and parameters:"
    if document.value is None or document.value == {}:
        raise ConfigError(document.place, "the file is empty", hint)
    if not isinstance(document.value, dict):
        kind = type(document.value).__name__
        raise ConfigError(document.place, f"a {kind}, not a mapping of keys to values", hint)
    if refers_to_itself(document):
        raise ConfigError(document.place, "an anchor contains itself", "remove the inner alias")
    config = dict(document.value)
    if run_cap is not None:
        config["run_cap"] = run_cap
    return Examination(config, document, list_findings(document, check_config(config)))


def list_findings(document: Document, problems: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return problems and YAML's warnings in file order; no warning next to an error."""
    remarks: list[Remark] = [*document.duplicates]
    remarks += [r for r in document.scalars if r.path[0] in READ_AS_NUMBERS]
    found = [*problems, *(doubt(r.path, r.message, r.hint) for r in remarks)]
    wrong = {one.path for one in found if one.is_error}
    kept = [one for one in found if one.is_error or one.path not in wrong]
    return tuple(sorted((locate(document, one) for one in kept), key=lambda one: one.position))


def locate(document: Document, found: Finding) -> Finding:
    """Return a finding with its position in the file, and its path as written there."""
    path = found.path
    return replace(
        found,
        subject=document.place,
        path=tuple(document.typed.get(path[: n + 1], name) for n, name in enumerate(path)),
        position=(document.line_of(path), document.column_of(path)),
    )


@dataclass(frozen=True)
class SweepFile:
    """A sweep that can run.

    `config` is sent to the server, distributions filled in; `text` is the same as YAML. `expected`
    is the number of configurations, None for an endless sweep. `warnings` are sentences, `document`
    is the file with its lines.
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
    """Read a sweep file; raise ConfigError if that fails."""
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
    """Return a hint: the likely file in the same folder, or how to make one."""
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
    doubts = [one for one in found if not one.is_error]
    errors = [ConfigError(one.place, one.message, one.fix) for one in found if one.is_error]
    if errors:
        raise ConfigError.join(errors, (replace(one, subject=one.place) for one in doubts))
    said = tuple(f"{one.place}: {one.message} ({one.fix})" for one in doubts)
    return _build(examined.config, said, examined.document)


def dump_config(config: dict[str, Any] | list[Any]) -> str:
    """Return a configuration, or a list, as YAML that every parser reads alike.

    Texts that some YAML version reads as a number ('008', '1e-5') are quoted; multi-line texts,
    such as a program, stay readable.
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
    """Quotes texts that some parser reads as numbers."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    risky = bool(number_hint(text)) or (text.startswith("0") and len(text) > 1)
    style = "|" if "\n" in text else "'" if risky else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_QuotingDumper.add_representer(str, _represent_text)


# The sweep of `deployer run`: one configuration, which is the verbatim command; pure.


def build_command_sweep(words: Sequence[str]) -> SweepFile:
    """Return the sweep that runs a command once; raises ConfigError if YAML cannot express it."""
    if words and ASSIGNMENT.match(words[0]):
        hint = f"deployer run -- env {shlex.join(words)}"
        raise ConfigError(PLACE, NO_PROGRAM % words[0], hint)
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            said = f"the word {word!r} is not UTF-8"
            raise ConfigError(PLACE, said, "pass it in a file") from None
    return parse_sweep(dump_config(build_command_config(words)), PLACE)


def build_command_config(words: Sequence[str]) -> dict[str, Any]:
    """Return its configuration. The words are JSON, which contains no macros.

    An agent replaces `${args}` and `${envvar:NAME}`, drops any other `${…}`, and has no quoting.
    """
    line = shlex.join(words)
    title = line if len(line) <= TITLE_CHARACTERS else f"{line[: TITLE_CHARACTERS - 1]}…"
    scripts = [name for _, name in list_scripts({"command": list(words)})]
    escaped = json.dumps(list(words)).replace("$", "\\u0024")
    return {
        "name": title,
        **({"program": scripts[0]} if scripts else {}),
        "method": "grid",
        "command": ["${env}", "${interpreter}", "-c", START, escaped],
        "parameters": {RUN_PARAMETER: {"value": line}},
    }
