"""Keeps from a run what imports register with the process, until it imports the same.

These are loggers, by which `logging.config` goes and which it silences, and exit handlers, whose
order is that of their imports, with the finalizers of weakref.
"""

import atexit
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Collection, Dict, List, Sequence

    from .imports import Group


class ExitHandlers:
    """Stands in for `atexit.register` while a parent imports, and notes which module calls it."""

    def __init__(self, find_module: "Callable[[], str]") -> None:
        self.calls: "Dict[str, List[Any]]" = {}
        self._find_module = find_module
        self._table: "Any" = atexit
        self._register = atexit.register

    def begin(self) -> None:
        """Note all calls from now on; a module may keep what it finds."""

        def register(function: "Any", *words: "Any", **named: "Any") -> "Any":
            if self._table.register is register:
                calls = self.calls.setdefault(self._find_module(), [])
                calls.append((function, words, named))
            return self._register(function, *words, **named)

        self._table.register = register

    def end(self) -> None:
        """Give `atexit` its own function back."""
        self._table.register = self._register

    @property
    def _finalizers(self) -> "Any":
        return getattr(sys.modules.get("weakref"), "finalize", None)

    def put_away(self) -> None:
        """Have this process forget what was registered; each run registers what it imports."""
        for calls in self.calls.values():
            for function, _, _ in calls:
                atexit.unregister(function)
        if self._finalizers:
            self._finalizers._registry.clear()
            self._finalizers._registered_with_atexit = False

    def hand_over(self, module: str) -> None:
        """Register what a module has registered when it was imported."""
        for function, words, named in self.calls.get(module, ()):
            if self._finalizers and function == self._finalizers._exitfunc:
                self._register_finalizers()
            else:
                atexit.register(function, *words, **named)

    def begin_finalizing(self, groups: "Sequence[Group]") -> None:
        """Have what is left of these groups for the process's end done at the run's."""
        if any(group.finalizers for group in groups):
            self._register_finalizers()

    def _register_finalizers(self) -> None:
        if not self._finalizers._registered_with_atexit:
            atexit.register(self._finalizers._exitfunc)
            self._finalizers._registered_with_atexit = True


class Loggers:
    """The loggers that imports made, out of sight until a run imports the same."""

    def __init__(self, groups: "Sequence[Group]") -> None:
        self._logging = logging = find_logging()
        self._made: "Dict[str, Any]" = {}
        self._by_module: "Dict[str, List[str]]" = {}
        if logging is None:
            return
        table, kind = logging.root.manager.loggerDict, logging.Logger
        self._made = {name: one for name, one in table.items() if issubclass(type(one), kind)}
        names = {id(one): name for name, one in self._made.items()}
        for group in groups:
            for name, module in group.modules.items():
                values = list(getattr(module, "__dict__", {}).values())
                self._by_module[name] = [names[id(one)] for one in values if id(one) in names]
        table.clear()

    def list_names(self, modules: "Collection[str]", groups: "Sequence[Group]") -> "List[str]":
        """Return the loggers of these modules and groups, in their order."""
        wanted = {name for group in groups for name in group.loggers}
        wanted |= {name for module in modules for name in self._by_module.get(module, ())}
        return [name for name in self._made if name in wanted]

    def find_difference(self, names: "Sequence[str]") -> str:
        """Return what the script has set up that the imports would have met."""
        if not names:
            return ""
        table = self._logging.root.manager
        for name in names:
            there = table.loggerDict.get(name)
            is_other = hasattr(there, "handlers") and there is not self._made[name]
            if is_other and not is_plain(self._made[name]):
                return f"the logger {name} was used before its import"
        return ""

    def hand_over(self, names: "Sequence[str]") -> None:
        """Put these loggers where the script finds them; what it has set up holds for them."""
        if not names:
            return
        manager = self._logging.root.manager
        for name in names:
            one, there = self._made[name], manager.loggerDict.get(name)
            if hasattr(there, "handlers"):
                one.__dict__ = there.__dict__
                continue
            manager.loggerDict[name] = one
            if there is not None:
                manager._fixupChildren(there, one)
            manager._fixupParents(one)
        manager._clear_cache()


def find_logging() -> "Any":
    """Return the module `logging`, None where nobody has imported it."""
    module = sys.modules.get("logging")
    return module if hasattr(module, "root") else None


def is_plain(logger: "Any") -> bool:
    """Tell whether nobody has set up a logger."""
    changed = logger.level or logger.disabled or logger.handlers or logger.filters
    return logger.propagate and not changed
