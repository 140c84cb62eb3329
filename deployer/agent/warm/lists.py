"""The files in which runs say what they import, and the parent what it leaves out, and why."""

import os

SCRIPT = "__main__"  # among what is unfit: nothing is imported for all runs of this script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Tuple

    # A module, and the variables that were others by its import; None is one that was not set.
    Entry = Tuple[str, Dict[str, Optional[str]]]


def read_entries(path: str) -> "List[Entry]":
    """Return a list of modules, one a line, with the variables that had another value by then."""
    found = []
    for line in filter(None, read_lines(path)):
        name, *changes = [unescape(field) for field in line.split("\t")]
        pairs = [change.partition("=") for change in changes]
        found.append((name, {key: value if is_set else None for key, is_set, value in pairs}))
    return found


def unescape(field: str) -> str:
    """Return a field as deployer_imports.py had it; it puts a NUL, which no variable holds."""
    return field.replace("\0t", "\t").replace("\0n", "\n")


def read_unfit(path: str) -> "Dict[str, str]":
    """Return why modules are not imported for all, by their names."""
    pairs = [line.partition("\t") for line in read_lines(path) if line]
    return {name: reason for name, _, reason in pairs}


def read_lines(path: str) -> "List[str]":
    """Return the lines of a file; none if there is no file."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().split("\n")
    except OSError:
        return []


def write_unfit(path: str, unfit: "Dict[str, str]") -> None:
    """Remember why modules are not imported for all."""
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write("".join(f"{name}\t{reason}\n" for name, reason in unfit.items()))
    os.replace(temporary, path)


def explain(module: str, reason: str) -> str:
    """Return in words why a module is unfit, or a script."""
    return reason if module == SCRIPT else f"{module}: {reason}"
