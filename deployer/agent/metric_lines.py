"""Parses metrics from a script's output: which metrics to log, and their values; pure functions.

A line contains `name=value` pairs, a JSON object, or matches of a regular expression.
"""

from __future__ import annotations

import ast
import json
import re
import signal
from dataclasses import dataclass
from types import FrameType
from typing import Any, Dict, FrozenSet, Iterator, Mapping, Optional, Pattern, Sequence, Tuple

MetricRow = Dict[str, float]
LONGEST_BYTES = 8192  # of a line; the rest is ignored
# Katib's pattern, extended with W&B's names such as `val/loss`, and with nan and inf.
PAIRS = re.compile(
    r"(?<![\w|./-])([\w|./-]+)\s*=\s*"
    r"([+-]?(?:nan|inf(?:inity)?|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?))(?!\w|[.,]\d)",
    re.IGNORECASE,
)
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LINE_ENDS = re.compile(rb"\r\n|\n|\r")
# A pattern such as `(a|a)+$` can take exponential time.
MATCH_SECONDS = 0.5
MOST_SLOW_LINES = 3


@dataclass(frozen=True)
class MetricSpec:
    """The metrics to log; `names` is None for all.

    `step` is the name of the step, empty if rows have none. `pattern` is a regular expression with
    named groups, empty for `name=value`.
    """

    names: Optional[FrozenSet[str]] = None
    step: str = ""
    pattern: str = ""

    def wants(self, name: str) -> bool:
        return self.names is None or name in self.names


def parse_spec(text: str) -> MetricSpec:
    """Parse the value of METRICS_VARIABLE, which `deployer` sets."""
    told = json.loads(text)
    names = told.get("names")
    return MetricSpec(
        names=None if names is None else frozenset(names),
        step=told.get("step", ""),
        pattern=told.get("pattern", ""),
    )


def add_metric(text: str, metric: str) -> str:
    """Add a sweep's metric to a spec without names, as its only name.

    Without a metric, all names count.
    """
    if not text or not metric:
        return text
    return json.dumps({"names": [metric], **json.loads(text)})


class LineSplitter:
    """Splits a stream into lines, which end with `\\n`, `\\r` or both."""

    def __init__(self) -> None:
        self._rest = b""
        self._ends_open = False  # ends with `\r`, which a `\n` may follow

    def feed(self, chunk: bytes) -> Iterator[str]:
        if self._ends_open and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._ends_open = chunk.endswith(b"\r")
        *lines, rest = LINE_ENDS.split(self._rest + chunk)
        self._rest = rest[:LONGEST_BYTES]
        for line in lines:
            if line:
                yield _decode(line)

    def end(self) -> Iterator[str]:
        if self._rest:
            yield _decode(self._rest)
        self._rest = b""


def _decode(line: bytes) -> str:
    return COLOURS.sub("", line[:LONGEST_BYTES].decode(errors="replace"))


class GaveUp(Exception):
    """A pattern took too long on several lines."""


class TextLines:
    """Finds the values in lines of text. Only for the main thread: see `_match`."""

    def __init__(self, pattern: str = "") -> None:
        self._pattern: Optional[Pattern[str]] = re.compile(pattern) if pattern else None
        self._slow = 0

    def read(self, line: str) -> MetricRow:
        """Return the values of a line; raises GaveUp."""
        if self._pattern:
            return self._match(self._pattern, line)
        # A progress bar on the other stream, without line end, may precede an object.
        if line.rstrip().endswith("}") and (found := read_object(line[line.find("{") :])):
            return found
        return dict(_list_numbers(PAIRS.findall(line))) if "=" in line else {}

    def _match(self, pattern: Pattern[str], line: str) -> MetricRow:
        """Match with a timeout: the engine checks signals, and the handler's exception ends it.

        A thread cannot do that, since the engine holds the GIL.
        """
        old = signal.signal(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, MATCH_SECONDS)
        try:
            found = [pair for match in pattern.finditer(line) for pair in _name_groups(match)]
        except TimeoutError:
            found = []
            self._slow += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
        if self._slow >= MOST_SLOW_LINES:
            raise GaveUp(f"took longer than {MATCH_SECONDS} s on {self._slow} lines")
        return dict(_list_numbers(found))


def _interrupt(_number: int, _frame: Optional[FrameType]) -> None:
    raise TimeoutError


def _name_groups(match: "re.Match[str]") -> Iterator[Tuple[str, str]]:
    """Yield names and values: a group's own name, or those of the groups `name` and `value`."""
    groups = {name: text for name, text in match.groupdict().items() if text is not None}
    if "name" in groups and "value" in groups:
        yield groups.pop("name"), groups.pop("value")
    yield from groups.items()


def _list_numbers(pairs: Sequence[Tuple[str, Any]]) -> Iterator[Tuple[str, float]]:
    for name, value in pairs:
        number = read_number(value)
        if number is not None:
            yield name, number


def read_number(value: Any) -> Optional[float]:
    """Convert a number or text to a number; None for anything else, including booleans."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return value if isinstance(value, int) else float(value)
    except ValueError:
        return None


def read_object(line: str) -> MetricRow:
    """Return the numbers of a JSON object, or of a dict as Python prints it; {} for others.

    Joins names of nested values with a dot, like W&B.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        try:
            found = ast.literal_eval(line.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return {}
    return dict(_flatten(found)) if isinstance(found, dict) else {}


def _flatten(found: Mapping[Any, Any], above: str = "") -> Iterator[Tuple[str, float]]:
    for name, value in found.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{above}{name}.")
        elif not isinstance(value, str):
            number = read_number(value)
            if number is not None:
                yield f"{above}{name}", number


class Rows:
    """Converts values of lines to rows to log, with the wanted names and the step.

    A step applies until the next one. For a resumed run, `last_step` is the last step that an
    earlier attempt logged; rows up to it are skipped.
    """

    def __init__(self, spec: MetricSpec, last_step: Optional[float] = None) -> None:
        self._spec = spec
        self._last_step = last_step
        self._step: Optional[float] = None

    def build(self, values: MetricRow) -> MetricRow:
        step = self._spec.step
        if step in values:
            self._step = values[step]
        if self._last_step is not None and self._step is not None:
            if self._step <= self._last_step:
                return {}
            self._last_step = None
        row = {name: values[name] for name in values if self._spec.wants(name) and name != step}
        if row and self._step is not None:
            row[step] = self._step
        return row
