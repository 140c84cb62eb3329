"""Finds what a script has replaced in Python itself before it imports a package.

A package keeps what it finds at its import: a stream, a function, the class of loggers. What the
parent has imported has kept the original, so that such a script runs without a parent.
"""

import sys
from typing import Any, Collection, Dict, Iterable

from .imports import CALLABLES, PYTHONS_OWN, copy_name, find_origin, is_installed

# What is in these is looked up at each call, and replaced by many.
CALLED_BY_NAME = {"__main__", "builtins", "sys", "warnings"}
STREAMS = ("stdout", "stderr")


class Originals:
    """What a process has before its script begins."""

    def __init__(self, modules: Dict[str, Any]) -> None:
        self._streams = {name: getattr(sys, name) for name in STREAMS}
        self._functions = {
            name: {copy_name(key): one for key, one in vars(module).items() if is_public(key, one)}
            for name, module in modules.items()
            if name not in CALLED_BY_NAME and is_pythons_own(module)
        }
        self._logging = modules.get("logging")
        self._logger_class = find_logger_class(self._logging)

    def find_function(self, modules: Iterable[str], keepers: Collection[object]) -> str:
        """Return what of these modules is another one now and was kept; empty if nothing is."""
        for module in modules:
            functions = self._functions.get(module, {})
            there = getattr(sys.modules.get(module), "__dict__", functions)
            for name, function in functions.items():
                is_other = there.get(name) is not function
                if is_other and any(keeps(one, function) for one in keepers):
                    return f"{module}.{name}"
        return ""

    def find_setting(self) -> str:
        """Return what else is another one now, empty if nothing is."""
        for name, stream in self._streams.items():
            if getattr(sys, name) is not stream:
                return f"sys.{name}"
        is_same = find_logger_class(self._logging) is self._logger_class
        return "" if is_same else "the class of loggers"


def is_public(name: str, value: object) -> bool:
    """Tell whether this is a function or class that others import; what else changes by itself."""
    return not name.startswith("_") and issubclass(type(value), CALLABLES)


def keeps(module: object, function: object) -> bool:
    """Tell whether a module has something by a name of its own, or a class that is made of it."""
    for value in list(getattr(module, "__dict__", {}).values()):
        made_of = type.mro(value) if issubclass(type(value), type) else (value,)
        if any(one is function for one in made_of):
            return True
    return False


def is_pythons_own(module: object) -> bool:
    """Tell whether a module came with Python."""
    origin = find_origin(module)
    ours = origin.startswith(PYTHONS_OWN) and not is_installed(origin)
    return ours or origin in ("built-in", "frozen")


def find_logger_class(logging: Any) -> object:
    """Return the class of which loggers are made, None without `logging`."""
    return logging and (logging.root.manager.loggerClass or logging.getLoggerClass())
