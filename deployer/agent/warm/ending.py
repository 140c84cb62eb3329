"""Ends a run as Python does, without taking apart what it shares with its parent.

At its end Python clears every module. In a fork that writes to nearly all pages of its parent, for
half a second. Here only the run's own modules and objects end as ever: after threads and exit
handlers, which Python runs itself, `__del__` and `finally`, then open files. What is not a plain
end is left to Python. This module is imported before all others, so it needs only built-in ones.
"""

import _io
import _thread
import _weakref
import atexit
import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

FLUSH_FAILED = 120  # as Python has it


class Ending:
    """The last exit handler of a run, since it is registered before any other.

    `code` is the run's exit code once it has come to a plain end.
    """

    def __init__(self) -> None:
        self.code: "Optional[int]" = None
        self._shared: "Dict[str, Any]" = {}
        self._libc: "Any" = None
        atexit.register(self)

    def begin(self) -> None:
        """Note which modules the run shares with its parent."""
        import ctypes

        self._libc = ctypes.PyDLL(None)  # no other thread runs Python while it is called
        self._shared = {name: one for name, one in sys.modules.items() if name != "__main__"}

    def note(self, code: object) -> None:
        """Note what the run has passed to `sys.exit`."""
        if code is None or (isinstance(code, int) and 0 <= code < 256):
            self.code = int(code or 0)

    def __call__(self) -> None:
        """End the process, or leave it to Python."""
        if self.code is None or self._has_own_threads() or not is_flushed():
            gc.unfreeze()
            return
        finish_modules(self._shared)
        close_files()
        self._libc.exit(self.code if is_flushed() else FLUSH_FAILED)

    def _has_own_threads(self) -> bool:
        """Return True if another thread executes the run's own code, which is to be taken apart.

        The SDK's waits for messages at the end of every run.
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


def is_flushed() -> bool:
    """Flush the standard streams; return False if that fails."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:
        return False
    return True


def finish_modules(shared: "Dict[str, Any]") -> None:
    """Clear all modules but the shared ones, as Python's `finalize_modules` does."""
    state: "Any" = sys
    own = [
        _weakref.ref(one)
        for name, one in sys.modules.items()
        if isinstance(one, type(sys)) and shared.get(name) is not one
    ]
    state.is_finalizing = lambda: True
    state.path = state.argv = state.meta_path = state.path_hooks = None
    state.stdin, state.stdout, state.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__
    sys.modules.clear()
    gc.collect()
    for reference in reversed(own):
        module = reference()
        variables = vars(module) if module else {}
        # The private ones first.
        for name in sorted(variables, key=lambda one: one[:1] != "_" or one[1:2] == "_"):
            if name != "__builtins__":
                variables[name] = None
        del module, variables
    gc.collect()


def close_files() -> None:
    """Close what is still open: text before its buffer, and this before what is below it."""
    kinds: "Any" = (_io._TextIOBase, _io._BufferedIOBase, _io._IOBase)
    everything: "Any" = gc.get_objects()
    files = [one for one in everything if issubclass(type(one), _io._IOBase)]
    for kind in kinds:
        for one in reversed(files):
            try:
                if issubclass(type(one), kind) and one.fileno() > 2:
                    one.close()
            except Exception:
                continue
