"""Hyperparameter sets as a table: a header, and a set in each row; read and written, pure.

Commas, semicolons or tabs separate the cells, as spreadsheets save them. An empty cell leaves its
key out of that set.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deployer.config.document.yaml_document import (
    MOST_VALUES,
    Document,
    Path,
    Remark,
    say_too_many,
)
from deployer.errors import ConfigError

COMMA, SEMICOLON, TAB = ",", ";", "\t"
SEPARATORS: Mapping[str, str] = {COMMA: "commas", SEMICOLON: "semicolons", TAB: "tabs"}
# Excel's first line, which names the separator.
NAMED_SEPARATOR = re.compile(r"sep=([,;\t])\r?\n?", re.IGNORECASE)
QUOTED = re.compile(r'"[^"]*"?')
# A cell that reads otherwise, such as 007 or 1_000, is text.
WORDS: Mapping[str, bool] = {"true": True, "false": False}
INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
DECIMAL_COMMA = re.compile(r"[-+]?(0|[1-9][0-9]*),[0-9]+([eE][-+]?[0-9]+)?")
THOUSANDS = re.compile(r"[-+]?[0-9]{1,3}([.,' \u00a0][0-9]{3})+([.,][0-9]+)?")
NO_NAME = (*SEPARATORS, '"', "\n", "\r")  # in a column's name they would be taken for separators
LONGEST_NUMBER = 300  # Python reads no integer of more than 4300 digits


def read_table(text: str, place: str) -> Document:
    """Return the sets of a table, with the line of each; raises ConfigError."""
    separator, body, skipped = _find_separator(text, place)
    rows = list(_read_rows(body, separator, place, skipped))
    if not rows:
        raise ConfigError(place, "it is empty", "write a header such as lr,batch_size")
    (line, header), *rest = rows
    header = _cut(header, max(_width(cells) for _, cells in rows))
    if not rest:
        hint = "write a row below the header for each set"
        raise ConfigError(f"{place}:{line}", "a header without sets below it", hint)
    errors = [*_check_header(header, f"{place}:{line}"), *_check_rows(header, rest, place)]
    if errors:
        raise ConfigError.join(errors)
    remarks: list[Remark] = []
    sets = []
    for number, (_, cells) in enumerate(rest):
        pairs = zip(header, cells, strict=False)
        sets.append({name: _read_cell(cell, separator) for name, cell in pairs if cell.strip()})
        remarks += _note_numbers(f"[{number}]", header, cells, separator)
    lines: dict[Path, int] = {(f"[{number}]",): line for number, (line, _) in enumerate(rest)}
    lines[()] = line  # of the header
    return Document(place, sets, lines, {}, (), tuple(remarks[:1]))


def dump_table(sets: Sequence[Mapping[str, Any]], place: str) -> str:
    """Return the sets as a table; raises ConfigError for one that no table can hold."""
    separator = TAB if place.lower().endswith(".tsv") else COMMA
    for one in sets:
        _check_cells(one, separator, place)
    header = list(dict.fromkeys(key for one in sets for key in one))
    written = io.StringIO()
    writer = csv.writer(written, delimiter=separator, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_write_cell(one.get(key, "")) for key in header] for one in sets)
    return written.getvalue()


def _find_separator(text: str, place: str) -> tuple[str, str, int]:
    """Return the separator, the text without the line that names it, and how many lines that is."""
    if named := NAMED_SEPARATOR.match(text):
        return named[1], text[named.end() :], 1
    header = next((line for line in text.splitlines() if line.strip()), "")
    plain = QUOTED.sub("", header)
    found = [separator for separator in SEPARATORS if separator in plain]
    usual = TAB if place.lower().endswith(".tsv") else COMMA
    if len(found) > 1:
        said = f"the header has {SEPARATORS[found[0]]} and {SEPARATORS[found[1]]}"
        line = text[: text.index(header)].count("\n") + 1
        raise ConfigError(f"{place}:{line}", said, "separate all columns by one of them")
    return (found or [usual])[0], text, 0


def _read_rows(
    text: str, separator: str, place: str, skipped: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield each row that is not empty with the line on which it begins."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    begins, values = skipped + 1, 0
    try:
        for cells in reader:
            values += len(cells)
            if values > MOST_VALUES:
                raise ConfigError(f"{place}:{begins}", *say_too_many(MOST_VALUES))
            if any(cell.strip() for cell in cells):
                yield begins, cells
            begins = skipped + reader.line_num + 1
    except csv.Error as error:
        said = f"cannot be read from here on: {error}"
        hint = 'close each double quote; one inside a cell is written twice: ""'
        raise ConfigError(f"{place}:{begins}", said, hint) from error


def _width(cells: Sequence[str]) -> int:
    """Return how many cells there are up to the last with something in it."""
    return max((number for number, cell in enumerate(cells, 1) if cell.strip()), default=0)


def _cut(header: Sequence[str], width: int) -> list[str]:
    """Return the names of the columns; a spreadsheet leaves empty ones behind the last."""
    return [name.strip() for name in header[:width]]


def _check_header(header: Sequence[str], place: str) -> Iterator[ConfigError]:
    for name, times in Counter(header).items():
        if not name:
            yield ConfigError(place, "a column has no name", "write one above its cells")
        elif times > 1:
            hint = "give each column its own name"
            yield ConfigError(place, f"the column '{name}' appears twice", hint)


def _check_rows(
    header: Sequence[str], rows: Sequence[tuple[int, list[str]]], place: str
) -> Iterator[ConfigError]:
    for line, cells in rows:
        said = f"{len(cells)} cells, but the header has {len(header)}"
        if _width(cells) > len(header):
            hint = "put a cell that holds a separator in double quotes"
            yield ConfigError(f"{place}:{line}", said, hint)
        elif len(cells) < len(header):
            hint = "write every separator: an empty cell leaves its key out of the set"
            yield ConfigError(f"{place}:{line}", said.replace("1 cells", "1 cell"), hint)


def _read_cell(cell: str, separator: str) -> Any:
    word = cell.strip()
    if separator != COMMA and DECIMAL_COMMA.fullmatch(word):
        word = word.replace(",", ".")
    if len(word) > LONGEST_NUMBER:
        return word
    if word.lower() in WORDS:
        return WORDS[word.lower()]
    if INTEGER.fullmatch(word):
        return int(word)
    return float(word) if NUMBER.fullmatch(word) else word


def _note_numbers(
    item: str, header: Sequence[str], cells: Sequence[str], separator: str
) -> Iterator[Remark]:
    """Remark on numbers as spreadsheets write them: a decimal comma, thousands set apart."""
    for name, cell in zip(header, cells, strict=False):
        word = cell.strip()
        if separator != COMMA and DECIMAL_COMMA.fullmatch(word):
            said = f"{word} is read as {_read_cell(cell, separator)}, like others below"
            yield Remark((item, name), said, "write a decimal point")
        elif THOUSANDS.fullmatch(word) and isinstance(_read_cell(cell, separator), str):
            said = f"'{word}' is text, not a number, like others below"
            yield Remark((item, name), said, "write numbers without a thousands separator")


def _write_cell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_cells(one: Mapping[str, Any], separator: str, place: str) -> None:
    """Refuse what would not be read again as it is: an empty text, the text 007, a list."""
    for key, value in one.items():
        again = _read_cell(_write_cell(value), separator)
        same = type(again) is type(value) and again == value
        if not same or value == "" or key != key.strip() or any(one in key for one in NO_NAME):
            said = f"a table cannot hold {key}: {value!r}"
            raise ConfigError(place, said, "write it to a file that ends in .yaml or .json")
