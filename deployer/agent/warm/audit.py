"""Watches what an import does that each run must do for itself: draw, read a clock or a variable.

It is a function for `sys.setprofile`, told of each call, so that hardly anything has to be
replaced: the imported modules might keep it. It does not see what C code calls, and imports nothing
that a bare Python has not: a run would find it.
"""

import builtins
import gc
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Set, Tuple

EVERYTHING = "*"  # the read of somebody who goes through the whole environment
# Modules that were read: they draw nothing but names that are unique within a process, repeat a
# probe, or have a repair of their own (repairs.py).
REVIEWED = {
    "joblib._multiprocessing_helpers",
    "logging",
    "multiprocessing.process",
    "numpy.f2py.rules",
    "opentelemetry.context",
    "opentelemetry.trace.propagation",
    "psutil._pslinux",
    "rich.style",
    "sympy.core.symbol",
    "torch.distributed._composable.contract",
    "wandb.sdk.wandb_settings",
}
# Modules that go through the whole environment, for names that begin so.
PREFIXES = {"tqdm.std": "TQDM_"}
ENVIRONMENT: "Any" = type(os.environ)
READ = ENVIRONMENT.__getitem__.__code__
READ_ALL = (ENVIRONMENT.__iter__.__code__, ENVIRONMENT.copy.__code__)
CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
OWN = {os.getpid: "its process id", os.urandom: "random bytes"}
OWN.update({getattr(time, name): "the time" for name in (*CLOCKS, "process_time", "gmtime")})
OWN[time.localtime] = "the time"
NAMING_DEPTH = 4  # frames: tempfile calls `choices`, which calls `random`
IMPORTLIB = ("importlib._bootstrap", "_frozen_importlib")
IMPORT_WORDS = ("name", "globals", "locals", "fromlist", "level")
DRAWS = ("random", "getrandbits")
SEEDS_AND_DRAWS = ("seed", *DRAWS)
TEMPORARY = ("mkdtemp", "_mkstemp_inner")
# By their names, which are found quickly.
WATCHED_IN_C = {*SEEDS_AND_DRAWS, *(function.__name__ for function in OWN)}
WATCHED = {"<module>", *TEMPORARY, READ.co_name, *(code.co_name for code in READ_ALL)}
SEED_BITS = 64  # a seed that somebody chose is shorter than what numpy draws
ENTROPY_BITS = 128  # what numpy asks for when it makes a generator without a seed


class Audit:
    """What the modules read and drew while they were imported, by the modules' names."""

    def __init__(self) -> None:
        self.reads: "Dict[str, Set[str]]" = {}  # variables
        self.reasons: "Dict[str, str]" = {}  # why a module is unfit
        self.entropies: "Dict[str, int]" = {}  # how many generators of numpy's it gave a seed
        self.generators: "List[Any]" = []  # of `random`, made without a seed
        self.folders: "List[Tuple[Any, Tuple[Any, ...]]]" = []  # temporary ones, and their names
        self.imports: "Dict[str, Set[str]]" = {}
        self.known: "Set[str]" = set()  # what was imported before; it may import more when called
        self.paused: "Any" = None  # the function for sys.setprofile, where something is unwatched
        self._modules: "List[str]" = []
        self._frames: "List[Any]" = []  # theirs
        self._import: "Any" = builtins.__import__

    def build_profile(self) -> "Any":
        """Return a function for sys.setprofile; it is called for everything, and must be quick."""
        modules, frames = self._modules, self._frames

        def profile(frame: "Any", event: str, called: "Any") -> None:
            if event == "c_call":
                if called.__name__ in WATCHED_IN_C:
                    self._note_draw(frame, called)
            elif event == "call":
                if frame.f_code.co_name in WATCHED:
                    self._note_call(frame, frame.f_code)
            elif event == "return" and frames and frame is frames[-1]:
                modules.pop()
                frames.pop()

        return profile

    def _note_call(self, frame: "Any", code: "Any") -> None:
        if code.co_name == "<module>":
            self._modules.append(frame.f_globals.get("__name__") or "")
            self._frames.append(frame)
        elif code is READ:
            self._note_read(frame.f_locals["key"])
        elif code in READ_ALL:
            self._note_read(EVERYTHING)
        elif code.co_name in TEMPORARY:
            self._note_temporary(frame)

    def import_module(self, *words: "Any", **named: "Any") -> "Any":
        """Stand in for `__import__`, and note who imports what, also if it is there already."""
        watch, self.paused = self.paused, None
        if watch:
            sys.setprofile(watch)
        try:
            module = self._import(*words, **named)
        finally:
            if watch:
                sys.setprofile(None)
                self.paused = watch
        told = {**dict(zip(IMPORT_WORDS, words)), **named}
        owner, name, level = told.get("globals"), told["name"], told.get("level", 0)
        wanted = told.get("fromlist")
        by = find_importer(owner or {}, sys._getframe(1))
        if owner and by not in self.known:
            package = str(owner.get("__package__") or "").split(".")
            base = package[: len(package) - level + 1] if level else []
            full = ".".join([*base, name] if name else base)
            found = self.imports.setdefault(by, set())
            found.update([full, *(f"{full}.{one}" for one in wanted or () if one != "*")])
        return module

    @property
    def module(self) -> str:
        """The module that is executed now."""
        return self._modules[-1] if self._modules else ""

    def _note_read(self, name: "Any") -> None:
        if isinstance(name, str):
            self.reads.setdefault(self.module, set()).add(name)

    def _blame(self, reason: str) -> None:
        if self.module not in REVIEWED:
            self.reasons.setdefault(self.module, reason)

    def _note_draw(self, frame: "Any", called: "Any") -> None:
        names_files = is_naming(frame)
        if called in OWN:
            if frame.f_code.co_name == "getrandbits" and frame.f_locals.get("k") == ENTROPY_BITS:
                self.entropies[self.module] = self.entropies.get(self.module, 0) + 1
            elif not names_files:
                self._blame(f"reads {OWN[called]} at import")
            return
        if called.__name__ not in SEEDS_AND_DRAWS:
            return
        generator = getattr(called, "__self__", None)
        shared = getattr(sys.modules.get("random"), "_inst", None)
        if type(generator).__module__ != "random":
            return
        if called.__name__ == "seed" and frame.f_locals.get("a") is None:
            if generator is not shared and shared is not None:
                self.generators.append(generator)
        elif generator is shared and shared is not None:
            self._blame("draws from or seeds `random` at import")
        elif not names_files and any(generator is other for other in self.generators):
            self._blame("draws random numbers at import")

    def _note_temporary(self, frame: "Any") -> None:
        made, by = frame.f_locals, frame.f_back
        owner = by.f_locals.get("self") if by and by.f_code.co_name == "__init__" else None
        if frame.f_code.co_name == "mkdtemp" and owner is not None:
            self.folders.append((owner, (made["suffix"], made["prefix"], made["dir"])))
        else:
            self._blame("makes a temporary file at import")


def list_numpy_generators() -> "List[Any]":
    """Return the bit generators of numpy that were made without a seed."""
    bits: "Any" = sys.modules.get("numpy.random.bit_generator")
    if bits is None:
        return []
    # By their types alone: an attribute of some object may do anything.
    everything = gc.get_objects()
    kinds = {kind for kind in set(map(type, everything)) if issubclass(kind, bits.BitGenerator)}
    found = [one for one in everything if type(one) in kinds]
    entropies = [getattr(one.seed_seq, "entropy", None) for one in found]
    drawn = [isinstance(entropy, int) and entropy >> SEED_BITS > 0 for entropy in entropies]
    return [one for one, is_drawn in zip(found, drawn) if is_drawn]


def find_importer(variables: "Dict[str, Any]", frame: "Any") -> str:
    """Return the module that imports, by its variables; one in C has those of `importlib`."""
    name = str(variables.get("__name__"))
    while name in IMPORTLIB and frame is not None:
        loaded = frame.f_locals.get("spec") or frame.f_locals.get("module")
        name = str(getattr(loaded, "name", None) or getattr(loaded, "__name__", None) or name)
        frame = frame.f_back
    return name


def is_naming(frame: "Any") -> bool:
    """Tell whether the module tempfile draws a name, or asks whether it is in a fork by now."""
    for _ in range(NAMING_DEPTH):
        if frame is None:
            return False
        if os.path.basename(frame.f_code.co_filename) == "tempfile.py":
            return True
        frame = frame.f_back
    return False
