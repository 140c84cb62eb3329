"""Leaves word of what runs import, so that the next ones find it imported.

It imports nothing itself: a module that the project hides by one of its own must not be there.
"""

import atexit
import os
import sys

OURS = ("__main__", "sitecustomize", "usercustomize", "deployer_imports", "deployer_outputs")


def learn(path: str) -> None:
    """Add to the list, at the end of this process, what it imports from now on.

    What is there already, every Python has at its start, or the warm parent for itself.
    """
    process, there = os.getpid(), frozenset(sys.modules)

    def write() -> None:
        if os.getpid() != process:
            return  # a fork of this process has its exit handlers, too
        known = read_list(path)
        more = [name for name in list_modules() if name not in there.union(known)]
        if not more:
            return
        try:
            with open(f"{path}.{process}", "w", encoding="utf-8") as file:
                file.write("\n".join([*known, *more]))
            os.replace(f"{path}.{process}", path)
        except OSError:
            pass

    atexit.register(write)


def read_list(path: str) -> "list[str]":
    """Return the modules on a list, one a line; none if there is no list."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().split()
    except OSError:
        return []


def list_modules() -> "list[str]":
    """Return the modules of installed packages and of Python itself, in the order of imports."""
    python = os.path.dirname(os.__file__) + os.sep
    found = [(name, find_origin(module)) for name, module in list(sys.modules.items())]
    return [
        name
        for name, origin in found
        if name not in OURS and (is_installed(origin) or origin.startswith(python))
    ]


def find_origin(module: object) -> str:
    """Return the file that a module is from, empty if it is from none."""
    spec = getattr(module, "__spec__", None)
    return str(getattr(spec, "origin", None) or "")


def is_installed(origin: str) -> bool:
    """Tell whether a file is of an installed package: the project's own may change at any time."""
    return "/site-packages/" in origin or "/dist-packages/" in origin
