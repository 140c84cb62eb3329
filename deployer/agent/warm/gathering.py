"""The first half of a warm parent's life: it imports, and leaves out what is found to be unfit."""

import os
import sys

from .examined import EXAMINED
from .imports import Imports
from .lists import read_entries, read_unfit, write_unfit
from .state import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Collection, Tuple


def gather(path: str, packages: "Collection[str]") -> "Tuple[Imports, State]":
    """Import what the list at `path` names of these packages, or of those that are examined.

    Return it, and how this process was before.

    What is found unfit is remembered, and another process begins without it.
    """
    begun = State()
    unfit = read_unfit(f"{path}.unfit")
    imports = Imports(unfit, packages or EXAMINED)
    imports.import_all(read_entries(path))
    if imports.found:
        write_unfit(f"{path}.unfit", {**imports.found, **unfit})
        start_again()
    return imports, begun


def start_again() -> None:
    """Become a new process of the same command."""
    with open("/proc/self/cmdline", "rb") as file:
        words = file.read().split(b"\0")[:-1]
    os.execv(sys.executable, words)
