"""Keeps an agent's warm parent, and puts the stand-in for `python` on the agent's PATH."""

import contextlib
import glob
import os
import pkgutil
import shutil
import signal
import sys
import zlib
from typing import Any, Container, Dict, Iterable, Mapping, Optional, Sequence, Tuple

from ..environment import agent_command, agent_words
from ..host.child_task import run_task
from ..host.processes import RESTORED_SIGNALS, send_signal, spawn
from ..host.unwritable import is_unwritable
from ..settings import Settings
from .lists import SCRIPT, read_unfit
from .parent_code import build_code, build_sharing_code

IMPORTS_VARIABLE = "DEPLOYER_WARM_IMPORTS"
# What an import of torch takes, and as much again.
NEEDED_BYTES = 1 << 30
# A parent that is killed is started again, but not for ever.
MOST_STARTS = 10
# Of a pod's own control group, version 2 and 1: its folder, the names of its limit and of what it
# uses, and what of that is read from files and given back on demand.
GROUPS = (
    ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    (
        "/sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
)
LOOK_SECONDS = 5.0  # at the script
AGENT_LOG = 3  # as sharing.py has it, with the names of these files
STARTING, PROCESS, WRONG = "warm.starting", "warm.process", "warm.wrong"
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
        self._is_shared = False  # its parent is to branch off from the agent
        self._likely: Sequence[str] = ()
        self._starts = 0

    def start_agent(self, environment: Mapping[str, str], log: int, program: str = "") -> int:
        """Start the agent; its parent branches off from it where it can. Return its process id.

        `program` is the sweep's, if it is known, by which a first run is warm, too.
        """
        led = self.lead(environment, program)
        if not self._python or not is_same_python(self._python) or not self._may_start():
            return spawn(agent_command(self._settings), led, log)
        variables = {name: led[name] for name in ("PATH", IMPORTS_VARIABLE)}
        code = build_sharing_code(
            self._settings.folder, self._list_path, self._likely, variables, self._settings.quick
        )
        self._is_shared = True
        return self._start([code, *agent_words(self._settings)], log)

    def lead(self, environment: Mapping[str, str], program: str = "") -> Dict[str, str]:
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
        self._likely, mark = self._look(program)
        name = name_list(self._python, mark or self._settings.sweep_path)
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

    def _look(self, program: str) -> Tuple[Sequence[str], int]:
        """Look at the script in a child, so that its parser does not stay in our memory."""

        def look() -> object:
            from .likely import look_at

            return look_at(program, os.curdir)

        found = run_task(look, LOOK_SECONDS) if program else None
        return found or ((), 0)

    def tend(self, ended: Container[int]) -> None:
        """Start the parent if there is none and can be one; `ended` are processes that are not.

        It imports for seconds, and serves then.
        """
        self._look_for_shared()
        if self._process in ended:
            self._process = 0
            self.let_go()
        if self._process or self._is_shared or not self._python:
            return
        if not self._likely and not read_time(self._list_path):
            return
        if self._starts >= MOST_STARTS:
            self._reason = "the parent has ended too often"
        elif self._may_start():
            self._starts += 1
            folder = self._settings.folder
            code = build_code(folder, self._list_path, self._packages, self._likely)
            try:
                self._process = self._start([code])
            except (OSError, NotImplementedError) as error:
                self._reason = str(error)
                self._starts -= is_unwritable(error)  # which passes
                self.let_go()

    def _may_start(self) -> bool:
        enough = count_free_bytes() >= self._needed_bytes
        unfit = read_unfit(f"{self._list_path}.unfit").get(SCRIPT, "")
        self._reason = unfit if enough else "too little memory is free"
        return not self._reason

    def _look_for_shared(self) -> None:
        """Find the parent that has branched off from the agent, or find that there is none."""
        if not self._is_shared:
            return
        self._look_for_process()
        if self._is_shared and not os.path.exists(self._get_path(STARTING)):
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
        self._look_for_process()
        if self._process and os.path.exists(self._get_path(STARTING)):
            send_signal(self._process, signal.SIGKILL)  # it would import to the end first
        if self._lifeline >= 0:
            os.close(self._lifeline)
        self._process, self._lifeline, self._is_shared = 0, -1, False
        for name in ("warm.sock", STARTING, PROCESS, WRONG):
            with contextlib.suppress(OSError):
                os.unlink(self._get_path(name))

    def _look_for_process(self) -> None:
        """Find the process that has branched off from the agent, once it has."""
        with contextlib.suppress(OSError, ValueError):
            with open(self._get_path(PROCESS), encoding="utf-8") as file:
                self._process = int(file.read())
            self._is_shared = False

    def _get_path(self, name: str) -> str:
        return os.path.join(self._settings.folder, name)

    def _start(self, words: Sequence[str], agent_log: int = -1) -> int:
        with open(self._get_path(STARTING), "w", encoding="utf-8"):
            pass
        reader, self._lifeline = os.pipe()
        # Not into the runs' log; and by its size the parent sees which imports write.
        path = self._get_path("warm.log")
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC, 0o600)
        streams = [(reader, 0), (log, 1), (log, 2)]
        group: Dict[str, Any] = {"setsid": True}  # so that nobody takes it for a run
        if agent_log >= 0:
            streams.append((agent_log, AGENT_LOG))
            group = {"setpgroup": 0}
        try:
            return os.posix_spawn(
                self._python,
                ["python", "-c", *words],
                self._environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, *stream) for stream in streams],
                setsigmask=[],
                setsigdef=RESTORED_SIGNALS,
                **group,
            )
        finally:
            os.close(reader)
            os.close(log)


def find_reason(settings: Settings) -> str:
    """Return why an agent like this one never has a parent, empty if it may have one."""
    if settings.metrics:
        return "a wrapper reads its metrics"
    if settings.count == 1:
        return "the agent takes one run"  # which a parent would import for alone
    return "" if os.path.isdir("/proc/self/fd") and hasattr(os, "fork") else "no /proc"


def name_list(python: str, mark: object) -> str:
    """Return the name of a list of imports, by the interpreter, its packages and a mark.

    The mark is that of the project's files. It is the sweep where they are not known: then its
    first run tells anew what the script does before each import.
    """
    above = os.path.dirname(os.path.dirname(python))
    folders = sorted(glob.glob(os.path.join(glob.escape(above), "lib*", "python3*", "*-packages")))
    told = (python, read_time(python), [(one, read_time(one)) for one in folders], mark)
    return f"imports-{zlib.crc32(repr(told).encode()):08x}"


def is_same_python(python: str) -> bool:
    """Tell whether an interpreter is ours, with the same packages."""
    folders = {os.path.dirname(os.path.abspath(path)) for path in (python, sys.executable)}
    return len(folders) == 1 and os.path.samefile(python, sys.executable)


def write_stand_in(path: str, python: str) -> None:
    """Write the stand-in's script, to be executed by a Python without any package."""
    line = f"#!{python} -IS\n"
    if len(line) > SHEBANG_BYTES or " " in python:
        line = SHELL_START.format(python=python)
    source = pkgutil.get_data(__package__ or "", "stand_in.py") or b""
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
    limits = [read_rest(*group) for group in GROUPS]
    with contextlib.suppress(OSError), open("/proc/meminfo", encoding="utf-8") as file:
        values = dict(line.split(":") for line in file)
        limits.append(int(values["MemAvailable"].split()[0]) << 10)
    return min((limit for limit in limits if limit is not None), default=0)


def read_rest(folder: str, limit_name: str, used_name: str, cache_name: str) -> Optional[int]:
    """Return what is left of a control group's limit; None without one."""

    def read(name: str) -> str:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return file.read()

    try:
        limit, used = int(read(limit_name)), int(read(used_name))
        cache = dict(line.split() for line in read("memory.stat").splitlines())
        return limit - used + int(cache.get(cache_name, 0))
    except (OSError, ValueError):
        return None
