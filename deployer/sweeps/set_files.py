"""Files of hyperparameter sets, and the sweep that runs exactly those.

The form with `hyperparam_set` is for scripts that pick their own set by `JOB_ID`, counted from 1:
https://github.com/EdinburghNLP/eidf-epcc-cluster. A plain list of mappings also works.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from deployer.config.document import (
    MOST_VALUES,
    Document,
    Remark,
    parse_document,
    read_user_file,
    say_too_many,
)
from deployer.errors import ConfigError
from deployer.model import Run
from deployer.sweeps.configuration_list import (
    JOB_ID,
    JOB_ID_MACRO,
    PARAMETER,
    build_command,
    configuration_key,
    find_list_parameter,
    list_configurations,
)
from deployer.sweeps.parameters import parse_parameters
from deployer.sweeps.sweep_file import dump_config
from deployer.text import format_count
from deployer.wandb_api.model import Snapshot

KEY = "hyperparam_set"
EXAMPLE = (
    "write a list, each item such as - {lr: 0.1, batch_size: 32}; "
    "a table (.csv) has a header, and a row for each set"
)
YAML, JSON, TABLES = (".yaml", ".yml"), (".json",), (".csv", ".tsv")
# Names that some flag parser accepts: argparse, absl, fire, Hydra with its model.lr. A name with a
# comma or semicolon means that the header mixes two separators.
FLAG = re.compile(r"[^\s=\-\"'`,;][^\s=\"'`,;]*")
# Other cells, such as 007 or 1_000, are text.
NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
# A decimal comma or a thousands separator turns a cell into text.
ODD_NUMBER = re.compile(rf"(?!{NUMBER.pattern}\Z)[-+]?[0-9]+[.,' \u00a0][0-9.,' \u00a0]*")
LONGEST_NUMBER = 300  # Python reads no integer of more than 4300 digits
MOST_KEYS_SHOWN = 3
# In the command of a sweep whose script reads the file itself: the file's path.
FILE_VARIABLE = "HYPERPARAMETERS_FILE"


@dataclass(frozen=True)
class HyperparameterSets:
    """The sets of a file in order; `wrapped` is True if each is under `hyperparam_set`."""

    sets: tuple[dict[str, Any], ...]
    wrapped: bool
    warnings: tuple[str, ...] = ()


def load_sets(path: Path) -> HyperparameterSets:
    """Read a file of sets; raise ConfigError with every complaint."""
    place = str(path)
    try:
        text = read_user_file(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        hint = "save it as UTF-8 text, or from a spreadsheet as CSV UTF-8"
        raise ConfigError(place, "not a UTF-8 text file", hint) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(place, f"cannot be read: {reason}", "name a file of sets") from error
    return parse_sets(text, place)


def parse_sets(text: str, place: str) -> HyperparameterSets:
    """Parse the text of a file; the suffix of `place` selects table, JSON or YAML."""
    kind = Path(place).suffix.lower()
    read = _read_table if kind in TABLES else _read_json if kind in JSON else parse_document
    document = read(text, place)
    items = document.value
    if not isinstance(items, list) or not items:
        raise ConfigError(place, "not a list of sets" if items else "it has no sets", EXAMPLE)
    wrapped = any(isinstance(item, dict) and KEY in item for item in items)
    twice = (document.place_of(remark.path) for remark in document.duplicates)
    errors = [ConfigError(where, "is written twice", "remove one of them") for where in twice]
    sets = []
    for number, item in enumerate(items):
        one = item.get(KEY) if wrapped and isinstance(item, dict) else item
        path = (f"[{number}]", *((KEY,) if wrapped else ()))
        if isinstance(one, dict) and one:
            sets.append(one)
            errors += _check_set(one, path, document, wrapped)
        else:
            said = f"{one!r} is not a mapping" if one else "has no values"
            hint = "write names and values: {lr: 0.1}"
            errors.append(ConfigError(document.place_of(path), said, hint))
    if errors:
        raise ConfigError.join(errors)
    warnings = tuple(_list_warnings(document, sets, wrapped))
    return HyperparameterSets(tuple(sets), wrapped, warnings)


def dump_sets(sets: Sequence[Mapping[str, Any]], place: str = "", wrapped: bool = True) -> str:
    """Return the text of a file of sets, YAML unless the suffix of `place` names another format.

    Tables have no `hyperparam_set`. Raises ConfigError for a value that a table cannot hold.
    """
    kind = Path(place).suffix.lower()
    if kind in TABLES:
        for key, value in (pair for one in sets for pair in one.items()):
            text = str(value)
            again = _read_cell(text)
            same = type(again) is type(value) and again == value
            if not (same and text) or "\r" in text or key != key.strip():
                said = f"a table cannot hold {key}: {value!r}"
                raise ConfigError(place, said, "write it to a file that ends in .yaml or .json")
        names = list(dict.fromkeys(key for one in sets for key in one))
        written = io.StringIO()
        separator = _usual_separator(place)
        writer = csv.DictWriter(written, names, delimiter=separator, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sets)
        return written.getvalue()
    items = [{KEY: dict(one)} if wrapped else dict(one) for one in sets]
    if kind in JSON:
        return json.dumps(items, indent=2, ensure_ascii=False) + "\n"
    return dump_config(items)


def _read_json(text: str, place: str) -> Document:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{place}:{error.lineno}:{error.colno}"
        raise ConfigError(where, f"unreadable JSON: {error.msg}", "correct this line") from error
    except (RecursionError, ValueError) as error:  # ValueError: a number with thousands of digits
        raise ConfigError(place, f"unreadable JSON: {error}", EXAMPLE) from error
    # JSON is YAML except for tabs between values, and the YAML parser knows the lines.
    return replace(parse_document(text.replace("\t", " "), place), value=value, scalars=())


def _read_table(text: str, place: str) -> Document:
    """Read a header and rows; empty cells omit their key, and empty rows are skipped."""
    body = text.lstrip()
    above = text[: len(text) - len(body)].count("\n")
    header, *_ = body.splitlines() or [""]
    try:  # The Sniffer's time grows with the square of the length.
        separator = csv.Sniffer().sniff(header[:1000], ",;\t").delimiter
    except csv.Error:  # a single column
        separator = _usual_separator(place)
    rows = csv.DictReader(io.StringIO(body, newline=""), delimiter=separator, strict=True)
    sets: list[dict[str, Any]] = []
    lines: dict[tuple[str, ...], int] = {}
    remarks: list[Remark] = []
    end = above  # the last line of what is read
    try:
        names = [name.strip() for name in rows.fieldnames or ()]
        while names and not names[-1]:  # spreadsheets append empty columns
            names.pop()
        rows.fieldnames = names
        end = above + rows.line_num
        errors = list(_check_columns(names, f"{place}:{above + 1}"))
        for number, row in enumerate(rows, start=2):
            end = above + rows.line_num
            if number * len(names) > MOST_VALUES:
                raise ConfigError(f"{place}:{end}", *say_too_many(MOST_VALUES))
            extra = row.pop(None, [])
            cells = [cell for cell in (*row.values(), *extra) if cell is not None]
            if not any(map(str.strip, cells)):
                continue
            if None in row.values() or any(map(str.strip, extra)):
                said = f"{format_count(len(cells), 'cell')}, but the header has {len(names)}"
                hint = "write every separator; put a cell that holds one in double quotes"
                errors.append(ConfigError(f"{place}:{end}", said, hint))
                continue
            path = (f"[{len(sets)}]",)
            lines[path] = end
            remarks += [
                Remark(path, f"'{word}' is text, not a number", "write numbers like 1234.5")
                for word in map(str.strip, cells)
                if ODD_NUMBER.fullmatch(word)
            ]
            sets.append({name: _read_cell(cell) for name, cell in row.items() if cell.strip()})
    except csv.Error as error:
        said = f"cannot be read from here on: {error}"
        hint = 'close each double quote; one inside a cell is written twice: ""'
        raise ConfigError(f"{place}:{end + 1}", said, hint) from error
    if errors:
        raise ConfigError.join(errors)
    return Document(place, sets, lines, {}, (), tuple(remarks[:1]))


def _usual_separator(place: str) -> str:
    return "\t" if place.lower().endswith(".tsv") else ","


def _read_cell(cell: str) -> Any:
    word = cell.strip()
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    if len(word) > LONGEST_NUMBER or not NUMBER.fullmatch(word):
        return word
    return float(word) if any(letter in word for letter in ".eE") else int(word)


def _check_columns(names: Sequence[str], place: str) -> Iterator[ConfigError]:
    for name, times in Counter(names).items():
        if times > 1:
            said = f"the column '{name}' appears twice"
            yield ConfigError(place, said, "give each column its own name")
        elif name != KEY:
            yield from _check_name(name, place, wrapped=False)


def _check_name(name: Any, place: str, wrapped: bool) -> Iterator[ConfigError]:
    """Reject a name that a flag or, if `wrapped`, a script's own file cannot have."""
    if name in (JOB_ID, PARAMETER):
        yield ConfigError(place, f"{name!r} is a reserved name", "rename it")
    elif not isinstance(name, str):
        yield ConfigError(place, f"{name!r} is not a name", "put it in quotes")
    elif not (name.strip() and name.isprintable() and (wrapped or FLAG.fullmatch(name))):
        hint = "write a name such as learning_rate, without spaces, separators or a leading dash"
        yield ConfigError(place, f"{name!r} cannot be the name of a flag", hint)


def _check_set(
    one: Mapping[Any, Any], path: tuple[str, ...], document: Document, wrapped: bool
) -> Iterator[ConfigError]:
    """Reject bad names, and values that neither a flag nor JSON can express."""
    for name, value in one.items():
        shown = str(name) if str(name).isprintable() else repr(name)
        place = document.place_of((*path, shown))
        yield from _check_name(name, place, wrapped)
        if isinstance(value, dict | list):
            hint = f"write it flat, such as {name}_lr: 0.1"
            yield ConfigError(place, "a value inside a value", hint)
        elif (
            not (value is None or isinstance(value, str | int | float))
            or (isinstance(value, float) and not math.isfinite(value))
            or "\0" in str(value)
        ):
            hint = "write digits, or a text in quotes without NUL"
            yield ConfigError(place, f"{value} cannot be sent", hint)


def _list_warnings(
    document: Document, sets: Sequence[Mapping[str, Any]], wrapped: bool
) -> Iterator[str]:
    for remark in document.scalars:
        yield f"{document.place_of(remark.path)}: {remark.message} ({remark.hint})"
    names = dict.fromkeys(name for one in sets for name in one)
    seen: dict[Hashable, int] = {}
    missing: list[str] = []
    for number, one in enumerate(sets):
        place = document.place_of((f"[{number}]",))
        others = [key for key in document.value[number] if key != KEY] if wrapped else []
        if others:
            yield f"{place}: {others[0]} is outside {KEY} and ignored"
        first = seen.setdefault(configuration_key(one), number)
        if first != number:
            yield f"{place}: set {number + 1} is the same as set {first + 1}; both run"
        # Often a misspelled name; report only the first one.
        if not missing and (missing := [name for name in names if name not in one]):
            more = ", …" if len(missing) > MOST_KEYS_SHOWN else ""
            listed = ", ".join(missing[:MOST_KEYS_SHOWN]) + more
            yield f"{place}: has no {listed}, unlike other sets, so the script's default applies"


def build_sweep_config(
    found: HyperparameterSets, file: str, program: str, metric: str | None, goal: str
) -> dict[str, Any]:
    """Return a sweep that runs exactly the sets of `file`, with each one's number as `JOB_ID`.

    A script that reads the file itself gets no flags; the values are in `wandb.config` either way.
    """
    read = (f"{FILE_VARIABLE}={file}",) if found.wrapped else ()
    words = ("${env}", JOB_ID_MACRO, *read, "${interpreter}", "${program}")
    values = [{JOB_ID: number, **one} for number, one in enumerate(found.sets, start=1)]
    return {
        "description": f"{format_count(len(found.sets), 'set')} of {file}",
        "program": program,
        "method": "grid",
        **({"metric": {"name": metric, "goal": goal}} if metric else {}),
        "command": list(build_command(words if found.wrapped else (*words, "${args}"))),
        "parameters": {PARAMETER: {"values": values}},
    }


def list_sets(config: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    """Return the configurations of an explicit list or a grid; else raise ConfigError."""
    if find_list_parameter(config):
        listed = list_configurations(config)
        listed.sort(key=lambda one: one.get(JOB_ID, 0))
        return [{key: value for key, value in one.items() if key != JOB_ID} for one in listed]
    if config.get("method") != "grid":
        said = f"method {config.get('method')} draws its configurations as it runs"
        raise ConfigError(place, said, "export the sweep once it has run: deployer sweep list")
    space, _ = parse_parameters(config.get("parameters"))
    return space.list_points()


def find_run_of_set(snapshot: Snapshot, number: str) -> str:
    """Return the newest run of the set with this number; `number` itself if it is a run id."""

    def has_number(run: Run) -> bool:
        chosen = run.config.get(PARAMETER)
        return isinstance(chosen, Mapping) and str(chosen.get(JOB_ID, "")) == number

    if any(run.run_id == number for run in snapshot.runs):
        return number
    found = sorted(filter(has_number, snapshot.runs), key=lambda run: run.created_at or 0.0)
    return found[-1].run_id if found else number


def is_wrapped(config: Mapping[str, Any]) -> bool:
    """Return False for a sweep imported from a plain list, whose script gets flags."""
    numbered = JOB_ID_MACRO in map(str, config.get("command") or ())
    return bool(_find_sets_file(config)) or not numbered


def check_sets_file(config: Mapping[str, Any], folder: Path, place: str) -> None:
    """Raise ConfigError if the sets file that runs read is missing in `folder`, or differs."""
    name = _find_sets_file(config)
    if not name:
        return
    again = f"deployer sweep import {name} --to {place} --force, with the options of the first time"
    if not (folder / name).is_file():
        said = f"runs read {name}, which is missing in {folder}"
        raise ConfigError(place, said, f"copy it there; code from git: git add {name}, commit")
    sets = dict(enumerate(load_sets(folder / name).sets, start=1))
    if any(sets.get(number) != one for number, one in _list_numbered(config)):
        raise ConfigError(place, f"its sets differ from {name}", again)


def _find_sets_file(config: Mapping[str, Any]) -> str:
    """Return the file from which a sweep's script reads its set; empty if none."""
    words = map(str, config.get("command") or ())
    return next((w.partition("=")[2] for w in words if w.startswith(f"{FILE_VARIABLE}=")), "")


def _list_numbered(config: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield a sweep's sets with their numbers: all of them, the healed ones, or a single one."""
    form = (config.get("parameters") or {}).get(PARAMETER) or {}
    for value in form.get("values") or [form.get("value")]:
        if isinstance(value, Mapping) and JOB_ID in value:
            yield value[JOB_ID], {key: v for key, v in value.items() if key != JOB_ID}
