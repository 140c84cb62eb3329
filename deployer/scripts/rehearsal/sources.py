"""The project's files that are loaded: where a flag is defined, and where parsers are called."""

import ast
import os
import sys
import sysconfig
from typing import Any, Dict, Iterator, List, Sequence, Set, Tuple

PARSES = (
    "parse_args",
    "parse_known_args",
    "parse_intermixed_args",
    "parse_known_intermixed_args",
    "parse_args_into_dataclasses",
)
# Whoever catches these survives a parser's refusal.
ENDINGS = {"SystemExit", "BaseException", "ArgumentError"}
_trees: Dict[str, Any] = {}


def list_project_files(folder: str) -> List[str]:
    """Return the files of loaded modules that are in the project's folder, not installed ones."""
    found = set()
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and is_of_project(path, folder):
            found.add(os.path.realpath(path))
    return sorted(found)


def is_of_project(path: str, folder: str) -> bool:
    """Tell whether a file is part of the project."""
    real = os.path.realpath(path)
    installed = os.path.realpath(sysconfig.get_paths()["stdlib"])
    return (
        real.startswith(os.path.realpath(folder) + os.sep)
        and not real.startswith(installed + os.sep)
        and "site-packages" not in real
        and real.endswith(".py")
    )


def find_caller(folder: str, skipped: str) -> Tuple[str, int]:
    """Return file and line of the nearest call from the project, else from outside `skipped`."""
    frame = sys._getframe(1)
    nearest = ("", 0)
    while frame is not None:
        path = frame.f_code.co_filename
        if is_of_project(path, folder):
            return os.path.realpath(path), frame.f_lineno
        mine = path.startswith(os.path.dirname(__file__))
        if not nearest[0] and not mine and path != skipped:
            nearest = (path, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return nearest


def may_catch_exit(folder: str) -> bool:
    """Tell whether the project's code goes on where a parser ends the process.

    That is where one of the calls on the way here stands in a `try` that catches SystemExit.
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        path, line = frame.f_code.co_filename, frame.f_lineno
        if is_of_project(path, folder):
            for node in _walk(os.path.realpath(path)):
                if _catches_exit(node) and node.lineno <= line <= _last_line(node.body[-1]):
                    return True
        frame = frame.f_back
    return False


def _catches_exit(node: Any) -> bool:
    if isinstance(node, ast.With):
        return any(_names(item.context_expr) & ENDINGS for item in node.items)
    if not isinstance(node, ast.Try):
        return False
    caught = [handler.type for handler in node.handlers]
    return any(kind is None or _names(kind) & ENDINGS for kind in caught)


def _names(node: Any) -> Set[str]:
    found = {getattr(one, "id", "") for one in ast.walk(node)}
    return found | {getattr(one, "attr", "") for one in ast.walk(node)}


def _last_line(node: Any) -> int:
    return int(getattr(node, "end_lineno", None) or node.lineno)


def is_called_by_project(folder: str, skipped: str) -> bool:
    """Tell whether what calls a file of argparse is the project itself, not a package it uses."""
    frame: Any = sys._getframe(1)
    mine = os.path.dirname(__file__)
    while frame is not None:
        path = frame.f_code.co_filename
        if path != skipped and not path.startswith(mine):
            return is_of_project(path, folder)
        frame = frame.f_back
    return False


def list_unseen_parses(folder: str, seen: Sequence[Tuple[str, int]]) -> List[Tuple[str, int]]:
    """Return where the project's code calls a parser, but for the places that were seen."""
    found = []
    for path in list_project_files(folder):
        for node in _walk(path):
            called = getattr(getattr(node, "func", None), "attr", "")
            if isinstance(node, ast.Call) and called in PARSES:
                lines = range(node.lineno, _last_line(node) + 1)
                if not any(one == path and line in lines for one, line in seen):
                    found.append((path, node.lineno))
    return found


def find_definition(folder: str, names: Sequence[str]) -> Tuple[str, int]:
    """Return file and line of the call, the argument or the field that defines a flag."""
    plain = {name.lstrip("-").replace("-", "_") for name in names}
    for path in list_project_files(folder):
        for node in _walk(path):
            if isinstance(node, ast.Call):
                words = [a.value for a in node.args if isinstance(a, ast.Constant)]
                texts = [word for word in words if isinstance(word, str)]
                if any(name in text.split("/") for text in texts for name in names):
                    return path, node.lineno
            elif isinstance(node, ast.arg) and node.arg in plain:
                return path, node.lineno
    return "", 0


def _walk(path: str) -> Iterator[Any]:
    if path not in _trees:
        try:
            with open(path, encoding="utf-8") as file:
                _trees[path] = ast.parse(file.read())
        except (OSError, SyntaxError, ValueError):
            _trees[path] = ast.Module(body=[], type_ignores=[])
    return ast.walk(_trees[path])
