"""What of a process an import may change, besides the modules that it makes."""

import _signal  # type: ignore[import-not-found]
import _warnings
import builtins
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Set, Tuple

    Change = Tuple[Any, Any, Any]  # of what, before, after

MISSING = object()


def list_lists() -> "List[List[Any]]":
    """Return the lists to which imports add."""
    filters: "Any" = _warnings
    return [filters.filters, sys.meta_path, sys.path_hooks, sys.path]


def list_tables() -> "List[Dict[str, Any]]":
    """Return the tables in which imports replace something."""
    streams = (getattr(stream, "__dict__", {}) for stream in (sys.stdout, sys.stderr))
    return [vars(builtins), *streams]


class State:
    """A process's state at one moment."""

    def __init__(self) -> None:
        self.lists = [list(one) for one in list_lists()]
        self.tables = [dict(one) for one in list_tables()]
        self.environment = dict(os.environ)
        self.others = read_others()
        self.loggers = read_loggers()
        self.finalizers = list_finalizers()
        self.traces = list_traces()

    def find_reason(self, before: "State") -> str:
        """Return what an import has changed that cannot be handed on; empty if nothing."""
        for name, value in self.others.items():
            if value != before.others.get(name, value):
                return f"changes {name} at import"
        for name, value in before.loggers.items():
            if self.loggers.get(name) != value:
                return f"changes the logger {name} at import"
        more = self.traces - before.traces
        return f"leaves a {min(more).partition(' ')[0]} open at import" if more else ""

    def restore(self) -> None:
        """Give the process the lists, tables and environment of this moment."""
        for one, now in zip(list_lists(), self.lists):
            one[:] = now
        for table, content in zip(list_tables(), self.tables):
            table.clear()
            table.update(content)
        set_environment(self.environment)
        forget_filters()


def read_others() -> "Dict[str, Any]":
    """Return what an import must leave alone, by what it is called."""
    found: "Dict[str, Any]" = {
        "the working folder": os.getcwd(),
        "the recursion limit": sys.getrecursionlimit(),
        "the switch interval": sys.getswitchinterval(),
        "the hooks of sys": (sys.excepthook, sys.displayhook, sys.unraisablehook),
        "the standard streams": (sys.stdin, sys.stdout, sys.stderr),
        "signal handlers": [_signal.getsignal(number) for number in range(1, _signal.NSIG)],
        "CPU affinity": os.sched_getaffinity(0),
        "niceness": os.nice(0),
        "the output": [measure_output(stream) for stream in (sys.stdout, sys.stderr)],
    }
    if "_locale" in sys.modules:
        locale: "Any" = sys.modules["_locale"]
        found["the locale"] = locale.setlocale(locale.LC_ALL, None)
    if hasattr(sys.modules.get("numpy.random.mtrand"), "_rand"):
        numpy: "Any" = sys.modules["numpy.random.mtrand"]
        kind, keys, *rest = numpy.get_state()
        found["numpy's random numbers"] = (kind, keys.tobytes(), rest)
    if hasattr(sys.modules.get("torch"), "get_rng_state"):
        torch: "Any" = sys.modules["torch"]
        found["torch's random numbers"] = torch.get_rng_state().tolist()
    return found


def measure_output(stream: "Any") -> int:
    """Return how much has been written; each run would write it itself."""
    stream.flush()
    return os.fstat(stream.fileno()).st_size


def read_loggers() -> "Dict[str, Any]":
    """Return how each logger is set up; none before `logging` is imported."""
    logging: "Any" = sys.modules.get("logging")
    root: "Any" = getattr(logging, "root", None)
    if root is None:
        return {}
    loggers = {"root": root, **root.manager.loggerDict}
    return {name: read_logger(one) for name, one in loggers.items() if hasattr(one, "handlers")}


def read_logger(logger: "Any") -> "Any":
    """Return how one logger is set up."""
    above = getattr(logger.parent, "name", None)
    what = list(logger.handlers), list(logger.filters), above
    return (logger.level, logger.disabled, logger.propagate, *what)


def list_finalizers() -> "Dict[Any, Any]":
    """Return what `weakref` is to do later, by its objects."""
    finalize: "Any" = getattr(sys.modules.get("weakref"), "finalize", None)
    return dict(finalize._registry) if finalize else {}


def list_traces() -> "Set[str]":
    """Return what an import may leave open: threads and files."""
    threads = {f"thread {name}" for name in os.listdir("/proc/self/task")}
    # OpenBLAS ends its threads before a fork, and begins them again behind it.
    if len(threads) > 1 and has_library("openblas"):
        threads = set()
    return threads | {f"file {name}" for name in os.listdir("/proc/self/fd")}


def has_library(*names: str) -> bool:
    """Tell whether a library is loaded whose file has one of these in its name."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        return any(name in line.rpartition("/")[2] for line in file for name in names)


def set_environment(environment: "Dict[str, str]") -> None:
    """Change what differs; the order of the rest stays."""
    for name in [name for name in os.environ if name not in environment]:
        del os.environ[name]
    for name, value in environment.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def apply_changes(before: State, after: State) -> None:
    """Change this process as an import has changed another."""
    for one, old, new in zip(list_lists(), before.lists, after.lists):
        change_list(one, old, new)
    for table, old_table, new_table in zip(list_tables(), before.tables, after.tables):
        change_table(table, old_table, new_table)
    change_table(os.environ, before.environment, after.environment)
    forget_filters()


def find_replaced(before: State, after: State) -> str:
    """Return what an import replaces in a table, if it is not what the import has found there."""
    for table, old, new in zip(list_tables(), before.tables, after.tables):
        for name in old.keys() | new.keys():
            is_changed = old.get(name, MISSING) is not new.get(name, MISSING)
            if is_changed and table.get(name, MISSING) is not old.get(name, MISSING):
                return name
    return ""


def change_list(one: "List[Any]", old: "List[Any]", new: "List[Any]") -> None:
    """Add to a list what was added to another, at the same end of it."""
    if old == new:
        return
    added = [item for item in new if item not in old]
    gone = [item for item in old if item not in new]
    kept = [item for item in one if item not in gone]
    in_front = new[: len(added)] == added
    one[:] = added + kept if in_front else kept + added


def change_table(table: "Any", old: "Dict[str, Any]", new: "Dict[str, Any]") -> None:
    """Set in a table what was set in another."""
    for name, value in new.items():
        if old.get(name, MISSING) is not value and old.get(name, MISSING) != value:
            table[name] = value
    for name in old.keys() - new.keys():
        table.pop(name, None)


def forget_filters() -> None:
    """Tell Python that the filters of warnings have changed."""
    warnings: "Any" = _warnings
    if hasattr(warnings, "_filters_mutated"):
        warnings._filters_mutated()
    elif hasattr(warnings, "_filters_mutated_lock_held"):
        with warnings._lock if hasattr(warnings, "_lock") else warnings._acquire_lock():
            warnings._filters_mutated_lock_held()
