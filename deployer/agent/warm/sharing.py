"""One import of the SDK for an agent and for the warm parent of its runs.

The agent's process imports it first, watched as all imports of a parent are; then the parent
branches off, and the agent goes on as W&B's own.
"""

import gc
import os
import sys

from .examined import EXAMINED
from .imports import Imports
from .lists import read_entries, read_unfit, write_unfit
from .state import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Tuple

    from .lists import Entry

    Gathered = Tuple[Imports, State]

# What the SDK imports, and torch, too, has a group of its own: a script that imports torch alone
# shall not have the SDK by it.
FIRST = ("typing_extensions", "numpy", "wandb")
# What `wandb.init` and `run.finish` import.
BY_INIT = (
    "yaml",
    "wandb.sdk.lib.gitlib",
    "wandb.sdk.launch.inputs.internal",
    "requests",
    "wandb.apis.public",
)
STARTING = "warm.starting"
PROCESS = "warm.process"  # the parent's id
AGENT_LOG = 3  # its descriptor, until the agent takes it over


def branch_off(folder: str, path: str, variables: "Dict[str, str]") -> "Optional[Gathered]":
    """Import the SDK; return that in a parent, which branches off, and None in the agent.

    The agent gets these variables more. If something goes wrong, it has no parent.
    """
    gathered = None
    try:
        gathered = import_first(path)
        is_parent = gathered is not None and fork(folder)
    except Exception as error:
        sys.stderr.write(f"{error!r}\n")
        gathered, is_parent = None, False
    if is_parent:
        return gathered
    if gathered is None:
        os.unlink(os.path.join(folder, STARTING))
    become_agent(variables)
    return None


def import_first(path: str) -> "Optional[Gathered]":
    """Import what an agent and its runs need; None if that is not fit for both."""
    begun = State()
    imports = Imports(read_unfit(f"{path}.unfit"), EXAMINED)
    arguments: "Any" = sys.argv
    imports.import_all([(name, {}) for name in FIRST])
    sys.argv = arguments
    if imports.found:
        write_unfit(f"{path}.unfit", {**imports.found, **read_unfit(f"{path}.unfit")})
    return None if imports.found or "wandb" not in sys.modules else (imports, begun)


def list_assumed(path: str, likely: "Sequence[str]") -> "List[Entry]":
    """Return what a first run will probably import; it is for the list to say what runs do."""
    names = [*FIRST, *BY_INIT, *likely] if likely or "wandb" in sys.modules else []
    known = {name for name, _ in read_entries(path)}
    return [(name, {}) for name in names if name not in known]


def fork(folder: str) -> bool:
    """Become two processes; tell whether this one is the parent of runs.

    It is no child of the agent, but of the supervisor, which takes in orphans.
    """
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        return False
    parent = os.fork()
    if parent:
        with open(os.path.join(folder, PROCESS), "w", encoding="utf-8") as file:
            file.write(str(parent))
        os._exit(0)
    os.setsid()
    os.close(AGENT_LOG)
    return True


def become_agent(variables: "Dict[str, str]") -> None:
    """Take over an agent's environment and streams."""
    os.environ.update(variables)
    gc.enable()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, number in ((nothing, 0), (AGENT_LOG, 1), (AGENT_LOG, 2)):
        os.dup2(source, number)
    os.close(nothing)
    os.close(AGENT_LOG)
