"""Ends a run as Python does, without taking apart what it shares with its parent.

At its end Python clears every module. In a fork that writes to nearly all pages of its parent, for
half a second, and nobody sees it. Here the run's own modules and objects end as ever: after threads
and exit handlers, which are Python's own business, `__del__` and `finally` of what is left, then
what was written and not flushed. What is not a plain end is left to Python. It is there before all
imports, so that it itself imports nothing but what is built in.
"""

import _io
import _thread
import _weakref
import atexit
import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Set

LIBRARY = ".so"
FLUSH_FAILED = 120  # as Python has it


class Ending:
    """The last exit handler of a run, since it is registered before any other.

    `code` is the run's exit code once it has come to a plain end.
    """

    def __init__(self) -> None:
        self.code: "Optional[int]" = None
        self._given: "Dict[str, Any]" = {}
        self._at_start: "Dict[str, Any]" = {}
        self._shared: "Dict[str, Any]" = {}
        self._libraries: "Set[str]" = set()
        self._python = ""
        self._libc: "Any" = None
        atexit.register(self)

    def begin(self, given: "Dict[str, Any]", python: str, libc: "Any") -> None:
        """Take note of the modules that the run may be given, and of where those of Python are.

        `libc` must keep other threads from running Python while it is called.
        """
        self._given = given
        self._at_start = {name: one for name, one in sys.modules.items() if name != "__main__"}
        self._libc = libc
        self._python = python
        self._libraries = list_libraries()

    def note(self, code: object) -> None:
        """Take note of what the run has told `sys.exit`."""
        if code is None or (isinstance(code, int) and 0 <= code < 256):
            self.code = int(code or 0)

    def __call__(self) -> None:
        """End the process, or leave it to Python."""
        self._shared = {**self._given, **self._at_start}
        if self.code is not None and not self._has_own_threads() and is_flushed():
            self._end(self.code)
        # What a library counts at the end must be free by then, also where the run has none of it.
        for name, module in self._shared.items():
            sys.modules.setdefault(name, module)
        gc.unfreeze()

    def _has_own_threads(self) -> bool:
        """Tell whether another thread executes the run's own code, which is to be taken apart.

        The SDK's waits, at the end of every run, for messages.
        """
        modules = (one for one in self._shared.values() if isinstance(one, type(sys)))
        shared = {id(vars(one)) for one in modules}
        for thread, frame in sys._current_frames().items():
            below: "Any" = frame if thread != _thread.get_ident() else None
            while below:
                if id(below.f_globals) not in shared:
                    return True
                below = below.f_back
        return False

    def _end(self, code: int) -> None:
        try:
            libraries = list_libraries() - self._libraries
        except OSError:  # the run may not open one more file
            return
        has_own = any(not one.startswith(self._python) for one in libraries)
        # A library of the run's own may have something to do at its end, such as to close files.
        end = self._libc.exit if has_own else self._libc._exit
        finish_modules(self._shared)
        close_files()
        self._libc.fflush(None)
        end(code if is_flushed() else FLUSH_FAILED)


def list_libraries() -> "Set[str]":
    """Return the files of all libraries in C that are loaded."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        fields = (line.split(None, 5) for line in file)
        return {words[5].strip() for words in fields if len(words) == 6 and LIBRARY in words[5]}


def is_flushed() -> bool:
    """Flush the standard streams; tell whether that could be done."""
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except Exception:
        return False
    return True


def finish_modules(shared: "Dict[str, Any]") -> None:
    """Let go of all modules but those that are shared, as Python's `finalize_modules` does."""
    modules = dict(sys.modules)
    kept = {id(one) for name, one in modules.items() if shared.get(name) is one}
    kinds = (one for one in modules.values() if isinstance(one, type(sys)))
    own = [_weakref.ref(one) for one in kinds if id(one) not in kept]
    state: "Any" = sys
    state.is_finalizing = lambda: True
    state.path = state.argv = state.meta_path = state.path_hooks = None
    state.stdin, state.stdout, state.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__
    modules.clear()
    sys.modules.clear()
    gc.collect()
    for reference in reversed(own):
        clear(vars(reference()) if reference() else {})
    gc.collect()


def clear(variables: "Dict[str, Any]") -> None:
    """Clear a module's variables, the private ones first."""
    for name in list(variables):
        if name[:1] == "_" and name[1:2] != "_":
            variables[name] = None
    for name in list(variables):
        if name != "__builtins__":
            variables[name] = None


def close_files() -> None:
    """Close what is still open for writing: first what writes into others, then these."""
    standard = [sys.__stdin__, sys.__stdout__, sys.__stderr__]
    standard += [getattr(one, "buffer", None) for one in standard]
    standard += [getattr(one, "raw", None) for one in standard]
    files = list_files()
    files.reverse()
    for one in sorted(files, key=rank_file):
        if not any(one is other for other in standard):
            try:
                one.close()
            except Exception:
                continue


def list_files() -> "List[Any]":
    """Return all file objects of the run, most of them the oldest first."""
    everything: "List[Any]" = gc.get_objects()
    return [one for one in everything if issubclass(type(one), _io._IOBase)]


def rank_file(file: "Any") -> int:
    """Return where a file stands among those through which its text goes to the kernel."""
    kind = type(file)
    if issubclass(kind, _io._TextIOBase):
        return 0
    if kind.__module__ != "_io":  # such as gzip's
        return 1
    return 2 if issubclass(kind, _io._BufferedIOBase) else 3
