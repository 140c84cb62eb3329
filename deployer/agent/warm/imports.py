"""What the warm parent imports, and what it must not."""

import os
import sys
from typing import Any, FrozenSet, List, Sequence, Set, Tuple


class Arguments(List[str]):
    """`sys.argv` during imports; whoever reads it would read those of no run."""

    read = False

    def __getitem__(self, index: Any) -> Any:
        Arguments.read = True
        return list.__getitem__(self, index)

    def __iter__(self) -> Any:
        Arguments.read = True
        return list.__iter__(self)


def import_modules(names: Sequence[str], unfit: Set[str]) -> str:
    """Import what can be imported without a trace; return the first name that cannot."""
    for name in names:
        if name in sys.modules or name in unfit or name.startswith(tuple(f"{n}." for n in unfit)):
            continue
        before = list_traces()
        Arguments.read = False
        try:
            __import__(name)
        except BaseException:
            return name
        if Arguments.read or list_traces() - before:
            return name
    return ""


def list_traces() -> Set[str]:
    """Return what an import may leave open: threads and files."""
    threads = {f"thread {name}" for name in os.listdir("/proc/self/task")}
    # OpenBLAS ends its threads before a fork, and begins them again behind it.
    if len(threads) > 1 and has_openblas():
        threads = set()
    return threads | {f"file {name}" for name in os.listdir("/proc/self/fd")}


def has_openblas() -> bool:
    """Tell whether OpenBLAS is loaded."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        return any("openblas" in line for line in file)


def list_packages() -> List[Tuple[str, int]]:
    """Return the folders of installed packages with the times of their last changes."""
    folders = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    return [(path, os.stat(path).st_mtime_ns) for path in folders if os.path.isdir(path)]


def read_list(path: str) -> List[str]:
    """Return the names in a file, one a line; none if there is no file."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().split()
    except OSError:
        return []


def write_list(path: str, names: Sequence[str]) -> None:
    """Write names to a file as a whole."""
    with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
        file.write("\n".join(names))
    os.replace(f"{path}.{os.getpid()}", path)


def find_shadowed(folder: str, at_start: FrozenSet[str]) -> str:
    """Return a module that is imported here and would be the project's own in a cold run.

    `folder` is where the program's imports are looked for first; `at_start` are the modules that
    every Python has by then.
    """
    imported = {name.partition(".")[0] for name in sys.modules.keys() - at_start}
    for entry in os.listdir(folder):
        name, _, ending = entry.partition(".")
        if name in imported and name != "__main__":
            # A folder without it gives way to a package that is installed.
            package = os.path.join(folder, entry, "__init__.py")
            if ending.endswith(("py", "so")) or os.path.exists(package):
                return name
    return ""
