"""Leaves unwatched what only computes and is called most, while a module is imported.

A few of Python's own functions do half of an import's calls; to watch these takes longer than to
make them. A module may keep such a function: it stays the object that it is, and has other code.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Tuple

    from .audit import Audit

PURE = {
    "_frozen_importlib_external": ("PathFinder.find_spec", "SourceLoader.get_code"),
    "dataclasses": ("_process_class",),
    "functools": ("update_wrapper",),
    "importlib.metadata": ("entry_points", "version"),
    "inspect": ("Signature.from_callable", "cleandoc", "getblock", "getmodule"),
    "logging": ("Manager._clear_cache",),
    "re._compiler": ("compile",),
    "sre_compile": ("compile",),  # before Python 3.11
}
FUNCTION = type(lambda: None)


class Pure:
    """These functions, as far as they are imported; an import that one of them makes is watched."""

    def __init__(self, audit: "Audit") -> None:
        self._audit = audit
        self._originals: "List[Tuple[Any, Any]]" = []

    def begin(self) -> None:
        """Leave them unwatched from now on."""
        for module, names in PURE.items():
            for name in names:
                function = find(sys.modules.get(module), name)
                if type(function) is FUNCTION and not function.__closure__:
                    original = FUNCTION(function.__code__, function.__globals__)
                    copy(function, original)
                    self._originals.append((function, original))
                    function.__defaults__ = None
                    function.__kwdefaults__ = {"unwatched": self._build(original)}
                    function.__code__ = pass_on.__code__

    def end(self) -> None:
        """Give each its own code back."""
        while self._originals:
            function, original = self._originals.pop()
            copy(original, function)

    def _build(self, original: "Any") -> "Callable[..., Any]":
        audit = self._audit

        def unwatched(words: "Tuple[Any, ...]", named: "Dict[str, Any]") -> "Any":
            watch = audit.paused = sys.getprofile()
            sys.setprofile(None)
            try:
                return original(*words, **named)
            finally:
                audit.paused = None
                sys.setprofile(watch)

        return unwatched


def find(owner: "Any", name: str) -> "Any":
    """Return a function of a module, or of a class in it; None if it is not there."""
    for word in name.split("."):
        owner = getattr(owner, word, None)
    return getattr(owner, "__func__", owner)


def copy(source: "Any", target: "Any") -> None:
    """Give a function the code and the defaults of another one."""
    target.__code__ = source.__code__
    target.__defaults__ = source.__defaults__
    target.__kwdefaults__ = source.__kwdefaults__


def pass_on(*words: "Any", unwatched: "Any", **named: "Any") -> "Any":
    """What each of them does meanwhile."""
    return unwatched(words, named)
