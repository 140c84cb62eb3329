"""An explicit list of hyperparameter sets as a file, and as the sweep that runs exactly those.

The form with `hyperparam_set` is that of scripts which pick their own set by `JOB_ID`, counted from
1: https://github.com/EdinburghNLP/eidf-epcc-cluster. A plain list of mappings, JSON and CSV are
read, too. `load_sets` reads a file; everything else is pure.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deployer.config.yaml_document import Document, parse_document, refers_to_itself
from deployer.errors import ConfigError, ConfigErrors
from deployer.sweeps.configuration_list import (
    JOB_ID,
    JOB_ID_MACRO,
    PARAMETER,
    build_command,
    find_list_parameter,
    list_configurations,
)
from deployer.sweeps.configurations import configuration_key
from deployer.sweeps.parameters.parse import parse_parameters
from deployer.text import format_count

KEY = "hyperparam_set"
# In the command of a sweep whose script reads the file itself: which one.
FILE_VARIABLE = "HYPERPARAMETERS_FILE"
EXAMPLE = "write a list, each item such as - {lr: 0.1, batch_size: 32}"
# A cell that reads otherwise, such as 007 or 1_000, is text.
WORDS: Mapping[str, bool] = {"true": True, "false": False}
INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")


@dataclass(frozen=True)
class HyperparameterSets:
    """The sets of a file in order; `warnings` are sentences.

    `wrapped` tells that each stands under `hyperparam_set`, so that the script reads the file.
    """

    sets: tuple[dict[str, Any], ...]
    wrapped: bool
    warnings: tuple[str, ...] = ()


def load_sets(path: Path) -> HyperparameterSets:
    """Read a file of sets; raise ConfigErrors with every complaint, or ConfigError."""
    place = str(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(place, "not a text file in UTF-8", "save it as UTF-8") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(place, f"cannot be read: {reason}", "name a file of sets") from error
    return parse_sets(text, place)


def parse_sets(text: str, place: str) -> HyperparameterSets:
    """Read the text of a file; the end of its name says whether it is CSV, JSON or YAML."""
    kind = Path(place).suffix.lower()
    if kind == ".csv":
        document = _read_csv(text, place)
    else:
        document = _read_json(text, place) if kind == ".json" else parse_document(text, place)
    items = _list_items(document)
    wrapped = any(isinstance(item, Mapping) and KEY in item for item in items)
    errors = [e for n, item in enumerate(items) for e in _check_item(document, n, item, wrapped)]
    if errors:
        raise ConfigErrors(errors)
    sets = tuple(dict(item[KEY] if wrapped else item) for item in items)
    return HyperparameterSets(sets, wrapped, _list_warnings(document, items, sets, wrapped))


def build_sweep_config(
    found: HyperparameterSets, file: str, program: str, metric: str | None, goal: str
) -> dict[str, Any]:
    """Return a sweep that runs exactly the sets of `file`, with each one's number as `JOB_ID`.

    A script that reads the file itself gets no flags; the values are in `wandb.config` either way.
    """
    description = f"{format_count(len(found.sets), 'set')} of {file}"
    read = (f"{FILE_VARIABLE}={file}",) if found.wrapped else ()
    words = ("${env}", JOB_ID_MACRO, *read, "${interpreter}", "${program}")
    values = [{JOB_ID: number, **one} for number, one in enumerate(found.sets, start=1)]
    return {
        "description": description,
        "program": program,
        "method": "grid",
        **({"metric": {"name": metric, "goal": goal}} if metric else {}),
        "command": list(build_command(words if found.wrapped else (*words, "${args}"))),
        "parameters": {PARAMETER: {"values": values}},
    }


def list_sets(config: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    """Return the configurations of an explicit list in its order, or of any other grid.

    Raises ConfigError for a sweep that draws its configurations.
    """
    if find_list_parameter(config):
        listed = list_configurations(config)
        listed.sort(key=lambda one: one.get(JOB_ID, 0))
        return [{key: value for key, value in one.items() if key != JOB_ID} for one in listed]
    if config.get("method") != "grid":
        said = f"method {config.get('method')} draws its configurations as it runs"
        raise ConfigError(place, said, "export the sweep once it has run: deployer sweep list")
    space, _ = parse_parameters(config.get("parameters"))
    points = (space.grid_point(number) for number in range(space.grid_size or 0))
    return [dict(point) for point in points if point is not None]


def check_sets_file(config: Mapping[str, Any], folder: Path, place: str) -> None:
    """Refuse a sweep whose runs would read other sets in `folder` than it shows for them.

    That is where the file is not there, or was edited since. Raises ConfigError.
    """
    words = map(str, config.get("command") or ())
    name = next((w.partition("=")[2] for w in words if w.startswith(f"{FILE_VARIABLE}=")), "")
    if not name:
        return
    again = f"deployer sweep import {name} --to {place} --force, with the options of the first time"
    if not (folder / name).is_file():
        said = f"runs read {name}, and there is none in {folder}"
        raise ConfigError(place, said, f"copy it there; code from git: git add {name}, commit")
    sets = dict(enumerate(load_sets(folder / name).sets, start=1))
    if any(sets.get(number) != one for number, one in _list_numbered(config)):
        raise ConfigError(place, f"its sets are not those of {name}", again)


def _list_numbered(config: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the sets of a sweep with their numbers: all, those that are healed, or a single one."""
    form = (config.get("parameters") or {}).get(PARAMETER) or {}
    for value in form.get("values") or [form.get("value")]:
        if isinstance(value, Mapping) and JOB_ID in value:
            yield value[JOB_ID], {key: v for key, v in value.items() if key != JOB_ID}


def dump_sets(sets: Sequence[Mapping[str, Any]]) -> str:
    """Return a file of sets in the form with `hyperparam_set`."""
    wrapped = [{KEY: dict(one)} for one in sets]
    return yaml.safe_dump(wrapped, sort_keys=False, allow_unicode=True)


def _read_json(text: str, place: str) -> Document:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{place}:{error.lineno}:{error.colno}"
        raise ConfigError(where, f"unreadable JSON: {error.msg}", "correct this line") from error
    return Document(place, value, {}, {}, (), ())


def _read_csv(text: str, place: str) -> Document:
    """Read a header and a set in each row; an empty cell leaves its key out of that set."""
    reader = csv.reader(text.splitlines())
    header = [name.strip() for name in next(reader, [])]
    lines: dict[tuple[str, ...], int] = {}
    rows: list[dict[str, Any]] = []
    for cells in reader:
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) > len(header):
            said = f"{len(cells)} cells, and the header names {len(header)}"
            hint = "put a cell that holds a comma in double quotes"
            raise ConfigError(f"{place}:{reader.line_num}", said, hint)
        lines[(f"[{len(rows)}]",)] = reader.line_num
        pairs = zip(header, cells, strict=False)
        rows.append({name: _read_cell(cell) for name, cell in pairs if cell.strip()})
    if twice := [name for name in header if not name or header.count(name) > 1]:
        said = f"the column '{twice[0]}' is there twice" if twice[0] else "a column has no name"
        raise ConfigError(f"{place}:1", said, "give each column a name of its own")
    return Document(place, rows, lines, {}, (), ())


def _read_cell(cell: str) -> Any:
    word = cell.strip()
    if word.lower() in WORDS:
        return WORDS[word.lower()]
    if INTEGER.fullmatch(word):
        return int(word)
    return float(word) if NUMBER.fullmatch(word) else word


def _list_items(document: Document) -> list[Any]:
    value = document.value
    if value is None or value in ([], {}):
        raise ConfigError(document.place, "there is no set in it", EXAMPLE)
    if isinstance(value, dict):
        raise ConfigError(document.place, "a mapping, not a list of sets", EXAMPLE)
    if not isinstance(value, list):
        raise ConfigError(document.place, f"a {type(value).__name__}, not a list of sets", EXAMPLE)
    if refers_to_itself(document):
        raise ConfigError(document.place, "an anchor contains itself", "remove the inner alias")
    return value


def _check_item(document: Document, number: int, item: Any, wrapped: bool) -> Iterator[ConfigError]:
    """Complain about one set: no mapping, empty, without its key, or with values that nest."""
    path: tuple[str, ...] = (f"[{number}]",)
    if not isinstance(item, Mapping):
        yield ConfigError(document.place_of(path), f"{item!r} is not a mapping", EXAMPLE)
        return
    if wrapped and KEY not in item:
        hint = f"write - {KEY}: {{…}}, as in the other sets"
        yield ConfigError(document.place_of(path), f"a set without {KEY}", hint)
        return
    if wrapped:
        item, path = item[KEY], (*path, KEY)
    if not isinstance(item, Mapping) or not item:
        said = "an empty set" if not item else f"{item!r} is not a mapping"
        yield ConfigError(document.place_of(path), said, "write names and values: {lr: 0.1}")
        return
    for key, value in item.items():
        place = document.place_of((*path, str(key)))
        if not isinstance(key, str) or key == JOB_ID:
            said = "is the number of the set itself" if key == JOB_ID else f"{key!r} is not a name"
            hint = "leave it out" if key == JOB_ID else "put it in quotes"
            yield ConfigError(place, said, hint)
        elif isinstance(value, Mapping | list):
            hint = f"write it flat, such as {key}_lr: 0.1"
            yield ConfigError(place, "a value inside a value", hint)
        elif not _is_scalar(value):
            yield ConfigError(place, f"{value} cannot be sent", f"put it in quotes: '{value}'")


def _is_scalar(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | int)


def _list_warnings(
    document: Document, items: Sequence[Any], sets: Sequence[Mapping[str, Any]], wrapped: bool
) -> tuple[str, ...]:
    """Say what YAML reads otherwise than it looks, what nobody reads, and what is there twice."""
    said = [
        f"{document.place_of(remark.path)}: {remark.message} ({remark.hint})"
        for remark in (*document.duplicates, *document.scalars)
    ]
    for number, item in enumerate(items) if wrapped else ():
        if others := [str(key) for key in item if key != KEY]:
            place = document.place_of((f"[{number}]", others[0]))
            said.append(f"{place}: is not in {KEY} and left out")
    seen: dict[Hashable, int] = {}
    for number, one in enumerate(sets):
        first = seen.setdefault(configuration_key(one), number)
        if first != number:
            place = document.place_of((f"[{number}]",))
            said.append(f"{place}: set {number + 1} is the same as set {first + 1}; both run")
    return tuple(said)
