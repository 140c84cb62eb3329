"""Files of hyperparameter sets: YAML, JSON or a table, read with every complaint, and written.

The form with `hyperparam_set` is that of scripts which pick their own set by `JOB_ID`, counted from
1: https://github.com/EdinburghNLP/eidf-epcc-cluster. A plain list of mappings is read, too.
`load_sets` reads a file; everything else is pure.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from deployer.config.document.yaml_document import (
    Document,
    TooMuch,
    parse_document,
    refers_to_itself,
)
from deployer.config.user_file import read_user_file
from deployer.errors import ConfigError
from deployer.sweeps.configuration_list import JOB_ID, PARAMETER
from deployer.sweeps.configurations import configuration_key
from deployer.sweeps.set_table import dump_table, read_table
from deployer.sweeps.sweep_file import dump_config

KEY = "hyperparam_set"
EXAMPLE = "write a list, each item such as - {lr: 0.1, batch_size: 32}"
YAML, JSON, TABLES = (".yaml", ".yml"), (".json",), (".csv", ".tsv")
# Names that some parser of flags takes: argparse, absl, fire, Hydra with its model.lr.
FLAG = re.compile(r"[^\s=\-\"'`][^\s=\"'`]*")
RESERVED: Mapping[str, str] = {
    JOB_ID: "is the number of the set itself",
    PARAMETER: "is the key of the whole set",
}
KINDS: Mapping[type, str] = {str: "a text", bool: "a boolean", int: "a number", float: "a number"}
MOST_KEYS_SHOWN = 3


@dataclass(frozen=True)
class HyperparameterSets:
    """The sets of a file in order; `warnings` are sentences.

    `wrapped` tells that each stands under `hyperparam_set`, so that the script reads the file.
    """

    sets: tuple[dict[str, Any], ...]
    wrapped: bool
    warnings: tuple[str, ...] = ()


def load_sets(path: Path) -> HyperparameterSets:
    """Read a file of sets; raise ConfigError with every complaint."""
    place = str(path)
    try:
        content = read_user_file(path)
        # Excel's "Unicode text" is UTF-16.
        wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        text = content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        hint = "save it as UTF-8 text, or from a spreadsheet as CSV UTF-8"
        raise ConfigError(place, "not a UTF-8 text file", hint) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(place, f"cannot be read: {reason}", "name a file of sets") from error
    return parse_sets(text, place)


def parse_sets(text: str, place: str) -> HyperparameterSets:
    """Read the text of a file; the end of its name says whether it is a table, JSON or YAML."""
    kind = Path(place).suffix.lower()
    if kind in TABLES:
        document = read_table(text, place)
        _check_columns(document)
    else:
        document = _read_json(text, place) if kind in JSON else parse_document(text, place)
    items = _list_items(document)
    wrapped = any(isinstance(item, Mapping) and KEY in item for item in items)
    errors = [e for n, item in enumerate(items) for e in _check_item(document, n, item, wrapped)]
    for twice in document.duplicates:
        hint = "remove one of them"
        errors.append(ConfigError(document.place_of(twice.path), "is written twice", hint))
    if errors:
        raise ConfigError.join(errors)
    sets = tuple(dict(item[KEY] if wrapped else item) for item in items)
    return HyperparameterSets(sets, wrapped, _list_warnings(document, items, sets, wrapped))


def dump_sets(sets: Sequence[Mapping[str, Any]], place: str = "", wrapped: bool = True) -> str:
    """Return the text of a file of sets; the end of its name says which kind, YAML without one.

    A table has no `hyperparam_set`. Raises ConfigError for a name of another kind, and for sets
    that a table cannot hold.
    """
    kind = Path(place).suffix.lower()
    if kind in TABLES:
        return dump_table(sets, place)
    items = [{KEY: dict(one)} if wrapped else dict(one) for one in sets]
    if kind in JSON:
        return json.dumps(items, indent=2, ensure_ascii=False) + "\n"
    return dump_config(items)


def _read_json(text: str, place: str) -> Document:
    """Read JSON; lines and keys that are there twice are found as in YAML, which it is, too."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{place}:{error.lineno}:{error.colno}"
        raise ConfigError(where, f"unreadable JSON: {error.msg}", "correct this line") from error
    except (RecursionError, ValueError) as error:  # ValueError: a number of thousands of digits
        said = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ConfigError(place, f"unreadable JSON: {said}", EXAMPLE) from error
    try:
        # A tab stands in no text of JSON, and YAML indents with spaces.
        found = parse_document(text.replace("\t", " "), place)
    except TooMuch:
        raise
    except ConfigError:
        return Document(place, value, {}, {}, (), ())
    return replace(found, value=value, scalars=())


def _list_items(document: Document) -> list[Any]:
    value = document.value
    if value is None or value in ([], {}):
        raise ConfigError(document.place, "it has no sets", EXAMPLE)
    if isinstance(value, dict):
        raise ConfigError(document.place, "a mapping, not a list of sets", EXAMPLE)
    if not isinstance(value, list):
        hint = f"{EXAMPLE}; a table's name ends in .csv"
        kind = KINDS.get(type(value), f"a {type(value).__name__}")
        raise ConfigError(document.place, f"{kind}, not a list of sets", hint)
    if refers_to_itself(document):
        raise ConfigError(document.place, "an anchor contains itself", "remove the inner alias")
    return value


def _check_columns(document: Document) -> None:
    """Refuse names of columns once, where they stand; raises ConfigError."""
    where = f"{document.place}:{document.lines[()]}"
    names = dict.fromkeys(name for one in document.value for name in one if name != KEY)
    errors = [e for name in names for e in _check_key(name, f"{where}: {_show(name)}", False)]
    if errors:
        raise ConfigError.join(errors)


def _show(name: object) -> str:
    return str(name) if str(name).isprintable() else repr(name)


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
        said = "an empty set" if item in (None, "", [], {}) else f"{item!r} is not a mapping"
        yield ConfigError(document.place_of(path), said, "write names and values: {lr: 0.1}")
        return
    for key, value in item.items():
        place = document.place_of((*path, _show(key)))
        yield from _check_key(key, place, wrapped)
        yield from _check_value(key, value, place)


def _check_key(key: Any, place: str, wrapped: bool) -> Iterator[ConfigError]:
    """Refuse what is no name, and, where sets become flags, what is no flag's."""
    if not isinstance(key, str):
        yield ConfigError(place, f"{key!r} is not a name", "put it in quotes")
    elif key in RESERVED:
        yield ConfigError(place, RESERVED[key], "remove it, or rename it")
    elif not key.strip():
        yield ConfigError(place, "a name without a letter", "give the value a name")
    elif not (key.isprintable() and (wrapped or FLAG.fullmatch(key))):
        bare = key.lstrip("-")
        good = bare.isprintable() and FLAG.fullmatch(bare)
        hint = f"write {bare}" if good else "write it such as learning_rate"
        yield ConfigError(place, f"{key!r} cannot be the name of a flag", hint)


def _check_value(key: Any, value: Any, place: str) -> Iterator[ConfigError]:
    """Refuse a value that neither a flag nor JSON can carry."""
    if isinstance(value, Mapping | list):
        yield ConfigError(place, "a value inside a value", f"write it flat, such as {key}_lr: 0.1")
    elif isinstance(value, float) and not math.isfinite(value):
        yield ConfigError(place, f"{value} cannot be sent", "write a number that has digits")
    elif isinstance(value, str) and "\0" in value:
        yield ConfigError(place, "a text with the character NUL", "remove it")
    elif not (value is None or isinstance(value, str | int | float)):
        yield ConfigError(place, f"{value} cannot be sent", f"put it in quotes: '{value}'")


def _list_warnings(
    document: Document, items: Sequence[Any], sets: Sequence[Mapping[str, Any]], wrapped: bool
) -> tuple[str, ...]:
    """Say what is read otherwise than it looks, what nobody reads, and what is there twice."""
    said = [
        f"{document.place_of(remark.path)}: {remark.message} ({remark.hint})"
        for remark in document.scalars
    ]
    for number, item in enumerate(items) if wrapped else ():
        if others := [str(key) for key in item if key != KEY]:
            place = document.place_of((f"[{number}]", others[0]))
            said.append(f"{place}: is outside {KEY} and ignored")
    seen: dict[Hashable, int] = {}
    for number, one in enumerate(sets):
        first = seen.setdefault(configuration_key(one), number)
        if first != number:
            place = document.place_of((f"[{number}]",))
            said.append(f"{place}: set {number + 1} is the same as set {first + 1}; both run")
    return (*said, *_note_missing_keys(document, sets))


def _note_missing_keys(document: Document, sets: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say which set is the first without a name that others have: often one is misspelt."""
    names = dict.fromkeys(name for one in sets for name in one)
    for number, one in enumerate(sets):
        if missing := [name for name in names if name not in one]:
            more = ", …" if len(missing) > MOST_KEYS_SHOWN else ""
            listed = ", ".join(missing[:MOST_KEYS_SHOWN]) + more
            place = document.place_of((f"[{number}]",))
            yield f"{place}: has no {listed}, unlike other sets, so the script's default applies"
            return
