"""The warm parent: find the packages to preload for a script, run the process that forks runs."""

from __future__ import annotations

import ast
import contextlib
import os
import pkgutil
import shutil
import signal
import sys
import time
from typing import (
    Any,
    Container,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from ..environment import agent_command, agent_words
from ..host.processes import RESTORED_SIGNALS, run_task, send_signal, spawn
from ..host.status import is_unwritable
from ..settings import AgentSettings

# Limit of restarts of a parent that was killed.
MOST_STARTS = 5
PRELOAD_SECONDS = 120.0
LOOK_SECONDS = 5.0  # timeout for reading the script
AGENT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The supervisor (this module), the parent's process (fork_server.py) and a run's stand-in
# (stand_in.py, a separate program that repeats the names) communicate by files in the agent's
# folder:
#   warm.starting  there while the parent preloads; stand-ins wait, and delete nothing
#   warm.pid       the process id of a parent that the agent's process has forked
#   warm.sock      the parent's socket; a stand-in sends it the run's command and streams
#   start          how the last run was started: `warm`, or `cold: REASON`
#   warm.cold      why this parent must not fork any more; its agent stays cold
#   warm.over      why a forked run must start over; its stand-in then starts it
SOCKET, STARTING, START, LOG = "warm.sock", "warm.starting", "start", "warm.log"
COLD, OVER, PROCESS_ID = "warm.cold", "warm.over", "warm.pid"
FIRST_START = "cold: no parent yet"
SHEBANG_BYTES = 127  # Linux before 5.1
# For a path that does not fit after `#!`: a shell script whose first line is a string in Python.
SHELL_START = "#!/bin/sh\n''''exec '{python}' -IS \"$0\" \"$@\" #'''\n"
# The parent's program, given to `python -c`. A forked run returns from `prepare_run` with its own
# script as `program`, and so does an agent that has forked its parent. It is the lowest frame of
# every warm run, so it must hold nothing else, and the zip file of the supervisor leaves `sys.path`
# before the script sees it.
PROGRAM = """\
import sys
sys.path[:] = [{above!r}, *filter(None, sys.path)]
from {package}.warm.ending import ForkedExit
ending = ForkedExit()
from {package}.warm.fork_server import prepare_run
del sys.path[0]
program = prepare_run({folder!r}, {packages!r}, ending, {agent!r})
try:
    program()
    ending.note(0)
except SystemExit as error:
    ending.note(error.code)
    raise
"""
PRELOADED = ("wandb", "numpy", "torch", "torchvision")
MOST_FILES = 200
CHANGING = ("setdefault", "update", "pop", "clear", "putenv", "unsetenv")
LOADS_VARIABLES = "load_dotenv"
# Variables that none of these packages reads at import, or only when it opens a device.
UNREAD = (
    *("CUBLAS_WORKSPACE_CONFIG", "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "DEPLOYER_", "HF_"),
    *("HYDRA_", "MPLBACKEND", "PL_", "PYTHONHASHSEED", "TF_CPP_", "TOKENIZERS_", "TRANSFORMERS_"),
    "WANDB_",
)
READ_BY_WANDB = ("WANDB_DISABLE_CACHE", "WANDB_HTTP_TIMEOUT", "WANDB_INSECURE_DISABLE_SSL")
# The first optimizer imports it, which takes as long as `import torch`.
OPTIMIZERS, BY_OPTIMIZERS = "optim", "torch._dynamo"


class ForkingAgent(NamedTuple):
    """What the process needs that forks a parent and becomes the agent.

    `lifeline` is the file whose end tells the parent that the supervisor has ended; `quick` is the
    launcher's, `path` the agent's PATH.
    """

    quick: bool
    lifeline: int
    path: str


class WarmParent:
    """The process that forks an agent's runs, if its script allows preloading."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self._reason = ""  # why there is no parent
        self._environment: Dict[str, str] = {}
        self._python = ""
        self._packages: Sequence[str] = ()
        self._process, self._lifeline = 0, -1
        self._shares, self._forked_by_agent = True, False
        self._started_at, self._starts = 0.0, 0

    def start_agent(self, environment: Mapping[str, str], log: int, program: str = "") -> int:
        """Start the agent and its warm parent; return the agent's process id.

        `program` is the sweep's program, relative to the current folder.
        """
        prepared = self.prepare(environment, program)
        if self._python and "wandb" in self._packages and self._shares and is_own(self._python):
            try:
                return self._start_with_agent(prepared, log)
            except OSError:  # such as a folder that is not writable
                self.stop()
        self.keep_running(())
        return spawn(agent_command(self._settings), prepared, log)

    def _start_with_agent(self, environment: Dict[str, str], log: int) -> int:
        """Start a process that imports wandb, forks the parent and becomes the agent.

        Importing it in two processes would take a second of CPU time and 25 MB more.
        """
        self._note_start()
        reader, self._lifeline = os.pipe()
        try:
            os.set_inheritable(reader, True)
            quick = self._settings.quick
            code = self._build_program(ForkingAgent(quick, reader, environment["PATH"]))
            # With its path: PATH has the stand-in first.
            command = [self._python, "-c", code, *agent_words(self._settings)]
            agent = spawn(command, environment, log)
            self._forked_by_agent = True
            self._starts += 1
            return agent
        finally:
            os.close(reader)

    def hangs_agent(self) -> bool:
        """Return True if the agent still waits for its packages after PRELOAD_SECONDS."""
        return self._prevents_agent() and time.monotonic() - self._started_at > PRELOAD_SECONDS

    def give_up_sharing(self) -> bool:
        """Start the next agent and its parent separately if the last could not fork its parent.

        Return True if so.
        """
        self._shares = self._shares and not self._prevents_agent()
        return not self._shares

    def _prevents_agent(self) -> bool:
        self._find_process()
        return self._forked_by_agent and not (self._process or self._read(COLD))

    def prepare(self, environment: Mapping[str, str], program: str) -> Dict[str, str]:
        """Return the agent's environment; its `python` is the stand-in if runs may be warm."""
        self._environment = dict(environment)
        path = environment.get("PATH", os.defpath)
        self._python, self._reason = "", ""
        if not self._settings.warm:
            return self._environment
        self.stop()  # a parent that an earlier supervisor left
        for name in (COLD, OVER, PROCESS_ID):
            with contextlib.suppress(OSError):
                os.unlink(self._get_path(name))
        python = shutil.which("python", path=path) or ""
        self._reason = find_reason(self._settings) or ("" if python else "no python on PATH")
        if not self._reason:
            self._packages, self._reason = self._read_script(program)
        folder = self._get_path("bin")
        try:
            if not self._reason:
                os.makedirs(folder, exist_ok=True)
                write_stand_in(os.path.join(folder, "python"), python)
        except OSError as error:
            self._reason = str(error)
        if self._reason:
            return self._environment
        self._python = python
        return {**self._environment, "PATH": os.pathsep.join([folder, path])}

    def _read_script(self, program: str) -> Any:
        """Read the script in a child, so that its parser does not stay in our memory."""

        def read() -> object:
            from .parent import read_script

            return read_script(program, os.curdir, self._settings.warm_packages)

        if not program:
            return (), "the sweep names no program"
        return run_task(read, LOOK_SECONDS) or ((), f"{program} cannot be read")

    def keep_running(self, ended: Container[int]) -> None:
        """Start the parent, or restart it; `ended` are process ids that were reaped."""
        self._find_process()
        if self._process in ended:
            self.stop()
        if not self._python:
            return
        self._reason = self._find_cold() or self._reason
        if self._reason:
            self._python = ""
            self.stop()
        elif not (self._process or self._forked_by_agent):
            self._starts += 1
            try:
                self._start()
            except (OSError, NotImplementedError) as error:
                self.stop()
                if is_unwritable(error):  # transient
                    self._starts -= 1
                else:
                    self._python, self._reason = "", str(error)

    def _find_cold(self) -> str:
        """Return why the agent must stay cold from now on; empty if it need not."""
        hangs = self._process and os.path.exists(self._get_path(STARTING))
        if hangs and time.monotonic() - self._started_at > PRELOAD_SECONDS:
            return f"preloading took more than {PRELOAD_SECONDS:.0f} s"
        if not self._process and self._starts >= MOST_STARTS:
            return "the parent has ended too often"
        return self._read(COLD)

    def read_start(self) -> str:
        """Return how the last run was started: `warm`, or `cold: REASON`; empty if unknown."""
        if not self._settings.warm:
            return ""
        if not self._python:  # the file is stale: it is about an earlier agent's run
            return f"cold: {self._reason}"
        return self._read(START)

    def _find_process(self) -> None:
        if self._forked_by_agent and not self._process:
            self._process = int(self._read(PROCESS_ID) or 0)

    def stop(self) -> None:
        self._find_process()
        if self._process and os.path.exists(self._get_path(STARTING)):
            send_signal(self._process, signal.SIGKILL)  # it would first finish preloading
        if self._lifeline >= 0:
            os.close(self._lifeline)
        self._process, self._lifeline = 0, -1
        self._forked_by_agent = False
        for name in (SOCKET, STARTING):
            with contextlib.suppress(OSError):
                os.unlink(self._get_path(name))

    def _get_path(self, name: str) -> str:
        return os.path.join(self._settings.folder, name)

    def _read(self, name: str) -> str:
        try:
            with open(self._get_path(name), encoding="utf-8") as file:
                return file.read()
        except OSError:
            return ""

    def _build_program(self, agent: Optional[ForkingAgent] = None) -> str:
        above, package = os.path.split(AGENT)  # possibly in a zip file
        folder, packages = self._settings.folder, list(self._packages)
        values = {"above": above, "package": package, "folder": folder, "packages": packages}
        return PROGRAM.format(**values, agent=tuple(agent) if agent else None)

    def _note_start(self) -> None:
        with open(self._get_path(STARTING), "w", encoding="utf-8"):
            pass
        self._started_at = time.monotonic()

    def _start(self) -> None:
        self._note_start()
        # A separate log, not the runs'.
        log = os.open(self._get_path(LOG), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        reader, self._lifeline = os.pipe()
        try:
            self._process = os.posix_spawn(
                self._python,
                ["python", "-c", self._build_program()],
                self._environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, *s) for s in ((reader, 0), (log, 1), (log, 2))],
                setsid=True,  # so that it does not look like a run
                setsigmask=[],
                setsigdef=RESTORED_SIGNALS,
            )
        finally:
            os.close(reader)
            os.close(log)


def is_own(python: str) -> bool:
    """Return True if a path names the Python that executes this program."""
    places = {os.path.realpath(os.path.dirname(path)) for path in (python, sys.executable)}
    return len(places) == 1 and os.path.samefile(python, sys.executable)


def find_reason(settings: AgentSettings) -> str:
    """Return why an agent with these settings never has a parent; empty if it may have one."""
    if settings.metrics:
        return "a wrapper reads its metrics"
    if settings.count == 1:
        return "the agent takes one run"  # so preloading would save nothing
    return "" if os.path.isdir("/proc/self/fd") and hasattr(os, "fork") else "no /proc"


def write_stand_in(path: str, python: str) -> None:
    line = f"#!{python} -IS\n"
    if len(line) > SHEBANG_BYTES or " " in python:
        line = SHELL_START.format(python=python)
    source = pkgutil.get_data(__package__ or "", "stand_in.py") or b""
    with open(path, "wb") as file:
        file.write(line.encode() + source)
    os.chmod(path, 0o700)


class PreloadList(NamedTuple):
    """The packages to preload, in the script's order, or why its runs must start cold."""

    packages: Sequence[str]
    reason: str


def read_script(program: str, folder: str, more: Sequence[str]) -> PreloadList:
    """Read a script and its project's modules; `more` are additional packages to preload.

    A change of the environment counts at its position in the text, even inside a function.
    """
    script = os.path.join(folder, program)
    text = _Text(script, folder)
    text.read(script)
    text.end()
    if text.reason:
        return PreloadList((), text.reason)
    found = list(text.packages)
    if text.optimizes and "torch" in found:
        found.append(BY_OPTIMIZERS)
    found += [name for name in more if name not in found]
    return PreloadList(found, "" if found else f"{program} imports none of {', '.join(PRELOADED)}")


class _Text:
    """The imports and environment changes of a project's files, in order of execution."""

    def __init__(self, script: str, folder: str) -> None:
        self.packages: Dict[str, None] = {}
        self.reason = ""
        self.optimizes = False
        self._script, self._folder = script, folder
        self._change = ""  # the first change of the environment so far
        self._late: List[str] = []  # imported inside functions of the script
        self._seen: Set[str] = set()

    def read(self, path: str) -> None:
        if path in self._seen or len(self._seen) >= MOST_FILES:
            return
        self._seen.add(path)
        try:
            with open(path, "rb") as file:
                tree = ast.parse(file.read())
        except (OSError, SyntaxError, ValueError, RecursionError):
            return
        self._visit(tree, path, False)

    def end(self) -> None:
        """Add the imports inside functions, which run last."""
        for name in self._late:
            self._take(name)

    def _visit(self, node: ast.AST, path: str, inner: bool) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        change = find_change(node)
        if change is not None and not self._change:
            where = f"{os.path.relpath(path, self._folder)}:{getattr(node, 'lineno', 0)}"
            self._change = f"{where} sets {change or 'the environment'} before its imports"
        self.optimizes |= getattr(node, "attr", "") == OPTIMIZERS
        for level, name in list_imports(node):
            self._import(level, name, path, inner)
        inner = inner or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for child in ast.iter_child_nodes(node):
            self._visit(child, path, inner)

    def _import(self, level: int, name: str, path: str, inner: bool) -> None:
        above = os.path.join(os.path.dirname(path), *[os.pardir] * (level - 1))
        places = (above,) if level else (os.path.dirname(self._script), self._folder)
        files = find_files(name, places)
        for file in files:
            self.read(file)
        package = name.partition(".")[0]
        if files or level or package not in PRELOADED:
            return
        self.optimizes |= name.startswith(f"torch.{OPTIMIZERS}")
        if not inner:
            self._take(package)
        elif path == self._script:  # a function of another module may never be called
            self._late.append(package)

    def _take(self, package: str) -> None:
        self.reason = self.reason or self._change
        self.packages[package] = None


def list_imports(node: ast.AST) -> Iterator[Tuple[int, str]]:
    """Yield the imports of a statement: the number of leading dots, and the name."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield 0, alias.name
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield node.level, ".".join(filter(None, (node.module, alias.name)))


def find_files(name: str, places: Sequence[str]) -> List[str]:
    """Return the project's files that run when a module is imported."""
    words = name.split(".")
    for place in places:
        stems = [os.path.join(place, *words[:end]) for end in range(1, len(words) + 1)]
        paths = [path for stem in stems for path in (f"{stem}.py", f"{stem}{os.sep}__init__.py")]
        found = [os.path.normpath(path) for path in paths if os.path.isfile(path)]
        if found:
            return found
    return []


def find_change(node: ast.AST) -> Optional[str]:
    """Return the variable that a node sets or removes; empty if unknown, None if no variable.

    Ignores variables that no preloaded package reads at import.
    """
    keys: List[Any] = []
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
        if _get_name(node.value) == "environ":
            keys = [getattr(node.slice, "value", "")]
    elif isinstance(node, ast.AugAssign) and _get_name(node.target) == "environ":
        keys = getattr(node.value, "keys", [""])
    elif isinstance(node, ast.Call) and _get_name(node.func) == LOADS_VARIABLES:
        keys = [""]
    elif isinstance(node, ast.Call) and _get_name(node.func) in CHANGING:
        owner = _get_name(getattr(node.func, "value", node))
        first: Any = node.args[0] if node.args and not node.keywords else ""
        keys = getattr(first, "keys", [first]) if owner in ("environ", "os") else []
    # Python 3.8 wraps the key of a subscript in an Index node.
    names = [str(getattr(key, "value", getattr(key, "s", key))) for key in keys]
    names = [name if name.isidentifier() else "" for name in names]
    read = [n for n in names if not n.startswith(UNREAD) or n.startswith(READ_BY_WANDB)]
    return read[0] if read else None


def _get_name(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))
