"""What a forked process takes over to be the run that its stand-in was asked for."""

import builtins
import contextlib
import ctypes
import os
import resource
import signal
import sys
from importlib.machinery import BuiltinImporter, SourceFileLoader
from typing import Any, Callable, Dict, Sequence

Task = Dict[str, Any]  # what a run inherits; see stand_in.py
PR_SET_PDEATHSIG = 1  # linux/prctl.h
# The kernel rather kills a run for its memory than the parent of all runs.
OOM_SCORE = 100


def become(task: Task, parent: int, finder: Any, seed: Callable[[], None]) -> None:
    """Take over what a run inherits from its stand-in; `finder` hands it its modules."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    os.setpgid(0, 0)
    name_process("python")
    change_score(OOM_SCORE)
    os.chdir(task["folder"])
    os.umask(task["umask"])
    for name, limit in task["limits"].items():
        if resource.getrlimit(getattr(resource, name)) != tuple(limit):
            resource.setrlimit(getattr(resource, name), limit)
    os.nice(task["nice"] - os.nice(0))
    for number in task["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    os.environ.clear()
    os.environ.update(task["environment"])
    signal.pthread_sigmask(signal.SIG_SETMASK, task["blocked"])
    seed()
    sys.meta_path.insert(0, finder)
    prologue: Any = sys.modules["sitecustomize"]
    prologue.begin()


def name_process(name: str) -> None:
    """Give this process a name in the process table."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="utf-8") as file:
        file.write(name)


def change_score(more: int) -> None:
    """Have the kernel kill this process sooner, or later, when memory runs out: not the parent."""
    path = "/proc/self/oom_score_adj"
    with contextlib.suppress(OSError), open(path, "r+", encoding="utf-8") as file:
        score = int(file.read())
        file.seek(0)
        file.write(str(min(score + more, 1000)))


def find_place(task: Task) -> str:
    """Return the folder in which a program's imports are looked for first."""
    words = task["arguments"]
    words = words[1:] if words[0] == "-u" else words
    if words[0] in ("-m", "-c"):
        return str(task["folder"])
    return str(os.path.dirname(os.path.realpath(os.path.join(task["folder"], words[0]))))


def build_program(arguments: Sequence[str]) -> Callable[[], None]:
    """Set `sys` and `__main__` up for a command line; return what executes it."""
    unbuffered = arguments[:1] == ["-u"]
    words = arguments[1:] if unbuffered else arguments
    main: Any = type(sys)("__main__")
    main.__dict__["__builtins__"] = builtins
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    sys.modules["__main__"] = main
    if sys.version_info >= (3, 10):
        sys.orig_argv = ["python", *arguments]
    if words[0] == "-m":
        import runpy

        name_lowest_frame("<frozen runpy>")
        sys.argv = ["-m", *words[2:]]
        add_place(os.getcwd())
        run_module: Any = runpy  # its function for Python itself
        return lambda: run_module._run_module_as_main(words[1])
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        add_place("")
        main.__loader__ = BuiltinImporter
        return lambda: run_text(words[1])
    sys.argv = list(words)
    return build_script(words[0], main)


def run_text(source: str) -> None:
    """Execute the text of `-c`; since 3.13 tracebacks show its lines."""
    code = compile(source, "<string>", "exec", 0, True)
    if sys.version_info >= (3, 13):
        import linecache

        lines: Any = linecache  # its function for Python itself
        key = code if hasattr(lines, "_interactive_cache") else code.co_filename  # 3.13.0
        lines._register_code(key, source, code.co_filename)
    exec(code, find_variables())


def add_place(folder: str) -> None:
    """Have imports looked for in a program's folder first, unless PYTHONSAFEPATH is set."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, folder)


def name_lowest_frame(path: str) -> None:
    """Give the lowest frame the file of a cold run's: some look there for the script."""
    frame: Any = sys._getframe()
    while frame.f_back:
        frame = frame.f_back
    imports: Any = sys.modules["_imp"]
    imports._fix_co_filename(frame.f_code, path)


def build_script(name: str, main: Any) -> Callable[[], None]:
    """Return what executes a script as `__main__`."""
    add_place(os.path.dirname(os.path.realpath(name)))
    path = os.path.join(os.getcwd(), name) if sys.version_info >= (3, 9) else name
    main.__file__ = path
    name_lowest_frame(path)
    main.__cached__ = None
    main.__loader__ = SourceFileLoader("__main__", path)
    with open(path, "rb") as file:
        source = file.read()
    return lambda: exec(compile(source, path, "exec", 0, True), find_variables())


def find_variables() -> Dict[str, Any]:
    """Return the variables of `__main__`, which nobody but `sys.modules` shall hold."""
    return vars(sys.modules["__main__"])


def hide_our_frames() -> None:
    """Have the interpreter show an uncaught exception without what is below the program."""
    show = sys.excepthook

    def show_the_rest(kind: Any, error: Any, trace: Any) -> None:
        trace = trace and trace.tb_next  # the program's caller
        while trace and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        show(kind, error.with_traceback(trace), trace)

    sys.excepthook = show_the_rest
