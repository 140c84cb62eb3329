"""Isolates forked runs from resources that packages created during preloading.

A run calls no exit handlers of its parent, deletes none of its temporary folders and does not reuse
its random numbers. `Inherited.renew` gives each run its own; if runs would share something that
cannot be renewed, `Inherited.find_obstacle` returns it and they start cold.
"""

import atexit
import contextlib
import gc
import os
import random
import secrets
import shutil
import sys
import tempfile
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

# Their exit handlers act on the run's own objects; without them it would hang or lose messages.
OWN_HANDLERS = ("logging", "multiprocessing", "torch", "weakref")
OWN_PREFIXES = ("WANDB_", "DEPLOYER_")  # of variables specific to one run


class Inherited:
    """Resources that preloading created in this process."""

    def __init__(self) -> None:
        self._files, self._memory = list_files(), list_shared_memory()
        self._environment = dict(os.environ)
        self._handlers: List[Any] = []
        self._paths: List[str] = []
        self._randoms: Dict[int, Tuple[Any, bool]] = {}
        self._entropies: Set[int] = set()
        self._bits: List[Any] = []
        self._folders: List[Any] = []
        self._chosen: Any = None  # the state of `random`, if a package has seeded it

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record the resources that imports create inside this context."""
        watched: List[Tuple[Any, str, Callable[..., None]]] = [
            (atexit, "register", lambda _, handler, *__: self._handlers.append(handler)),
            (tempfile, "mkdtemp", lambda path, *_: self._paths.append(path)),
            (tempfile, "_mkstemp_inner", lambda made, *_: self._paths.append(made[1])),
            (secrets, "randbits", lambda entropy, *_: self._entropies.add(entropy)),
            (random.Random, "seed", self._note_seed),
            (random.Random, "setstate", lambda _, one, *__: self._note_seed(_, one, True)),
            (random, "seed", lambda _, seed=None, *__: self._note_seed(_, random, seed)),
        ]
        recorders = []
        for owner, name, note in watched:
            original = getattr(owner, name)
            recorder = build_recorder(original, note)
            recorders.append((owner, name, original, recorder))
            setattr(owner, name, recorder)
        try:
            yield
        finally:
            for owner, name, original, recorder in recorders:
                if getattr(owner, name) is recorder:  # else a package has replaced it
                    setattr(owner, name, original)
        self._bits = find_bit_generators(self._entropies)
        is_unseeded = self._randoms.pop(id(random), (random, True))[1]
        self._chosen = None if is_unseeded else random.getstate()

    def _note_seed(self, _: object, one: Any, seed: object = None, *__: object) -> None:
        self._randoms[id(one)] = (one, seed is None)

    def find_obstacle(self) -> str:
        """Return a created resource that runs would share; empty if there is none."""
        opened = [path for number, path in list_files().items() if number not in self._files]
        if opened:
            return f"preloading has left {opened[0]} open"
        if list_shared_memory() - self._memory:
            return "preloading has made memory that processes share"
        renewed = [folder.name for folder in list_folders()]
        left = [path for path in self._paths if path not in renewed and os.path.exists(path)]
        if left:
            return f"preloading has made {left[0]}"
        for place in filter(None, map(find_mention, renewed)):
            return f"preloading keeps the name of a temporary folder in {place}"
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
            return "preloading has started a process"
        changed = [name for name in self.list_changes() if name.startswith(OWN_PREFIXES)]
        return f"preloading sets {changed[0]}, which is the run's own" if changed else ""

    def list_changes(self) -> Dict[str, Optional[str]]:
        """Return the variables that imports have set; None for those that they have removed."""
        names = {*self._environment, *os.environ}
        now = {name: os.environ.get(name) for name in sorted(names)}
        return {name: one for name, one in now.items() if one != self._environment.get(name)}

    def renew(self) -> None:
        """In a forked run, replace the parent's resources with new ones."""
        for handler in self._handlers:
            if (getattr(handler, "__module__", "") or "").partition(".")[0] not in OWN_HANDLERS:
                atexit.unregister(handler)
        self._folders = list_folders()
        for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
            finalizer.atexit = False  # the script may still call it
        for folder in self._folders:
            folder._finalizer.detach()
            renew_folder(folder)
        for one, is_unseeded in self._randoms.values():
            if is_unseeded:
                one.seed()
        if self._chosen is not None:  # Python reseeds it in each fork
            random.setstate(self._chosen)
        for bits in self._bits:
            type(bits).__init__(bits)

    def delete_folders(self) -> None:
        """Delete the run's own temporary folders, before it ends without its exit handlers."""
        for folder in self._folders:
            folder.cleanup()


def build_recorder(original: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
    """Return a function that calls `note` with the result and the arguments of `original`."""

    def recorder(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        note(result, *args, *kwargs.values())
        return result

    return recorder


def list_files() -> Dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return found


def list_shared_memory() -> Set[str]:
    """Return the addresses of writable memory that a fork would share with its parent.

    Such memory also contains locks between processes.
    """
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        rows = [line.split(maxsplit=2) for line in file]
    return {row[0] for row in rows if row[1][1] == "w" and row[1][3] == "s"}


def list_folders() -> List[Any]:
    """Return the temporary folders that are deleted when this process ends."""
    finalizers = list(weakref.finalize._registry)  # type: ignore[attr-defined]
    objects = [(one.peek() or [None])[0] for one in finalizers]
    return [one for one in objects if isinstance(one, tempfile.TemporaryDirectory)]


def find_mention(path: str) -> str:
    """Return a variable of a module or of the environment with this path; empty if none."""
    for name, text in os.environ.items():
        if path in text:
            return name
    for module, loaded in list(sys.modules.items()):
        if type(loaded) is type(sys):
            for name, value in list(vars(loaded).items()):
                if isinstance(value, (str, os.PathLike)) and path in str(value):
                    return f"{module}.{name}"
    return ""


def renew_folder(folder: Any) -> None:
    """Replace the parent's temporary folder with a copy for this run."""
    parents = folder.name
    options = {
        name: getattr(folder, f"_{name}")
        for name in ("ignore_cleanup_errors", "delete")
        if hasattr(folder, f"_{name}")
    }
    above, name = os.path.split(parents)
    tempfile.TemporaryDirectory.__init__(folder, prefix=f"{name}-", dir=above, **options)
    for one in os.listdir(parents):
        made, copy = os.path.join(parents, one), os.path.join(folder.name, one)
        (shutil.copytree if os.path.isdir(made) else shutil.copy2)(made, copy)


def find_bit_generators(entropies: Set[int]) -> List[Any]:
    """Return numpy's bit generators that were seeded by the system, not by a package.

    `entropies` are the numbers that the system gave.
    """
    module: Any = sys.modules.get("numpy.random.bit_generator")
    if not module:
        return []
    kind = module.BitGenerator
    found: List[Any] = [one for one in gc.get_objects() if issubclass(type(one), kind)]
    seeds = [getattr(getattr(one, "_seed_seq", None), "entropy", None) for one in found]
    return [one for one, seed in zip(found, seeds) if isinstance(seed, int) and seed in entropies]
