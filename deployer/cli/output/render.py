"""The only module that prints. stdout carries results, stderr the rest; a pipe gets no colour."""

from __future__ import annotations

import csv
import json
import logging
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from shutil import get_terminal_size
from typing import Any

from deployer.cli.output.log import ALWAYS, UNSAID
from deployer.cli.output.table import Table
from deployer.errors import ConfigError, DeployerError
from deployer.text import strip_colours, to_lines
from deployer.waiting import COMMAND

LOG = logging.getLogger("deployer.cli")
COMPUTED = ("=", "+", "-", "@", "\t", "\r")


class Aside(str):
    """A line beside a result, which goes to stderr."""

    __slots__ = ()


def emit(data: Any, output: str, *shown: Table | str) -> None:
    """Put a result on stdout: `data` as JSON or YAML, or what is `shown`, as tables or CSV.

    Beside CSV, lines go to stderr. JSON is strict: NaN and infinities become null.
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
    """Tell the user something on stderr, unless nothing but errors is wanted."""
    LOG.info(text)


def warn(text: str) -> None:
    """Warn the user on stderr, as `say` does."""
    LOG.warning(text)


def ask(question: str) -> str:
    """Put a question on stderr, and what was told before it, wanted or not; return the answer."""
    UNSAID.show()
    LOG.log(ALWAYS, question)
    return sys.stdin.readline().strip()


def show(text: str) -> None:
    """Put a result on stdout."""
    _put(to_lines(text))


def _put(text: str) -> None:
    COMMAND.printed = True
    print(text, flush=True)


def show_log_line(text: str) -> None:
    """Put a line that a trainer printed on stdout; a pipe gets it without colours."""
    _put(text if sys.stdout.isatty() else strip_colours(text))


def show_json_line(value: Any) -> None:
    """Put a value on stdout as one line of JSON, for output without end."""
    _put(_to_line(value))


def show_error(error: DeployerError, as_json: bool) -> None:
    """Show a failure on stderr: what failed, then what to do about it."""
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
    """Return the warnings among an error's findings."""
    return [f"{one.text} ({one.fix})" for one in error.findings if not one.is_error]


def to_plain(value: Any) -> Any:
    """Turn dataclasses and other values into what JSON can express."""
    # What there is most of goes first: a sweep may have ten thousand runs.
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
    """Tell whether a terminal would have to fold a table's lines; a pipe takes any."""
    return is_terminal() and shown.least_width > get_terminal_size().columns


def is_terminal() -> bool:
    """Tell whether results are looked at, and not read by a program."""
    return sys.stdout.isatty()


def _to_indented_json(value: Any) -> str:
    # With an indentation Python's own encoder takes five times as long: 0.4 s for 10,000 runs.
    from pydantic_core import PydanticSerializationError, to_json

    try:
        text = to_json(
            value, indent=2, inf_nan_mode="null", ensure_ascii=True, fallback=_to_plain_parts
        )
    except PydanticSerializationError:  # half a surrogate pair, which no UTF-8 has
        return json.dumps(to_plain(value), indent=2, allow_nan=False)
    return text.decode("ascii")


def _to_plain_parts(value: Any) -> Any:
    """Return what an encoder does not know as what it knows; what is inside may be unknown, too."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Iterable) else str(value)


def _to_yaml(documents: Iterable[Any]) -> str:
    """Return documents as `kubectl apply -f -` takes them."""
    import yaml

    dumped: str = yaml.safe_dump_all(to_plain(documents), sort_keys=False, width=math.inf)
    return dumped.rstrip()


def _write_csv(shown: Table) -> None:
    """Put rows on stdout as CSV; lists and mappings are JSON in their cell."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(_to_cell, shown.columns))
    for row in shown.rows:
        writer.writerow(map(_to_cell, row))
    sys.stdout.flush()


def _to_cell(value: object) -> object:
    """Return a cell of CSV: a text that a spreadsheet would compute gets an apostrophe before it.

    Of None the writer makes nothing; the page's parts.js does the same.
    """
    if isinstance(value, str):
        return f"'{value}" if value.startswith(COMPUTED) else value
    return _to_line(value) if isinstance(value, (list, tuple, Mapping)) else value


def _to_line(value: object) -> str:
    return json.dumps(to_plain(value), allow_nan=False)
