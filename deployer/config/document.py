"""Reads YAML like PyYAML (1.1, as W&B does), with the line of every value; reads users' files.

Also finds what YAML 1.1 silently reads as something else: `1e-5` as text, `on` as a boolean, `017`
as 15, and duplicate keys.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from deployer.errors import ConfigError, KeyPath
from deployer.text import find_lookalike, format_bytes, number_hint

# PyYAML's message as "context: problem", its only detail; its meaning; the hint.
TROUBLES = (
    (r"'\\t' that cannot start", "a tab", "indent with spaces, not tabs"),
    (r"'(.)' that cannot start", r"a value begins with \1", "put the value in quotes"),
    (
        "mapping values are not allowed",
        "a second colon",
        "quote texts with a colon; indent keys alike",
    ),
    (r"flow .*: expected .*'\{'", "a { inside a word", "put macros in quotes: '${args}'"),
    (
        "flow sequence: expected",
        "a list without its closing bracket",
        "add a comma or the closing ]",
    ),
    (
        "flow mapping: expected",
        "a mapping without its closing brace",
        "add a comma or the closing }",
    ),
    (
        "quoted scalar: found unexpected end",
        "a text without its closing quote",
        "add the closing quote",
    ),
    ("unknown escape character", "a backslash in double quotes", "use single quotes"),
    ("simple key: could not find", "a key without a colon", "write key: value"),
    (r"undefined alias '(.*)'", r"*\1 is not defined", r"define it first, with &NAME"),
    (r"constructor for the tag '(.*)'", r"the tag \1 is not known", "remove the tag"),
    ("single document", "a second document", "remove what follows the line ---"),
    ("unhashable key", "a list or a mapping as a key", "put the key in quotes"),
    (
        "expected <block end>",
        "a line with a different indentation",
        "indent all keys of a level equally",
    ),
)
TAG = "tag:yaml.org,2002:"
ODD_KEYS = tuple(f"{TAG}{kind}" for kind in ("bool", "int", "float", "null", "timestamp"))
# Integers whose text does not look like their value: octal and base-60 numbers.
ODD_INTEGER = re.compile(r"[-+]?(0[0-7_]+|[1-9][0-9_]*(:[0-5]?[0-9])+)")
MOST_VALUES = 100_000  # in total, with every alias expanded
MOST_LEVELS = 100
MOST_BYTES = 5_000_000
# Paths of piped input and of `<(command)`.
PIPES = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
KINDS = ((stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"))
FILE_NAME = "deployer.yaml"
MOST_REPLICAS = 1000  # of a sweep and owner: a larger number is a typo


@dataclass(frozen=True)
class Remark:
    """Something that YAML reads differently from how it looks."""

    path: KeyPath
    message: str
    hint: str


@dataclass(frozen=True)
class Document:
    """A file's value; `lines` maps the path of each key and list item to its line, from 1.

    Paths hold keys as YAML reads them; `typed` has those that are written differently in the file.
    """

    place: str
    value: Any
    lines: Mapping[KeyPath, int]
    typed: Mapping[KeyPath, str]
    duplicates: tuple[Remark, ...]
    scalars: tuple[Remark, ...]
    columns: Mapping[KeyPath, int] = field(default_factory=dict)

    def line_of(self, path: KeyPath) -> int:
        """Return the line of a key, or of its nearest ancestor with a line, else 0."""
        return _find_nearest(path, self.lines)

    def column_of(self, path: KeyPath) -> int:
        """Return the column of a key, or of its nearest ancestor with a column, else 0."""
        return _find_nearest(path, self.columns)

    def place_of(self, path: KeyPath) -> str:
        """Return a location such as `sweeps/lr.yaml:12: parameters.lr.min`."""
        line = f":{self.line_of(path)}" if self.line_of(path) else ""
        where = self.name_of(path)
        return f"{self.place}{line}: {where}" if where else f"{self.place}{line}"

    def name_of(self, path: KeyPath) -> str:
        """Return a path as it is written in the file: `parameters.lr.values[0]`."""
        names = (self.typed.get(path[: n + 1], name) for n, name in enumerate(path))
        return ".".join(names).replace(".[", "[")


class UnreadableYaml(ConfigError):
    """Invalid YAML, and the position of the error; line and column count from 1."""

    def __init__(self, file: str, line: int, column: int, said: str, hint: str) -> None:
        super().__init__(f"{file}:{line}:{column}", said, hint)
        self.line, self.column, self.said = line, column, said


class _BoundedLoader(yaml.SafeLoader):
    """Stops at the first value over the limit, and at the first level too deep."""

    def __init__(self, text: str, place: str) -> None:
        super().__init__(text)
        self._place = place
        self._values = self._level = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        is_key = isinstance(parent, yaml.MappingNode) and index is None
        self._values += not is_key
        if self._values > MOST_VALUES:
            raise self._refuse(*say_too_many(MOST_VALUES))
        if self._level > MOST_LEVELS:
            said = f"nested too deeply: more than {MOST_LEVELS} levels"
            raise self._refuse(said, "write it with fewer levels")
        self._level += 1
        node = super().compose_node(parent, index)
        self._level -= 1
        return node

    def _refuse(self, said: str, hint: str) -> ConfigError:
        line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
        return ConfigError(f"{self._place}:{line}", said, hint)


def parse_document(text: str, place: str) -> Document:
    """Read one YAML document; raise ConfigError with line and column if it is invalid."""
    try:
        loader = _BoundedLoader(text, place)
        root = loader.get_single_node()
        if root is not None and _count_nodes(root, {}) > MOST_VALUES:
            said = f"nested aliases expand to more than {MOST_VALUES:,} values"
            raise ConfigError(place, said, "write the values instead of aliases")
        document = _note_places(place, root)  # the constructor merges `<<` into the nodes
        value = None if root is None else loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        raise _unreadable(error, place) from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date such as 2026-13-45
        reason = " ".join(str(error).split())
        raise ConfigError(place, f"unreadable YAML: {reason}", "correct this value") from error
    return replace(document, value=value)


def say_too_many(most: int) -> tuple[str, str]:
    return f"more than {most:,} values in one file", "split it; a range (min, max) needs no list"


def _count_nodes(node: yaml.Node, counts: dict[int, int]) -> int:
    """Count the values in a node, with every alias expanded; a node inside itself counts 0."""
    if id(node) not in counts:
        counts[id(node)] = 0
        inside: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            inside = [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            inside = node.value
        counts[id(node)] = 1 + sum(_count_nodes(part, counts) for part in inside)
    return counts[id(node)]


def _note_places(place: str, root: yaml.Node | None) -> Document:
    lines: dict[KeyPath, int] = {}
    columns: dict[KeyPath, int] = {}
    typed: dict[KeyPath, str] = {}
    duplicates: dict[KeyPath, Remark] = {}
    scalars: dict[KeyPath, tuple[int, Remark]] = {}
    second: dict[KeyPath, int] = {}
    for number, (path, key, node) in enumerate(_walk((), root, ()) if root is not None else ()):
        if path in lines and path[-1] != "<<" and not _is_inside(path, duplicates):
            message = f"the key appears twice (also in line {lines[path]}); the last one counts"
            duplicates[path] = Remark(path, message, "remove one of them")
            second[path] = number
        lines[path] = (key or node).start_mark.line + 1
        columns[path] = (key or node).start_mark.column + 1
        if key is not None and str(key.value) != path[-1]:
            typed[path] = str(key.value)
        remark = _odd_scalar(path, node)
        if remark:
            scalars[path] = number, remark
    # The value of the first of two equal keys is never read.
    read = (r for p, (n, r) in scalars.items() if not _is_followed(p, n, second))
    return Document(place, None, lines, typed, tuple(duplicates.values()), tuple(read), columns)


def _is_followed(path: KeyPath, number: int, second: Mapping[KeyPath, int]) -> bool:
    return any(second.get(path[:n], number) > number for n in range(1, len(path) + 1))


def _find_nearest(path: KeyPath, numbers: Mapping[KeyPath, int]) -> int:
    above = (path[:length] for length in range(len(path), 0, -1))
    return next((numbers[part] for part in above if part in numbers), 0)


def _is_inside(path: KeyPath, places: Collection[KeyPath]) -> bool:
    return any(path[:length] in places for length in range(1, len(path) + 1))


def refers_to_itself(document: Document) -> bool:
    """Return True if an anchor contains an alias of itself, which only YAML can express."""
    return _is_circular(document.value, ())


def _unreadable(error: yaml.MarkedYAMLError, place: str) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    problem = error.problem or error.context or "not YAML"
    said = f"{error.context or ''}: {problem}"
    for pattern, meant, hint in TROUBLES:
        if found := re.search(pattern, said):
            meaning = f"unreadable YAML: {found.expand(meant)}"
            return UnreadableYaml(place, line, column, meaning, hint)
    hint = "look at this line and the one above: indentation, colons, quotes, brackets"
    return UnreadableYaml(place, line, column, f"unreadable YAML: {problem}", hint)


def _walk(
    path: KeyPath, node: yaml.Node, above: tuple[yaml.Node, ...]
) -> Iterator[tuple[KeyPath, yaml.Node | None, yaml.Node]]:
    if any(node is other for other in above):
        return
    inside: list[tuple[KeyPath, yaml.Node | None, yaml.Node]] = []
    if isinstance(node, yaml.MappingNode):
        inside = [((*path, _read_key(key)), key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        inside = [((*path, f"[{i}]"), None, item) for i, item in enumerate(node.value)]
    for item in inside:
        yield item
        yield from _walk(item[0], item[2], (*above, node))


def _read_key(key: yaml.Node) -> str:
    """Return a key as in the value: YAML 1.1 reads the word `on` as a boolean."""
    return str(yaml.safe_load(key.value)) if key.tag in ODD_KEYS else str(key.value)


def _odd_scalar(path: KeyPath, node: yaml.Node) -> Remark | None:
    if not isinstance(node, yaml.ScalarNode) or node.style is not None:
        return None
    word = node.value
    if node.tag == TAG + "str" and any(c.isdigit() for c in word) and number_hint(word):
        hint = number_hint(word) if "e" in word.lower() else f"write {float(word):g}"
        return Remark(path, f"'{word}' is text, not a number", f"{hint}, or put it in quotes")
    if node.tag == TAG + "str" and (found := find_lookalike(word)):
        meaning, written = found
        return Remark(
            path, f"'{word}' is text, not {meaning}", f"write {written}, or put it in quotes"
        )
    if node.tag == TAG + "bool" and word.lower() not in ("true", "false"):
        true = word.lower() in ("yes", "on")
        hint = f"write {str(true).lower()}, or '{word}' in quotes"
        return Remark(path, f"{word} is read as the boolean {true}", hint)
    if node.tag == TAG + "int" and ODD_INTEGER.fullmatch(word):
        number = yaml.safe_load(word)
        if str(number) != word:
            hint = f"write {number}, or '{word}' in quotes"
            return Remark(path, f"{word} is read as {number}", hint)
    return None


def _is_circular(value: Any, above: tuple[int, ...]) -> bool:
    if id(value) in above:
        return True
    inside = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return False
    return any(_is_circular(item, (*above, id(value))) for item in inside)


def read_user_file(path: Path, place: str = "") -> bytes:
    """Return a file's content; raise OSError, or ConfigError for a device or a file too large.

    Messages name it `place`.
    """
    try:
        mode = path.stat().st_mode
    except UnicodeEncodeError as error:
        raise FileNotFoundError(errno.ENOENT, "the locale cannot express its name") from error
    except FileNotFoundError:
        if not path.is_symlink():
            raise
        said = f"is a link to {path.readlink()}, which does not exist"
        raise ConfigError(place or str(path), said, f"fix or remove it: ls -l {path}") from None
    piped = stat.S_ISFIFO(mode) and str(path).startswith(PIPES)
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or piped):
        kind = next((name for is_kind, name in KINDS if is_kind(mode)), "a device")
        raise ConfigError(place or str(path), f"is {kind}, not a file", "name a regular file")
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        said = f"is larger than {format_bytes(MOST_BYTES)}"
        raise ConfigError(place or str(path), said, "name a smaller file, or split this one")
    return content


def read_user_text(path: Path, place: str = "") -> str:
    """Return UTF-8 text with Unix line ends; may also raise UnicodeDecodeError."""
    text = read_user_file(path, place).decode("utf-8")
    return io.StringIO(text, newline=None).getvalue()


def write_user_text(path: Path, text: str) -> None:
    """Write or replace a file atomically; raise ConfigError if that fails."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        said = f"cannot be written: {(error.strerror or str(error)).lower()}"
        raise ConfigError(str(path), said, "name a file in a folder of yours") from error


def read_document(folder: Path) -> Document | None:
    """Read deployer.yaml in a folder; None if there is none. Raises ConfigError.

    Only this function opens the file.
    """
    path = folder / FILE_NAME
    try:
        text = read_user_text(path)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        hint = "make it a text file in UTF-8 that you may read"
        raise ConfigError(str(path), f"cannot be read: {error}", hint) from error
    return parse_document(text, path.name)


def place_of_key(document: Document | None, name: str) -> str:
    if document is None:
        return f"{FILE_NAME}: {name}"
    # YAML 1.1 reads the key `on` as true.
    written = "True" if name == "on" and True in (document.value or {}) else name
    return document.place_of((written,))


def place_of_flag(flag: str, value: str, environment: Mapping[str, str]) -> str:
    """Return the source of a flag's value: its environment variable, else the flag."""
    variable = f"DEPLOYER_{flag.strip('-').upper()}"
    return variable if environment.get(variable) == value else flag


def find_too_many(place: str, replicas: int, hint: str = "") -> ConfigError | None:
    """Return an error if the number of agents is implausibly large."""
    if replicas <= MOST_REPLICAS:
        return None
    said = f"{replicas:,} agents are more than {MOST_REPLICAS:,}"
    return ConfigError(place, said, hint or f"write {MOST_REPLICAS} or less")
