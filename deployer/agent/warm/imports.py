"""Imports for the warm parent what runs import, and puts it away again.

What one import statement brings is a group: its modules, with the process's state before and after
it, so that a run can be handed the modules and what they have changed. A module that does what each
run must do for itself is unfit, and left out. Like `audit`, it imports nothing.
"""

import builtins
import gc
import os
import sys

from .audit import EVERYTHING, PREFIXES, Audit, list_numpy_generators
from .examined import is_examined, is_found
from .pure import Pure
from .registered import ExitHandlers
from .state import State, set_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Collection, Dict, FrozenSet, List, Sequence, Set, Tuple

    from .lists import Entry

# Of one run alone, so that no import for all of them may go by them.
RUNS_OWN = ("DEPLOYER_", "WANDB_RUN_ID", "WANDB_SWEEP_", "WANDB_RESUME")
# Variables that differ from run to run, and of which a library in C makes nothing.
FREE_PREFIXES = ("WANDB_", "DEPLOYER_")
INSTALLED = ("/site-packages/", "/dist-packages/")
CALLABLES = (type, type(os.getenv), type(len))
# A second name of the program, which multiprocessing gives it; see repairs.py.
SPAWNED = "__mp_main__"
# Its classes say that they are from there; they are from `_collections_abc`.
BORROWED = {"collections.abc"}
PACKAGES = ("site-packages", "dist-packages")
PYTHONS_OWN = os.path.dirname(os.__file__) + os.sep


class Arguments(list):  # type: ignore[type-arg]
    """`sys.argv` during imports; whoever reads it would read those of no run."""

    read = False

    def __getitem__(self, index: "Any") -> "Any":
        Arguments.read = True
        return list.__getitem__(self, index)

    def __iter__(self) -> "Any":
        Arguments.read = True
        return list.__iter__(self)


class Group:
    """What one import statement brings: modules in their order, and what else it does."""

    def __init__(self, modules: "Dict[str, Any]", before: State, after: State) -> None:
        self.modules = modules
        self.before = before
        self.after = after
        self.references = {name: list_references(module) for name, module in modules.items()}
        self.reads: "Set[str]" = set()
        self.folders: "List[Tuple[Any, Tuple[Any, ...]]]" = []
        self.attributes: "List[Tuple[Any, str, Any]]" = []
        self.finalizers = {k: v for k, v in after.finalizers.items() if k not in before.finalizers}
        self.loggers = {n: v for n, v in after.loggers.items() if n not in before.loggers}
        origins = [find_origin(module) for module in modules.values()]
        self.native = any(is_installed(o) and ".so" in os.path.basename(o) for o in origins)
        tops = {n: o for n, o in zip(modules, origins) if "." not in n}
        self.origins = {name: origin for name, origin in tops.items() if os.sep in origin}

    @property
    def name(self) -> str:
        """What the first of its modules to begin is called, more or less."""
        return next(reversed(self.modules))


class Unfit(BaseException):
    """A module is asked for that is not to be imported for all."""


class Barrier:
    """A finder that lets nobody import what is unfit."""

    def __init__(self, unfit: "Dict[str, str]") -> None:
        self.unfit = unfit
        self.asked = ""

    def find_spec(self, name: str, *_: object) -> None:
        """Raise Unfit for an unfit module."""
        if name in self.unfit:
            self.asked = name
            raise Unfit(name)


class Imports:
    """The groups that were imported, and why other modules cannot be.

    Nothing is imported but what is in `packages`, or what they import of Python's own.
    """

    def __init__(self, unfit: "Dict[str, str]", packages: "Collection[str]") -> None:
        self.groups: "List[Group]" = []
        self.audit = Audit()
        self._pure = Pure(self.audit)
        self.exit_handlers = ExitHandlers(lambda: self.audit.module)
        self.numpy_generators: "List[Any]" = []
        self.found: "Dict[str, str]" = {}
        self._unfit = unfit
        self._packages = packages
        self._barrier = Barrier(unfit)

    def import_all(self, entries: "Sequence[Entry]") -> None:
        """Import what can be; `found` is what must be left out by another process.

        It leaves off the collection of garbage: what is imported stays, and would be gone through
        again and again.
        """
        sys.argv = Arguments([""])
        base = dict(os.environ)
        finders: "Any" = sys.meta_path
        finders.insert(0, self._barrier)
        python: "Any" = builtins
        kept, python.__import__ = python.__import__, self.audit.import_module
        self.exit_handlers.begin()
        gc.disable()
        try:
            for name, environment in entries:
                if name not in sys.modules and self.is_wanted(name) and is_found(name):
                    told = {**base, **environment}
                    set_environment({n: value for n, value in told.items() if value is not None})
                    self._import(name)
            self._match_generators()
        finally:
            python.__import__ = kept
            self.exit_handlers.end()
            finders.remove(self._barrier)
            set_environment(base)
            sys.argv = [""]

    def is_wanted(self, name: str) -> bool:
        """Tell whether a module is to be imported, unless it is there."""
        unfit = {**self._unfit, **self.found}
        there = any(name in group.modules for group in self.groups)
        return not there and is_examined(name, self._packages) and not is_below(name, unfit)

    def _import(self, name: str) -> None:
        before, known, folders = State(), set(sys.modules), len(self.audit.folders)
        Arguments.read, self._barrier.asked, failed = False, "", False
        self.audit.known = known
        self._pure.begin()
        sys.setprofile(self.audit.build_profile())
        try:
            __import__(name)
        except BaseException:
            failed = True
        finally:
            sys.setprofile(None)
            self._pure.end()
        more = {n: m for n, m in sys.modules.items() if n not in known and n != SPAWNED}
        group = Group(more, before, State())
        group.folders = self.audit.folders[folders:]
        for module in group.modules:
            group.reads |= self._get_reads(module)
            group.references[module] |= self.audit.imports.get(module, set())
        reason = self._judge(group) or ("cannot be imported" if failed else "")
        if reason:
            self.found.setdefault(name, reason)
        elif group.modules:
            self.groups.append(group)

    def _get_reads(self, module: str) -> "Set[str]":
        reads = self.audit.reads.get(module, set())
        if EVERYTHING in reads and module in PREFIXES:
            return {name for name in reads if name.startswith(PREFIXES[module])}
        return reads

    def _judge(self, group: Group) -> str:
        """Return why what was imported must be left out, empty if it need not."""
        if self._barrier.asked:
            return f"imports {self._barrier.asked}"
        if Arguments.read:
            return "reads sys.argv at import"
        bad = [(name, self._judge_module(name, group)) for name in group.modules]
        for name, reason in bad:
            if reason:
                self.found[name] = reason
        named = [f"{name} {reason}" for name, reason in bad if reason]
        return named[0] if named else group.after.find_reason(group.before)

    def _judge_module(self, name: str, group: Group) -> str:
        origin = find_origin(group.modules[name])
        if origin.startswith(os.sep) and not is_installed(origin):
            return "" if origin.startswith(PYTHONS_OWN) else "is the project's own"
        if is_installed(origin) and not is_examined(name, self._packages):
            return "is not known to be fit"
        if any(value is sys.modules["__main__"] for value in vars(group.modules[name]).values()):
            return "keeps the program at import"
        reads = sorted(self._get_reads(name))
        if EVERYTHING in reads:
            return "reads the whole environment at import"
        own = [read for read in reads if read.startswith(RUNS_OWN)]
        return f"reads {own[0]} at import" if own else self.audit.reasons.get(name, "")

    def _match_generators(self) -> None:
        """Leave out what drew numpy's generators a seed, if not all can be seeded anew."""
        self.numpy_generators = list_numpy_generators() if self.audit.entropies else []
        drawn = sum(self.audit.entropies.values())
        if drawn > len(self.numpy_generators):
            for name in self.audit.entropies.keys() - {"numpy.random", "numpy.random._pickle"}:
                self.found.setdefault(name, "draws from a random generator at import")


def put_away(imports: Imports, at_start: "FrozenSet[str]", begun: State) -> None:
    """Make the process as if nothing had been imported, but for what it holds in memory."""
    known = {name: module for group in imports.groups for name, module in group.modules.items()}
    for group in imports.groups:
        for name, module in group.modules.items():
            parent, _, child = name.rpartition(".")
            owner = known.get(parent) or sys.modules.get(parent)
            inside = parent in group.modules
            if owner and not inside and getattr(owner, "__dict__", {}).get(child) is module:
                group.attributes.append((owner, child, module))
    for group in imports.groups:
        for owner, child, _ in group.attributes:
            delattr(owner, child)
        for folder, _ in group.folders:
            folder.cleanup()
    for name in [*sys.modules]:
        if name not in at_start:
            del sys.modules[name]
    begun.restore()


def is_below(name: str, others: "Dict[str, str]") -> bool:
    """Tell whether a module is among others, or in a package that is."""
    words = name.split(".")
    return any(".".join(words[:end]) in others for end in range(1, len(words) + 1))


def list_references(module: object) -> "Set[str]":
    """Return the modules to which one refers, by itself or by something in them."""
    found: "Set[str]" = set()
    for value in list(getattr(module, "__dict__", {}).values()):
        kind = type(value)  # an attribute of some object may do anything
        if issubclass(kind, type(sys)):
            found.add(value.__name__)
        elif issubclass(kind, CALLABLES):
            found.add(str(value.__module__))
        else:
            found.add(str(kind.__module__))
    return found - BORROWED


def copy_name(name: str) -> str:
    """Return a name that lies beside those that are copied with it."""
    return name.encode().decode()


def find_origin(module: object) -> str:
    """Return the file that a module is from, empty if it is from none."""
    spec = getattr(module, "__spec__", None)
    return str(getattr(spec, "origin", None) or "")


def is_installed(origin: str) -> bool:
    """Tell whether a file is of an installed package."""
    return any(part in origin for part in INSTALLED)


def list_files(groups: "Sequence[Group]") -> "Dict[str, Tuple[int, int]]":
    """Return the files of all modules and the folders of packages, with time and size of each."""
    origins = [find_origin(m) for group in groups for m in group.modules.values()]
    folders = [path for path in sys.path if path.endswith(PACKAGES)]
    found = {}
    for path in {*origins, *folders}:
        try:
            state = os.stat(path)
            found[path] = (state.st_mtime_ns, state.st_size)
        except OSError:
            continue
    return found


def find_shadowed(folder: str, groups: "Sequence[Group]") -> str:
    """Return a module that is imported here and would be the project's own in a cold run.

    `folder` is where the program's imports are looked for first.
    """
    imported = {name for group in groups for name in group.modules}
    for entry in os.listdir(folder):
        name, _, ending = entry.partition(".")
        if name in imported and name != "__main__":
            # A folder without it gives way to a package that is installed.
            package = os.path.join(folder, entry, "__init__.py")
            if ending.endswith(("py", "so")) or os.path.exists(package):
                return name
    return ""
