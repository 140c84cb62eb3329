"""The first half of a warm parent's life: it imports, and leaves out what is found to be unfit."""

import os
import sys

from .examined import EXAMINED
from .imports import Imports
from .lists import read_entries, read_unfit, write_unfit
from .sharing import list_assumed
from .state import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Collection, Optional, Sequence, Tuple

    Gathered = Tuple[Imports, State]


def gather(
    path: str,
    packages: "Collection[str]",
    likely: "Sequence[str]" = (),
    shared: "Optional[Gathered]" = None,
) -> "Gathered":
    """Import what the list at `path` names of these packages, or of those that are examined.

    Return it, and how this process was before. Before the list comes what is `likely`, after what
    was `shared` with the agent. What is found unfit is remembered, and another process begins
    without it.
    """
    begun = shared[1] if shared else State()
    unfit = read_unfit(f"{path}.unfit")
    imports = shared[0] if shared else Imports(unfit, packages or EXAMINED)
    imports.import_all([*list_assumed(path, likely), *read_entries(path)])
    if imports.found:
        write_unfit(f"{path}.unfit", {**imports.found, **unfit})
        if shared:
            os._exit(0)  # the supervisor starts another one
        start_again()
    return imports, begun


def start_again() -> None:
    """Become a new process of the same command."""
    with open("/proc/self/cmdline", "rb") as file:
        words = file.read().split(b"\0")[:-1]
    os.execv(sys.executable, words)
