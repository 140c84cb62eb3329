"""Hands a run, module by module, what its warm parent has imported, as the run asks for it.

It is a finder on the run's `sys.meta_path`. The variables that an import has read, `sys.path` and
CPU affinity must be in the run what they were in the parent. If they are not, the run starts over
as it would have started without a parent.
"""

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from .imports import FREE_PREFIXES, Group, copy_name, find_origin, list_references
from .lists import SCRIPT
from .registered import ExitHandlers, Loggers
from .repairs import REPAIRS, make_folder
from .replaced import Originals, is_pythons_own
from .state import apply_changes, find_replaced, has_library

Found = Tuple[Set[str], List[Group]]
# What scripts set for others than the libraries that a parent loads, or for a device, which it does
# not open. KMP_, which scikit-learn sets, is read by Intel's and LLVM's OpenMP alone.
UNREAD_IN_C = (
    *FREE_PREFIXES,
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_ORDER",
    "CUDA_VISIBLE_DEVICES",
    "HF_",
    "HYDRA_",
    "MPLBACKEND",
    "PL_",
    "PYTHONHASHSEED",
    "TF_CPP_",
    "TOKENIZERS_",
    "TRANSFORMERS_",
)
# Of importlib's own functions, and of finders; from the innermost on.
IMPORT = ("_find_spec", "_find_and_load_unlocked")
WRAPPED_IMPORT = ("_find_spec", "find_spec", "find_spec", *IMPORT)
# What libraries of Python's own read that are written in C.
READ_IN_C = {"_hashlib": {"OPENSSL_CONF", "OPENSSL_MODULES"}, "_ssl": {"OPENSSL_CONF"}}


class Store:
    """All imported modules, and what each of them refers to.

    A run that only reads a name writes to it, in its count of references, and so has a page more of
    its own: the names are copies, side by side, and nothing is asked of modules that it leaves out.
    """

    def __init__(self, groups: Sequence[Group], others: Dict[str, Any]) -> None:
        modules = dict(others)
        references = {name: list_references(module) for name, module in others.items()}
        for group in groups:
            modules.update(group.modules)
            references.update(group.references)
        referred_to: Set[str] = set().union(*references.values())
        names = {name: copy_name(name) for name in modules.keys() | referred_to}
        pythons_own = {name for name, module in modules.items() if is_pythons_own(module)}
        self.groups = groups
        self.modules = {names[name]: module for name, module in modules.items()}
        self.places = {name: place for place, name in enumerate(self.modules)}
        # Those that are files of a package.
        self.foreign = frozenset(
            name
            for name, module in self.modules.items()
            if name not in pythons_own and os.sep in find_origin(module)
        )
        self.references = {
            names[name]: tuple(
                names[to]
                for to in referred
                # What a package has put into one of Python's own.
                if not (name in pythons_own and to in self.foreign)
            )
            for name, referred in references.items()
        }
        self.members = {group: tuple(names[name] for name in group.modules) for group in groups}
        self.group_of = {name: group for group in groups for name in self.members[group]}
        self.made = list_made(groups)
        self.unread = UNREAD_IN_C if has_library("omp5", "libomp") else (*UNREAD_IN_C, "KMP_")
        self.originals = Originals({**sys.modules, **self.modules})

    def find(self, name: str, present: Dict[str, Any]) -> Found:
        """Return what an import brings that is not present: modules and, of packages, groups."""
        found: Set[str] = set()
        groups: List[Group] = []
        waiting = [name]
        while waiting:
            name = waiting.pop()
            if name in found or name not in self.modules or name in present:
                continue
            found.add(name)
            waiting += [*self.references[name], name.rpartition(".")[0]]
            group = self.group_of.get(name)
            if group and group not in groups and (name == group.name or name in self.foreign):
                groups.append(group)
                waiting += self.members[group]
        return found, sorted(groups, key=self.groups.index)


class Handover:
    """A finder before all others; `start_over` is told of a module that is not as in a cold run."""

    def __init__(
        self,
        store: Store,
        loggers: Loggers,
        exit_handlers: ExitHandlers,
        start_over: Callable[[str, str], None],
    ) -> None:
        self.store = store
        self.loggers = loggers
        self.exit_handlers = exit_handlers
        self.start_over = start_over
        self.path = list(sys.path)  # as the script finds it
        self.affinity = os.sched_getaffinity(0)
        self.kept: Tuple[object, ...] = ()
        self.given: Set[str] = set()  # once, since a script may have a module executed again

    def find_spec(self, name: str, *_: object) -> Optional[Any]:
        """Return the specification of a module that is there already."""
        is_there = name not in self.store.modules or name in sys.modules or name in self.given
        if is_there or not is_import(sys._getframe(1), name):
            return None
        try:
            return self._hand_over(name)
        except Exception as error:
            self.start_over(name, repr(error))
            raise

    def _hand_over(self, name: str) -> Any:
        names, groups = self.store.find(name, sys.modules)
        loggers = self.loggers.list_names(names, groups)
        replaced = self._find_replaced(names, bool(loggers))
        if replaced:
            self.start_over(SCRIPT, f"{replaced} was replaced before {name} was imported")
        reason = self.loggers.find_difference(loggers)
        if reason:
            self.start_over(name, reason)
        for group in groups:
            reason = self._find_difference(group)
            if reason:
                self.start_over(group.name, reason)
            apply_changes(group.before, group.after)
            for finalizer, told in group.finalizers.items():
                type(finalizer)._registry[finalizer] = told
            for folder, words in group.folders:
                make_folder(folder, words)
        self._find_loose_differences(names)
        self.loggers.hand_over(loggers)
        self._place(names)
        self.exit_handlers.begin_finalizing(groups)
        del sys.modules[name]  # whoever asks puts it there himself
        return ModuleSpec(name, Lender(self.store.modules[name]))  # type: ignore[arg-type]

    def _find_replaced(self, names: Set[str], has_loggers: bool) -> str:
        """Return what the script has replaced in Python that these modules may have kept."""
        store = self.store
        referred = {to for name in names for to in store.references[name]}
        replaced = store.originals.find_function(referred, [store.modules[name] for name in names])
        if replaced or not (has_loggers or names & store.foreign):
            return replaced
        return store.originals.find_setting()

    def _find_difference(self, group: Group) -> str:
        """Return what is not as it was at the import of a group."""
        told = group.before.environment
        changed = {n for n in (*told, *os.environ) if os.environ.get(n) != told.get(n)}
        bound = {n for n in changed if group.native and self._may_be_read_in_c(n)}
        for name in sorted((changed & group.reads) | bound):
            return f"{name} was changed before its import"
        if group.native and os.sched_getaffinity(0) != self.affinity:
            return "CPU affinity was changed before its import"
        replaced = find_replaced(group.before, group.after)
        if replaced:
            return f"{replaced} was replaced before its import"
        if sys.path != self.path and not are_found(group.origins):
            return "sys.path leads to another one"
        return ""

    def _may_be_read_in_c(self, name: str) -> bool:
        """Tell whether a library may go by a variable that the script has changed."""
        return not name.startswith(self.store.unread) and os.environ.get(
            name
        ) not in self.store.made.get(name, ())

    def _find_loose_differences(self, names: Set[str]) -> None:
        for name in names & READ_IN_C.keys() & self.store.group_of.keys():
            told = self.store.group_of[name].before.environment
            for variable in READ_IN_C[name]:
                if os.environ.get(variable) != told.get(variable):
                    self.start_over(name, f"{variable} was changed before its import")

    def _place(self, names: Set[str]) -> None:
        modules = self.store.modules
        placed = sorted(names, key=self.store.places.__getitem__)
        self.given |= names
        for name in placed:
            sys.modules[name] = modules[name]
            group = self.store.group_of.get(name)
            for owner, child, module in group.attributes if group else ():
                if module is modules[name]:
                    setattr(owner, child, module)
        for name in placed:
            self.exit_handlers.hand_over(name)
            if name in REPAIRS:
                REPAIRS[name](modules[name])


class Lender:
    """A loader whose module is there already."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.spec = getattr(module, "__spec__", None)

    def create_module(self, _spec: object) -> Any:
        """Return the module."""
        return self.module

    def exec_module(self, module: Any) -> None:
        """Give it back the specification by which it was found."""
        module.__spec__ = self.spec


def list_made(groups: Sequence[Group]) -> Dict[str, Set[Optional[str]]]:
    """Return the values that imports themselves give to variables."""
    made: Dict[str, Set[Optional[str]]] = {}
    for group in groups:
        before, after = group.before.environment, group.after.environment
        for name in before.keys() | after.keys():
            if before.get(name) != after.get(name):
                made.setdefault(name, set()).add(after.get(name))
    return made


def is_import(frame: Any, name: str) -> bool:
    """Tell whether a finder is asked for an import; others ask where a module would be from.

    A finder that wraps the loaders of others asks for its import: the SDK's, since `wandb.init`.
    """
    frames: List[Any] = []
    while frame and len(frames) < len(WRAPPED_IMPORT):
        frames.append(frame)
        frame = frame.f_back
    names = tuple(frame.f_code.co_name for frame in frames)
    if names == WRAPPED_IMPORT:
        return bool(frames[3].f_locals.get("name") == name)
    return names[:2] == IMPORT


def are_found(origins: Dict[str, str]) -> bool:
    """Tell whether modules are still found in the files from which they were imported."""
    find = PathFinder.find_spec
    found = {name: find(name) for name in origins}
    return all(spec and spec.origin == origins[name] for name, spec in found.items())
