"""Keeps what packages make while they are preloaded apart from the runs that are forked.

A run calls no exit handler and no finalizer of its parent, deletes none of its temporary folders
and draws none of its random numbers. `Inherited.renew` gives each run its own; if runs would share
something that cannot be renewed, `Inherited.find_obstacle` names it and they start cold.
"""

import atexit
import contextlib
import gc
import os
import random
import shutil
import sys
import tempfile
import weakref
from typing import Any, Callable, Dict, Iterator, List, Tuple

# Their exit handlers act on what the run itself has made by its end: it would hang or lose messages
# without them.
OWN_HANDLERS = ("logging", "multiprocessing", "torch", "weakref")
FRESH_BITS = 64  # numpy draws 128 bits of entropy for a generator without a seed; seeds are shorter
BETWEEN_PROCESSES = "multiprocessing.synchronize"


class Inherited:
    """What preloading has made in this process."""

    def __init__(self) -> None:
        self._files = list_files()
        self._handlers: List[Any] = []
        self._paths: List[str] = []
        self._randoms: Dict[int, Tuple[Any, bool]] = {}
        self._bits: List[Any] = []
        self._folders: List[Any] = []

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record what is made by the imports inside this context."""
        watched: List[Tuple[Any, str, Callable[..., None]]] = [
            (atexit, "register", lambda _, handler, *__: self._handlers.append(handler)),
            (tempfile, "mkdtemp", lambda path, *_: self._paths.append(path)),
            (tempfile, "mkstemp", lambda made, *_: self._paths.append(made[1])),
            (random.Random, "seed", self._note_seed),
        ]
        originals = [getattr(owner, name) for owner, name, _ in watched]
        for (owner, name, note), original in zip(watched, originals):
            setattr(owner, name, build_recorder(original, note))
        try:
            yield
        finally:
            for (owner, name, _), original in zip(watched, originals):
                setattr(owner, name, original)
        self._bits = find_bit_generators()

    def _note_seed(self, _: object, one: Any, seed: object = None, *__: object) -> None:
        self._randoms[id(one)] = (one, seed is None)

    def find_obstacle(self) -> str:
        """Return what was made that runs would share, empty if there is nothing."""
        opened = [path for number, path in list_files().items() if number not in self._files]
        if opened:
            return f"preloading has left {opened[0]} open"
        renewed = {folder.name for folder in list_folders()}
        left = [path for path in self._paths if path not in renewed and os.path.exists(path)]
        if left:
            return f"preloading has made {left[0]}"
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
            return "preloading has started a process"
        util: Any = sys.modules.get("multiprocessing.util")
        forked = list(util._afterfork_registry.values()) if util else []
        if any(type(one).__module__ == BETWEEN_PROCESSES for one in forked):
            return "preloading has made a lock between processes"
        return ""

    def renew(self) -> None:
        """Give the run that this process has become its own; the parent's stays the parent's."""
        for handler in self._handlers:
            if (getattr(handler, "__module__", "") or "").partition(".")[0] not in OWN_HANDLERS:
                atexit.unregister(handler)
        self._folders = list_folders()
        for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
            finalizer.detach()
        for folder in self._folders:
            renew_folder(folder)
        for one, is_unseeded in self._randoms.values():
            if is_unseeded:
                one.seed()
        for bits in self._bits:
            bits.state = type(bits)().state

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
    """Return this process's open files by their numbers."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the listing itself
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return found


def list_folders() -> List[Any]:
    """Return the temporary folders that are deleted when this process ends."""
    finalizers = list(weakref.finalize._registry)  # type: ignore[attr-defined]
    objects = [(one.peek() or [None])[0] for one in finalizers]
    return [one for one in objects if isinstance(one, tempfile.TemporaryDirectory)]


def renew_folder(folder: Any) -> None:
    """Have a temporary folder stand for a new one, with what the parent has put into its own."""
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


def find_bit_generators() -> List[Any]:
    """Return numpy's generators that the system has seeded, not a package with a number."""
    module: Any = sys.modules.get("numpy.random.bit_generator")
    if not module:
        return []
    kind = module.BitGenerator
    found: List[Any] = [one for one in gc.get_objects() if issubclass(type(one), kind)]
    return [one for one in found if is_fresh(getattr(one, "_seed_seq", None))]


def is_fresh(seeds: Any) -> bool:
    """Return True if the system has chosen the seed of a generator."""
    entropy = getattr(seeds, "entropy", None)
    return isinstance(entropy, int) and entropy.bit_length() > FRESH_BITS
