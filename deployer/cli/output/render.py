"""The only module that prints: tables, characters for limited terminals; results on stdout."""

from __future__ import annotations

import codecs
import json
import logging
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from shutil import get_terminal_size
from typing import Any

from deployer.cli.output.log import ALWAYS, UNSAID
from deployer.errors import ConfigError, DeployerError
from deployer.text import format_value, strip_colours, to_line, to_lines
from deployer.waiting import COMMAND

SHORT_TEXT_WIDTH = 12  # the minimum width of a text in a narrow terminal: a run id has this length
GAP = "  "
ELLIPSIS = "…"
Piece = tuple[str, str]  # a text, and its style on a terminal
LOG = logging.getLogger("deployer.cli")
COMPUTED = ("=", "+", "-", "@", "\t", "\r")
NAME = "deployer-words"  # name of the error handler, for `errors=` of a stream
UNKNOWN = "?"
WORDS = {
    "✓": "ok",
    "✗": "FAILED",
    "…": "...",
    "→": "->",
    "±": "+-",
    "─": "-",
    **dict.fromkeys("━╸╺", "="),
    "│": "|",
    **dict.fromkeys("├└╭╮╰╯┌┐┘┤┼", "+"),
}


@dataclass(frozen=True)
class Styled:
    """A word in a cell, which is never truncated, and its colour on a terminal."""

    text: str
    style: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Table:
    """Rows for people, or for CSV; if there are none, people get `empty` on stderr."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    empty: str = ""

    @property
    def least_width(self) -> int:
        """The minimum width that keeps all digits and columns."""
        return sum(one.least for one in self._columns) + len(GAP) * (len(self._columns) - 1)

    def lay_out(self, width: int | None = None) -> Iterator[list[Piece]]:
        """Yield each line; numbers are right-aligned, texts are truncated to fit into `width`."""
        spare = width - self.least_width if width else None
        widths = []
        for one in self._columns:
            more = one.widest - one.least
            given = more if spare is None else max(0, min(more, spare))
            spare = None if spare is None else spare - given
            widths.append(one.least + given)
        for number in range(len(self.rows) + 1):
            line: list[Piece] = []
            for one, least in zip(self._columns, widths, strict=True):
                text, style = one.cells[number]
                line += [(_fit(text, least, one.is_right), style), (GAP, "")]
            yield line[:-1]

    @cached_property
    def _columns(self) -> list[_Column]:
        return [
            _build_column(name, [row[index] for row in self.rows], names_row=index == 0)
            for index, name in enumerate(self.columns)
        ]


@dataclass(frozen=True)
class _Column:
    """The head and the cells of a column, and its minimum width."""

    cells: Sequence[Piece]
    is_right: bool
    widest: int
    least: int


def _build_column(name: str, values: Sequence[object], *, names_row: bool) -> _Column:
    """Return a column; numbers, styled words and the row's name are never truncated."""
    from rich.cells import cell_len  # 10 ms, needed only for tables

    known = [value for value in values if value is not None]
    numeric = bool(known) and all(isinstance(value, int | float) for value in known)
    styled = bool(known) and all(isinstance(value, Styled) for value in known)
    whole = names_row or numeric or styled
    styles = [value.style if isinstance(value, Styled) else "" for value in values]
    cells = [(to_line(name), "bold"), *zip(map(format_value, values), styles, strict=True)]
    widest = max(cell_len(text) for text, _ in cells)
    return _Column(cells, numeric, widest, widest if whole else min(widest, SHORT_TEXT_WIDTH))


def _fit(text: str, width: int, is_right: bool) -> str:
    from rich.cells import cell_len, set_cell_size

    missing = width - cell_len(text)
    if missing < 0:
        return set_cell_size(text, width - 1) + ELLIPSIS
    return " " * missing + text if is_right else text + " " * missing


def without_empty_columns(
    columns: Sequence[str], rows: Sequence[Sequence[object]]
) -> tuple[list[str], list[list[object]]]:
    """Drop empty columns: local agents have no nodes, a laptop has no GPUs."""
    kept = [n for n in range(len(columns)) if any(row[n] not in ("", None) for row in rows)]
    return [columns[n] for n in kept], [[row[n] for n in kept] for row in rows]


class Aside(str):
    """A line that accompanies a result, on stderr."""

    __slots__ = ()


def emit(data: Any, output: str, *shown: Table | str) -> None:
    """Print a result on stdout: `data` as JSON or YAML, or `shown` as tables or CSV.

    With CSV, lines go to stderr. JSON is strict: NaN and infinities become null.
    """
    if output == "json":
        _put(_to_indented_json(data))
        return
    if output == "yaml":
        _put(_to_yaml(data))
        return
    for part in shown:
        if isinstance(part, str):
            (say if output == "csv" or isinstance(part, Aside) else show)(part)
        elif output == "csv":
            _write_csv(part)
        elif part.rows:
            _show_table(part)
        elif part.empty:
            say(part.empty)


def say(text: str) -> None:
    """Print a message on stderr, except with --quiet."""
    LOG.info(text)


def warn(text: str) -> None:
    LOG.warning(text)


def ask(question: str) -> str:
    """Ask a question on stderr, after any hidden messages; return the answer."""
    UNSAID.show()
    LOG.log(ALWAYS, question)
    return sys.stdin.readline().strip()


def show(text: str) -> None:
    _put(to_lines(text))


def _put(text: str) -> None:
    COMMAND.printed = True
    print(text, flush=True)


def show_log_line(text: str) -> None:
    """Print a trainer's line on stdout; without colours in a pipe."""
    _put(text if sys.stdout.isatty() else strip_colours(text))


def show_json_line(value: Any) -> None:
    _put(_to_line(value))


def show_error(error: DeployerError, as_json: bool) -> None:
    """Print an error on stderr: the failure, then the hint."""
    if as_json:
        LOG.log(ALWAYS, json.dumps(build_error(error)))
        return
    for warning in _list_warnings(error):
        warn(warning)
    for one in error.findings:
        if one.is_error:
            LOG.log(ALWAYS, f"error: {one.text}")
            if one.fix:
                LOG.log(ALWAYS, f"hint: {one.fix}")


def build_error(error: DeployerError) -> dict[str, Any]:
    """Return an error as `{"error": {"code", "message", "hint", …}}`."""
    body: dict[str, Any] = {"code": error.code, "message": error.message, "hint": error.hint}
    if isinstance(error, ConfigError) or len(error.findings) > 1:
        errors = (one for one in error.findings if one.is_error)
        body["errors"] = [{"message": one.text, "hint": one.fix} for one in errors]
    if warnings := _list_warnings(error):
        body["warnings"] = warnings
    return {"error": body}


def _list_warnings(error: DeployerError) -> list[str]:
    return [f"{one.text} ({one.fix})" for one in error.findings if not one.is_error]


def to_plain(value: Any) -> Any:
    # The most common types first: a sweep may have ten thousand runs.
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (dict, Mapping)):
        return {str(key): to_plain(inner) for key, inner in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Iterable):
        return [to_plain(inner) for inner in value]
    return str(value)


def _show_table(shown: Table) -> None:
    if not is_terminal():
        lines = ("".join(text for text, _ in line).rstrip() for line in shown.lay_out())
        _put("\n".join(lines))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for line in shown.lay_out(get_terminal_size().columns):
        console.print(Text.assemble(*line), soft_wrap=True)
    COMMAND.printed = True


def is_too_wide(shown: Table) -> bool:
    """Return True if a terminal would wrap a table's lines; a pipe takes any width."""
    return is_terminal() and shown.least_width > get_terminal_size().columns


def is_terminal() -> bool:
    return sys.stdout.isatty()


def _to_indented_json(value: Any) -> str:
    # With indentation, Python's own encoder is five times slower: 0.4 s for 10,000 runs.
    from pydantic_core import PydanticSerializationError, to_json

    try:
        text = to_json(
            value, indent=2, inf_nan_mode="null", ensure_ascii=True, fallback=_to_plain_parts
        )
    except PydanticSerializationError:  # a lone surrogate, which UTF-8 cannot encode
        return json.dumps(to_plain(value), indent=2, allow_nan=False)
    return text.decode("ascii")


def _to_plain_parts(value: Any) -> Any:
    """Convert a value that the encoder does not know; its parts may be unknown too."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Iterable) else str(value)


def _to_yaml(documents: Iterable[Any]) -> str:
    """Return documents in the format of `kubectl apply -f -`."""
    import yaml

    dumped: str = yaml.safe_dump_all(to_plain(documents), sort_keys=False, width=math.inf)
    return dumped.rstrip()


def _write_csv(shown: Table) -> None:
    """Print rows on stdout as CSV; lists and mappings are JSON in their cell."""
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(_to_cell, shown.columns))
    for row in shown.rows:
        writer.writerow(map(_to_cell, row))
    sys.stdout.flush()


def _to_cell(value: object) -> object:
    """Return a CSV cell: a text that a spreadsheet would evaluate gets a leading apostrophe.

    The writer leaves None empty; the page's parts.js does the same.
    """
    if isinstance(value, str):
        return f"'{value}" if value.startswith(COMPUTED) else value
    return _to_line(value) if isinstance(value, (list, tuple, Mapping)) else value


def _to_line(value: object) -> str:
    return json.dumps(to_plain(value), allow_nan=False)


def replace_signs(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that a stream cannot encode: our signs by words, others by `?`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(WORDS.get(letter, UNKNOWN) for letter in lost), error.end


codecs.register_error(NAME, replace_signs)
