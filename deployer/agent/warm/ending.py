"""Ends a forked run after its own exit handlers, without taking apart what it shares.

At its end Python clears every module. In a fork that writes to nearly all pages of its parent, for
half a second. What is not a plain end is left to Python. This module is imported before all others,
so it needs only built-in ones.
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

    `code` is the run's exit code once it has come to a plain end.
    """

    def __init__(self) -> None:
        self.code: "Optional[int]" = None
        self._libc: "Any" = None
        atexit.register(self)

    def begin(self) -> None:
        """Load what the end needs, while the run has changed nothing."""
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
        self._libc.fflush(None)  # what C libraries have printed
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
    """Close what is still open: text before its buffer, and this before what is below it."""
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
    """Close zip files, whose directory is written last; they are no files themselves."""
    kind: "Any" = getattr(sys.modules.get("zipfile"), "ZipFile", None)
    for one in everything if kind else ():
        try:
            if issubclass(type(one), kind):
                one.close()
        except Exception:
            continue
