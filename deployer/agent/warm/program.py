"""Turns a forked process into its stand-in's run, or makes the stand-in start it over."""

import builtins
import contextlib
import ctypes
import importlib.machinery
import os
import signal
import sys
import time
from typing import Any, Callable, Dict, Optional, Sequence, Union, cast

from .inherited import Inherited

PR_SET_PDEATHSIG = 1  # linux/prctl.h
OOM_SCORE = 100
STAND_IN_WORDS = 3  # of a stand-in's command line before the run's arguments: python -IS FILE
COLD = "warm.cold"  # why all further runs of the agent start cold
OVER = "warm.over"  # exists if the stand-in must start the run over


class ForkTask:
    """A run's inherited properties, read from its stand-in's /proc; `folder` is the agent's.

    Raises OSError or LookupError if the process is gone or its /proc is incomplete.
    """

    def __init__(self, stand_in: int, folder: str) -> None:
        def read(name: str) -> str:
            with open(f"/proc/{stand_in}/{name}", "rb") as file:
                return os.fsdecode(file.read())

        self.stand_in = stand_in
        self.arguments = read("cmdline").split("\0")[STAND_IN_WORDS:-1]
        self.words = self.arguments[self.arguments[0] == "-u" :]
        pairs = (one.partition("=") for one in read("environ").split("\0") if one)
        self.environment = {name: value for name, _, value in pairs}
        self.environment["PATH"] = remove_stand_in(self.environment["PATH"], folder)
        self.working_folder = os.readlink(f"/proc/{stand_in}/cwd")
        status = dict(line.split(":\t", 1) for line in read("status").splitlines() if ":\t" in line)
        self.umask = int(status["Umask"], 8)
        mask = int(status["SigIgn"], 16)
        ignored = {n for n in signal.valid_signals() if mask >> (n - 1) & 1}
        self.ignored = ignored - {signal.SIGPIPE, signal.SIGXFSZ}  # which Python ignores itself


def remove_stand_in(path: str, folder: str) -> str:
    """Return PATH without the place of an agent's stand-in; `folder` is the agent's."""
    return os.pathsep.join(one for one in path.split(os.pathsep) if one != f"{folder}/bin")


def become(task: ForkTask, parent: int, changes: Dict[str, Optional[str]]) -> None:
    """Apply the stand-in's properties to this process.

    `changes` are variables that imports set; None means that they removed the variable.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    os.setpgid(0, 0)
    name_process("python")
    raise_score()
    os.chdir(task.working_folder)
    os.umask(task.umask)
    for number in task.ignored:
        signal.signal(number, signal.SIG_IGN)
    os.environ.clear()
    wanted = {**task.environment, **changes}
    os.environ.update({name: one for name, one in wanted.items() if one is not None})
    refresh(sys.modules)
    prologue: Any = sys.modules["sitecustomize"]
    prologue.begin()


def refresh(modules: Dict[str, Any]) -> None:
    """Renew process state that imports cached: seeds, keys, start time, process and thread id.

    Python itself reseeds `random` in a fork; `inherited` reseeds the packages' generators.
    """
    torch: Any = getattr(modules.get("torch"), "default_generator", None)
    if torch:
        torch.seed()
    process: Any = modules.get("multiprocessing.process")
    if process:
        config = process.current_process()._config
        config["authkey"] = process.AuthenticationString(os.urandom(32))
    logging: Any = modules.get("logging")
    if logging:
        is_whole = isinstance(logging._startTime, int)  # since Python 3.13
        logging._startTime = time.time_ns() if is_whole else time.time()
    threading: Any = modules.get("threading")
    if threading:
        threading.main_thread()._set_native_id()


def name_process(name: str) -> None:
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="utf-8") as file:
        file.write(name)


def raise_score() -> None:
    """Make the kernel kill this process before the parent when memory runs out."""
    path = "/proc/self/oom_score_adj"
    with contextlib.suppress(OSError), open(path, "r+", encoding="utf-8") as file:
        score = int(file.read())
        file.seek(0)
        file.write(str(min(score + OOM_SCORE, 1000)))


class StartOver:
    """Lets the stand-in start a run over without preloading if an import fails."""

    kept: object = None

    def __init__(self, folder: str, inherited: Inherited) -> None:
        self._folder = folder
        self._inherited = inherited
        self._process = os.getpid()

    def __call__(self, error: BaseException) -> None:
        """Keep the agent cold after a failed import; returns unless the run can start over."""
        if os.getpid() == self._process and is_from_import(error):
            reason = f"an import failed in a warm run: {error!r}"
            self._write(COLD, reason)
            if not has_begun():
                self.end(reason)

    def end(self, reason: str) -> None:
        """End this process; its stand-in becomes the run."""
        out, err = cast("Any", (sys.__stdout__, sys.__stderr__))  # the script may have its own
        err.write(f"deployer: {reason}; the run starts over with nothing preloaded\n")
        for stream in (out, err):
            with contextlib.suppress(Exception):
                stream.flush()
        self._write(COLD, reason)
        self._write(OVER, reason)
        self._inherited.delete_folders()
        os._exit(1)

    def _write(self, name: str, text: str) -> None:
        with open(os.path.join(self._folder, name), "w", encoding="utf-8") as file:
            file.write(text)


def is_from_import(error: BaseException) -> bool:
    if isinstance(error, ImportError):
        return True
    trace = error.__traceback__
    while trace:
        frame = trace.tb_frame
        is_body = frame.f_code.co_name == "<module>"
        if is_body and frame.f_globals.get("__name__") not in ("__main__", "runpy"):
            return isinstance(error, Exception)
        trace = trace.tb_next
    return False


def has_begun() -> bool:
    """Return True if this process may have started a W&B run, which must not start twice."""
    setup: Any = sys.modules.get("wandb.sdk.wandb_setup")
    if setup is None or not hasattr(setup, "_singleton"):
        return setup is not None
    return getattr(setup._singleton, "_pid", 0) == os.getpid()


def build_program(
    arguments: Sequence[str], words: Sequence[str], start_over: Callable[[BaseException], None]
) -> Callable[[], None]:
    """Set up `sys` and `__main__` for a command line; return a function that executes it.

    `words` are the arguments without options.
    """
    main: Any = type(sys)("__main__")
    main.__dict__["__builtins__"] = builtins
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    sys.modules["__main__"] = main
    if "__mp_main__" in sys.modules:  # as multiprocessing calls it for spawned processes
        sys.modules["__mp_main__"] = main
    if sys.version_info >= (3, 10):
        sys.orig_argv = ["python", *arguments]
    sys.argv = list(words) if words[0] not in ("-m", "-c") else [words[0], *words[2:]]
    if words[0] == "-m":
        run_module: Any = importlib.import_module("runpy")  # a private function of it
        add_place(os.getcwd())
        execute: Callable[[], None] = lambda: run_module._run_module_as_main(words[1])  # noqa: E731
    elif words[0] == "-c":
        add_place("")
        main.__loader__ = importlib.machinery.BuiltinImporter
        execute = build_code(words[1], "<string>")
    else:
        execute = build_script(words[0], main)

    def run() -> None:
        try:
            execute()
        except BaseException as error:
            start_over(error)
            raise

    return run


def add_place(folder: str) -> None:
    """Put a program's folder first on `sys.path`, unless PYTHONSAFEPATH is set."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, folder)


def build_script(name: str, main: Any) -> Callable[[], None]:
    add_place(os.path.dirname(os.path.realpath(name)))
    path = os.path.join(os.getcwd(), name) if sys.version_info >= (3, 9) else name
    main.__file__ = path
    main.__cached__ = None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    with open(path, "rb") as file:
        return build_code(file.read(), path)


def build_code(source: Union[str, bytes], path: str) -> Callable[[], None]:
    """Return a function that executes source as `__main__`; only `sys.modules` holds that."""

    def execute() -> None:
        code = compile(source, path, "exec", 0, True)
        exec(code, vars(sys.modules["__main__"]))

    return execute
