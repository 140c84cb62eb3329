"""Looks at a script for what its first run will probably import, before any run has told."""

import ast
import os
import zlib
from typing import Dict, Iterator, List, Sequence, Set, Tuple

Node = Tuple[ast.AST, bool]  # and whether it is in a function
MOST_FILES = 200
CHANGING = ("setdefault", "update", "pop", "clear", "putenv", "unsetenv")


def look_at(program: str, folder: str) -> Tuple[List[str], int]:
    """Return the packages that a script and the project's modules import, and a mark of all these.

    What only a function of another module imports may not be needed. The mark is another one when
    one of the files is. Of a script that changes the environment, by which imports go, no packages
    are returned.
    """
    script = os.path.join(folder, program)
    places = (os.path.dirname(script), folder)
    packages: Dict[str, None] = {}
    mark, changes = 0, False
    seen: Set[str] = set()
    waiting = [script]
    while waiting and len(seen) < MOST_FILES:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        try:
            with open(path, "rb") as file:
                source = file.read()
            mark = zlib.crc32(source, mark)
            nodes = list(walk(ast.parse(source)))
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
        changes = changes or any(changes_environment(node) for node, _ in nodes)
        for level, name, is_inner in list_imports(nodes):
            above = os.path.join(os.path.dirname(path), *[os.pardir] * (level - 1))
            files = find_files(name, (above,) if level else places)
            waiting += files
            if not (files or level or (is_inner and path != script)):
                packages[name.partition(".")[0]] = None
    return ([] if changes else list(packages)), mark


def walk(node: ast.AST, is_inner: bool = False) -> Iterator[Node]:
    """Yield all nodes in their order, but for what is only there for type checkers."""
    yield node, is_inner
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        return
    is_inner = is_inner or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    for child in ast.iter_child_nodes(node):
        yield from walk(child, is_inner)


def list_imports(nodes: Sequence[Node]) -> Iterator[Tuple[int, str, bool]]:
    """Yield what is imported: how many dots are before its name, its name, and if in a function."""
    for node, is_inner in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield 0, alias.name, is_inner
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = ".".join(filter(None, (node.module, alias.name)))
                yield node.level, name, is_inner


def find_files(name: str, places: Sequence[str]) -> List[str]:
    """Return the project's files that are executed when a module is imported."""
    words = name.split(".")
    for place in places:
        stems = [os.path.join(place, *words[:end]) for end in range(1, len(words) + 1)]
        paths = [path for stem in stems for path in (f"{stem}.py", f"{stem}{os.sep}__init__.py")]
        found = [os.path.normpath(path) for path in paths if os.path.isfile(path)]
        if found:
            return found
    return []


def changes_environment(node: ast.AST) -> bool:
    """Tell whether this sets a variable, or takes one away."""
    if isinstance(node, ast.Subscript):
        stored = isinstance(node.ctx, (ast.Store, ast.Del))
        return stored and getattr(node.value, "attr", getattr(node.value, "id", "")) == "environ"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = getattr(node.func.value, "attr", getattr(node.func.value, "id", ""))
        return node.func.attr in CHANGING and owner in ("environ", "os")
    return False
