"""Ends a forked run after its own exit handlers, without Python's cleanup of modules.

At exit Python clears every module, which in a fork writes to almost all shared pages, for half a
second. Abnormal exits are left to Python. This module is imported before all others, so it imports
only built-in ones.
"""

import _io
import atexit
import gc
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional


class ForkedExit:
    """The last exit handler of a run, since it is registered before any other.

    `code` is the run's exit code after a normal exit.
    """

    def __init__(self) -> None:
        self.code: "Optional[int]" = None
        self._libc: "Any" = None
        atexit.register(self)

    def begin(self) -> None:
        """Load libc before the run can change anything."""
        import ctypes

        self._libc = ctypes.CDLL(None)

    def note(self, code: object) -> None:
        if code is None or (isinstance(code, int) and 0 <= code < 256):
            self.code = int(code or 0)

    def __call__(self) -> None:
        if self.code is None or not is_flushed():
            gc.unfreeze()
            return
        close_files()
        self._libc.fflush(None)  # flush buffers of C libraries
        posix._exit(self.code)


def is_flushed() -> bool:
    """Flush the standard streams; return False if that fails."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:
        return False
    return True


def close_files() -> None:
    """Close open files: text layers first, then buffers, then raw files."""
    kinds: "Any" = (_io._TextIOBase, _io._BufferedIOBase, _io._IOBase)
    everything: "Any" = gc.get_objects()
    close_archives(everything)
    files = [one for one in everything if issubclass(type(one), _io._IOBase)]
    for kind in kinds:
        for one in reversed(files):
            try:
                if issubclass(type(one), kind) and one.fileno() > 2:
                    one.close()
            except Exception:
                continue


def close_archives(everything: "Any") -> None:
    """Close zip archives, which write their directory at the end; they are not file objects."""
    kind: "Any" = getattr(sys.modules.get("zipfile"), "ZipFile", None)
    for one in everything if kind else ():
        try:
            if issubclass(type(one), kind):
                one.close()
        except Exception:
            continue
