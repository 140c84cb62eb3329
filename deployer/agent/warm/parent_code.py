"""The programs of a warm parent, and of an agent from which it branches off.

A run is forked in the middle of them: their frame is the only one below that of a run.
"""

import os
from typing import Dict, Iterable, Sequence

AGENT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGE_FOLDER, PACKAGE = os.path.split(AGENT)
BEGIN = (
    "import sys",
    "sys.modules.pop('linecache', None)",  # since 3.13 it has the source of `-c`, which is ours
    "at_start = frozenset(sys.modules)",
    "sys.path[:] = [{package_folder!r}, *filter(None, sys.path)]",
    "from {package}.warm.ending import Ending",
    "from {package}.warm.gathering import gather",
)
SHARE = (
    "from {package}.warm.sharing import branch_off",
    "ending = Ending()",
    "del sys.path[0]",
    "shared = branch_off({folder!r}, {path!r}, {variables!r})",
    "if shared is None:",
    "    sys.path[:0] = [{package_folder!r}]",
    "    from {package}.launcher import main",
    "    del sys.path[0]",
    "    main({quick!r})",
    "gathered = gather({path!r}, (), {likely!r}, shared)",
    "del shared",
)
GATHER = (
    "ending = Ending()",
    "del sys.path[0]",
    "gathered = gather({path!r}, {packages!r}, {likely!r})",
)
SERVE = (
    "sys.path[:0] = [{package_folder!r}]",
    "from {package}.warm.forking import prepare_run",
    "from {package}.warm.program import hide_our_frames",
    "del sys.path[0]",
    "program = prepare_run(*gathered, at_start, {folder!r}, {path!r}, ending)",
    "del gathered",
    "try:",
    "    program()",
    "    ending.note(0)",
    "except SystemExit as error:",
    "    ending.note(error.code)",
    "    raise",
    "except BaseException:",
    "    hide_our_frames()",
    "    raise",
)


def build_code(folder: str, path: str, packages: Iterable[str], likely: Sequence[str]) -> str:
    """Return a parent's program, by the agent's folder and the path of the list of imports."""
    told = {"packages": sorted(packages), "likely": list(likely)}
    return fill((*BEGIN, *GATHER, *SERVE), folder=folder, path=path, **told)


def build_sharing_code(
    folder: str, path: str, likely: Sequence[str], variables: Dict[str, str], quick: bool
) -> str:
    """Return the program of an agent that has these variables, and of its parent."""
    told = {"likely": list(likely), "variables": variables, "quick": quick}
    return fill((*BEGIN, *SHARE, *SERVE), folder=folder, path=path, **told)


def fill(lines: Iterable[str], **values: object) -> str:
    """Return a program with these values in it."""
    told = {**values, "package_folder": PACKAGE_FOLDER, "package": PACKAGE}
    return "\n".join(line.format(**told) for line in lines)
