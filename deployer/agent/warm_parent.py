"""Keeps an agent's warm parent, and puts the stand-in for `python` on the agent's PATH."""

import contextlib
import os
import pkgutil
import shutil
import signal
import zlib
from typing import Container, Dict, Iterable, Mapping, Optional

from .processes import RESTORED_SIGNALS, send_signal
from .settings import Settings

IMPORTS_VARIABLE = "DEPLOYER_WARM_IMPORTS"
# What an import of torch takes, and as much again.
NEEDED_BYTES = 1 << 30
# A parent that is killed is started again, but not for ever.
MOST_STARTS = 10
# Of a pod's own control group, version 2 and 1.
GROUP_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)
FIRST_START = "cold: no parent yet"  # as stand_in.py says it
SHEBANG_BYTES = 127  # Linux before 5.1
# Where a path cannot stand behind `#!`: a shell script whose first line Python takes for a string.
SHELL_START = "#!/bin/sh\n''''exec '{python}' -IS \"$0\" \"$@\" #'''\n"


class WarmParent:
    """The process from which an agent's runs are forked, once there is a list of their imports.

    It imports `packages`, by default those that are examined.
    """

    def __init__(
        self,
        settings: Settings,
        packages: Iterable[str] = (),
        needed_bytes: int = NEEDED_BYTES,
    ) -> None:
        self._settings = settings
        self._packages = packages
        self._needed_bytes = needed_bytes
        self._reason = find_reason(settings)  # why there is no parent
        self._environment: Dict[str, str] = {}
        self._python = ""
        self._list_path = ""
        self._process, self._lifeline = 0, -1
        self._starts = 0
        self._listed_at = 0

    def lead(self, environment: Mapping[str, str]) -> Dict[str, str]:
        """Return the environment of an agent whose `python` is the stand-in, if one can be."""
        self._environment = dict(environment)
        path = environment.get("PATH", os.defpath)
        self._python = ""
        if self._reason or not self._settings.warm:
            return self._environment
        self._python = shutil.which("python", path=path) or ""
        if not self._python:
            self._reason = "no python on PATH"
            return self._environment
        self.let_go()  # of what an earlier supervisor has left
        name = name_list(self._settings.sweep_path, self._python)
        self._list_path = os.path.join(self._settings.agents_folder, name)
        folder = os.path.join(self._settings.folder, "bin")
        try:
            os.makedirs(folder, exist_ok=True)
            write_stand_in(os.path.join(folder, "python"), self._python)
        except OSError as error:
            self._python, self._reason = "", str(error)
            return self._environment
        path = os.pathsep.join([folder, path])
        return {**self._environment, "PATH": path, IMPORTS_VARIABLE: self._list_path}

    def tend(self, ended: Container[int]) -> None:
        """Start the parent if there is none and can be one; `ended` are processes that are not.

        It imports for seconds, and serves then.
        """
        if self._process in ended:
            self._process = 0
            self.let_go()
        listed_at = read_time(self._list_path) if self._python else 0
        if listed_at == (self._listed_at if self._process else 0):
            return
        if self._starts >= MOST_STARTS:
            self._reason = "the parent has ended too often"
            return
        self.let_go()  # a run has imported more
        enough = count_free_bytes() >= self._needed_bytes
        self._reason = "" if enough else "too little memory is free"
        if enough:
            self._starts += 1
            self._listed_at = listed_at
            try:
                self._start()
            except (OSError, NotImplementedError) as error:
                self._reason = str(error)
                self.let_go()

    def read_start(self) -> str:
        """Return how the last run was started: `warm`, or `cold` and why; empty if not known."""
        if not self._settings.warm:
            return ""
        if not self._python:  # what an earlier agent has left in the folder is about its own run
            return f"cold: {self._reason}"
        try:
            path = os.path.join(self._settings.folder, "start")
            with open(path, encoding="utf-8") as file:
                start = file.read()
        except OSError:
            return ""
        return f"cold: {self._reason}" if start == FIRST_START and self._reason else start

    def let_go(self) -> None:
        """Let the parent end, at once if it has no run."""
        if self._process and os.path.exists(self._starting):
            send_signal(self._process, signal.SIGKILL)  # it would import to the end first
        if self._lifeline >= 0:
            os.close(self._lifeline)
        self._process, self._lifeline = 0, -1
        for name in ("warm.sock", "warm.starting"):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._settings.folder, name))

    @property
    def _starting(self) -> str:
        return os.path.join(self._settings.folder, "warm.starting")

    def _build_code(self) -> str:
        return build_code(self._settings.folder, self._list_path, self._packages)

    def _start(self) -> None:
        with open(self._starting, "w", encoding="utf-8"):
            pass
        reader, self._lifeline = os.pipe()
        # Not into the runs' log; and by its size the parent sees which imports write.
        path = os.path.join(self._settings.folder, "warm.log")
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            self._process = os.posix_spawn(
                self._python,
                ["python", "-c", self._build_code()],
                self._environment,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, reader, 0),
                    (os.POSIX_SPAWN_DUP2, log, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ],
                setsid=True,  # so that nobody takes it for a run
                setsigmask=[],
                setsigdef=RESTORED_SIGNALS,
            )
        finally:
            os.close(reader)
            os.close(log)


def find_reason(settings: Settings) -> str:
    """Return why an agent like this one never has a parent, empty if it may have one."""
    if settings.count == 1:
        return "the agent takes one run"  # which a parent would import for alone
    return "" if os.path.isdir("/proc/self/fd") and hasattr(os, "fork") else "no /proc"


def name_list(sweep_path: str, python: str) -> str:
    """Return the name of a sweep's list of imports.

    Each sweep has its own: its first run tells anew what the script does before each import.
    """
    return f"imports-{zlib.crc32(f'{sweep_path} {python}'.encode()):08x}"


def build_code(folder: str, list_path: str, packages: Iterable[str]) -> str:
    """Return the parent's program, whose frame is the only one below that of a run."""
    package_folder, package = os.path.split(os.path.dirname(os.path.abspath(__file__)))
    lines = (
        "import sys",
        "at_start = frozenset(sys.modules)",
        f"sys.path[:] = [{package_folder!r}, *filter(None, sys.path)]",
        f"from {package}.warm.ending import Ending",
        f"from {package}.warm.gathering import gather",
        "del sys.path[0]",
        "ending = Ending()",
        f"gathered = gather({list_path!r}, {sorted(packages)!r})",
        f"sys.path[:0] = [{package_folder!r}]",
        f"from {package}.warm.forking import prepare_run",
        f"from {package}.warm.program import hide_our_frames",
        "del sys.path[0]",
        f"program = prepare_run(*gathered, at_start, {folder!r}, {list_path!r}, ending)",
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
    return "\n".join(lines)


def write_stand_in(path: str, python: str) -> None:
    """Write the stand-in's script, to be executed by a Python without any package."""
    line = f"#!{python} -IS\n"
    if len(line) > SHEBANG_BYTES or " " in python:
        line = SHELL_START.format(python=python)
    source = pkgutil.get_data(__package__ or "", "warm/stand_in.py") or b""
    with open(path, "wb") as file:
        file.write(line.encode() + source)
    os.chmod(path, 0o700)


def read_time(path: str) -> int:
    """Return when a file was changed last, in nanoseconds; 0 if there is none."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def count_free_bytes() -> int:
    """Return how much memory there is for one more process: of the machine, and of the group."""
    limits = [read_rest(*paths) for paths in GROUP_LIMITS]
    with contextlib.suppress(OSError), open("/proc/meminfo", encoding="utf-8") as file:
        values = dict(line.split(":") for line in file)
        limits.append(int(values["MemAvailable"].split()[0]) << 10)
    return min((limit for limit in limits if limit is not None), default=0)


def read_rest(limit_path: str, used_path: str) -> Optional[int]:
    """Return what is left of a control group's limit; None without one."""
    try:
        with open(limit_path, encoding="utf-8") as limit, open(used_path, encoding="utf-8") as used:
            return int(limit.read()) - int(used.read())
    except (OSError, ValueError):
        return None
