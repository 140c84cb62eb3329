"""Leaves word of what runs import, so that the next ones find it imported.

It imports nothing itself: a module that the project hides by one of its own must not be there.
"""

import atexit
import os
import sys

# Ours, and what Python has at its start: it imports linecache itself, for `-c`, since 3.13.
NEVER_LISTED = (
    *("__main__", "sitecustomize", "usercustomize"),
    *("deployer_imports", "deployer_outputs", "deployer_sdk"),
    "linecache",
)
# What names of secrets have at the end of a word, and anywhere (config/redaction.py is finer).
SECRET_ENDINGS = ("key", "keys", "token", "tokens", "auth", "bearer", "pat", "pass")
SECRET_PARTS = ("passw", "passphrase", "pwd", "secret", "credential", "authorization")


class Learner:
    """A finder that finds nothing: it sees each import begin, and what the environment is by then.

    `entries` are the modules with the variables that had been changed; None is one that was unset.
    What every Python has at its start is not among them.
    """

    def __init__(self) -> None:
        self.entries: "dict[str, dict[str, str | None]]" = {}
        self.environment = dict(os.environ)

    def find_spec(self, name: str, *_: object) -> None:
        """Take note of a module."""
        if name not in self.entries:
            self.entries[name] = self._list_changes()

    def _list_changes(self) -> "dict[str, str | None]":
        now = dict(os.environ)
        if now == self.environment:
            return {}
        names = self.environment.keys() | now.keys()
        return {n: now.get(n) for n in sorted(names) if now.get(n) != self.environment.get(n)}


def learn(path: str) -> None:
    """Add to the list, at the end of this process, what is not there.

    A module that is imported after the script has set a secret is left out, and so is the secret.
    """
    process = os.getpid()
    learner = Learner()
    finders: "list[object]" = sys.meta_path  # type: ignore[assignment]
    finders.insert(0, learner)

    def write() -> None:
        if os.getpid() != process:
            return  # a fork of this process has its exit handlers, too
        known = read_list(path)
        names = {line.partition("\t")[0] for line in known}
        fit = set(list_modules()) - names
        entries = [(name, changes) for name, changes in learner.entries.items() if name in fit]
        more = [format_entry(name, told) for name, told in entries if not has_secret(told)]
        if more:
            write_list(path, [*known, *more])

    atexit.register(write)


def has_secret(changes: "dict[str, str | None]") -> bool:
    """Tell whether a secret may be among these variables."""
    return any(value and is_secret(name, value) for name, value in changes.items())


def is_secret(name: str, value: str) -> bool:
    """Tell whether a variable may hold a secret: by its name, or by a log-in in an address."""
    words = "".join(one if one.isalpha() else " " for one in name.lower()).split()
    ends = any(word.endswith(SECRET_ENDINGS) for word in words)
    host = value.partition("://")[2].partition("/")[0]
    return ends or any(part in "".join(words) for part in SECRET_PARTS) or "@" in host


def format_entry(name: str, changes: "dict[str, str | None]") -> str:
    """Return the line of a module: its name, and what the environment was by then."""
    fields = [name, *(key if value is None else f"{key}={value}" for key, value in changes.items())]
    return "\t".join(field.replace("\t", "\0t").replace("\n", "\0n") for field in fields)


def read_list(path: str) -> "list[str]":
    """Return the lines of a list; none if there is no list."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().split("\n")
    except OSError:
        return []


def write_list(path: str, lines: "list[str]") -> None:
    """Write a list as a whole, for nobody else to read: it holds what the script has set."""
    temporary = f"{path}.{os.getpid()}"
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(handle, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        os.replace(temporary, path)
    except OSError:
        pass


def list_modules() -> "list[str]":
    """Return the modules of installed packages and of Python itself."""
    python = os.path.dirname(os.__file__) + os.sep
    found = [(name, find_origin(module)) for name, module in list(sys.modules.items())]
    return [
        name
        for name, origin in found
        if name not in NEVER_LISTED and (is_installed(origin) or origin.startswith(python))
    ]


def find_origin(module: object) -> str:
    """Return the file that a module is from, empty if it is from none."""
    spec = getattr(module, "__spec__", None)
    return str(getattr(spec, "origin", None) or "")


def is_installed(origin: str) -> bool:
    """Tell whether a file is of an installed package: the project's own may change at any time."""
    return "/site-packages/" in origin or "/dist-packages/" in origin
