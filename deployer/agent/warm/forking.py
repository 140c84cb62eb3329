"""The warm parent: imports what runs import, then forks each run.

A script, `python forking.py FOLDER LIST`, whose namespace becomes that of no run: what is forked
gets a `__main__` of its own. It has one thread and no open device, or it does not fork.
"""

import sys

AT_START = frozenset(sys.modules)  # what every Python has before its program begins

import builtins
import ctypes
import gc
import importlib.machinery
import json
import marshal
import os
import resource
import select
import signal
import socket
import struct
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

Task = Dict[str, Any]  # what a run inherits; see stand_in.py
SOCKET = "warm.sock"
STARTING = "warm.starting"  # stand-ins wait while it is there
LENGTH = struct.Struct("=I")
PR_SET_PDEATHSIG = 1  # linux/prctl.h
# The kernel rather kills a run for its memory than the parent of all runs.
OOM_SCORE = 100
# Variables that differ from run to run, and of which no import makes anything.
FREE_PREFIXES = ("WANDB_", "DEPLOYER_")


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


def load(path: str, default: Any) -> Any:
    """Return what a JSON file holds, the default if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return default


def save(path: str, content: Any) -> None:
    """Write a JSON file as a whole."""
    with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.replace(f"{path}.{os.getpid()}", path)


def listen(folder: str) -> socket.socket:
    """Return the socket on which stand-ins ask."""
    path = os.path.join(folder, SOCKET)
    if os.path.lexists(path):
        os.unlink(path)
    place = os.open(folder, os.O_RDONLY)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(f"/proc/self/fd/{place}/{SOCKET}")
    os.close(place)
    listening.listen(16)
    return listening


class Runs:
    """The runs that were forked, each with the connection of its stand-in."""

    def __init__(self, folder: str, packages: List[Tuple[str, int]]) -> None:
        self.connections: Dict[int, socket.socket] = {}
        self.folder = folder
        self.packages = packages
        self.environment = keep(os.environ)
        self.listening = listen(folder)
        self.woken, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> Task:
        """Fork runs until stdin ends and no run is left; returns the task, in a run alone."""
        open_files: List[Any] = [0, self.woken, self.listening]
        while 0 in open_files or self.connections:
            ready = select.select([*open_files, *self.connections.values()], [], [])[0]
            if self.woken in ready:
                os.read(self.woken, 4096)
                self.tell_ends()
            for process, connection in list(self.connections.items()):
                if connection in ready:
                    self.lose(process)
            if 0 in ready:  # the supervisor has left, or lets us go
                open_files = [self.woken]
                self.listening.close()
            elif self.listening in ready:
                task = self.take()
                if task:
                    return task
        os._exit(0)

    def tell_ends(self) -> None:
        """Tell each stand-in whose run has ended how it ended."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not process:
                return
            connection = self.connections.pop(process, None)
            if connection:
                killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
                send(connection, {"signal": killed, "code": os.WEXITSTATUS(status)})
                connection.close()

    def lose(self, process: int) -> None:
        """Kill the run of a stand-in that was killed."""
        self.connections.pop(process).close()
        os.kill(process, signal.SIGKILL)

    def take(self) -> Optional[Task]:
        """Answer one stand-in; return its task in the forked run, None in the parent."""
        connection, _ = self.listening.accept()
        try:
            task, streams = receive_task(connection)
        except (OSError, ValueError, EOFError):
            connection.close()
            return None
        reason = self.find_reason(task)
        if reason:
            send(connection, {"refused": reason})
            for stream in streams:
                os.close(stream)
            connection.close()
            return None
        process = os.fork()
        if not process:
            self.leave(connection, streams)
            return task
        for stream in streams:
            os.close(stream)
        self.connections[process] = connection
        send(connection, {"process": process})
        return None

    def find_reason(self, task: Task) -> str:
        """Return why a run cannot be forked from here, empty if it can."""
        if keep(task["environment"]) != self.environment:
            return "another environment"
        if task["arguments"][0] == "-u" and not getattr(sys.stdout, "write_through", True):
            return "option -u"
        try:
            if list_packages() != self.packages:
                return "packages have changed"
            shadowed = find_shadowed(find_place(task))
        except OSError as error:
            return str(error)
        return f"the project's own {shadowed}" if shadowed else ""

    def leave(self, connection: socket.socket, streams: Sequence[int]) -> None:
        """Give up, in a forked run, what is the parent's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for other in self.connections.values():
            other.close()
        connection.close()
        self.listening.close()
        os.close(self.woken)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.closerange(3, 256)


def find_place(task: Task) -> str:
    """Return the folder in which a program's imports are looked for first."""
    words = task["arguments"]
    words = words[1:] if words[0] == "-u" else words
    if words[0] in ("-m", "-c"):
        return str(task["folder"])
    return str(os.path.dirname(os.path.realpath(os.path.join(task["folder"], words[0]))))


def find_shadowed(folder: str) -> str:
    """Return a module that is imported here and would be the project's own in a cold run."""
    imported = {name.partition(".")[0] for name in sys.modules.keys() - AT_START}
    for entry in os.listdir(folder):
        name, _, ending = entry.partition(".")
        if name in imported and name != "__main__":
            # A folder without it gives way to a package that is installed.
            package = os.path.join(folder, entry, "__init__.py")
            if ending.endswith(("py", "so")) or os.path.exists(package):
                return name
    return ""


def keep(environment: Any) -> Dict[str, str]:
    """Return what of an environment an import may go by."""
    return {
        name: value for name, value in environment.items() if not name.startswith(FREE_PREFIXES)
    }


def receive_task(connection: socket.socket) -> Tuple[Task, Tuple[int, ...]]:
    """Return a stand-in's task and its three standard streams; ValueError from anybody else's."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    if struct.unpack("3i", peer)[1] != os.getuid():
        raise ValueError("another user")
    head, ancillary, _, _ = connection.recvmsg(LENGTH.size, socket.CMSG_SPACE(12))
    [(_, _, numbers)] = ancillary
    streams = struct.unpack("3i", numbers)
    (length,) = LENGTH.unpack(head)
    body = b""
    while len(body) < length:
        chunk = connection.recv(length - len(body))
        if not chunk:
            raise EOFError
        body += chunk
    return marshal.loads(body), streams


def send(connection: socket.socket, message: Dict[str, Any]) -> None:
    """Send a message; the stand-in may be gone."""
    body = marshal.dumps(message)
    try:
        connection.sendall(LENGTH.pack(len(body)) + body)
    except OSError:
        pass


def become(task: Task, parent: int) -> None:
    """Take over what a run inherits from its stand-in."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    os.setpgid(0, 0)
    with open("/proc/self/oom_score_adj", "r+", encoding="utf-8") as file:
        score = int(file.read())
        file.seek(0)
        file.write(str(min(score + OOM_SCORE, 1000)))
    with open("/proc/self/comm", "w", encoding="utf-8") as file:
        file.write("python")
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
    if "numpy.random" in sys.modules:
        numbers: Any = sys.modules["numpy.random"]
        numbers.seed()  # `random` does it itself; torch begins with a constant
    prologue: Any = sys.modules["sitecustomize"]
    prologue.begin()


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

        sys.argv = ["-m", *words[2:]]
        sys.path.insert(0, os.getcwd())
        run_module: Any = runpy  # its function for Python itself
        return lambda: run_module._run_module_as_main(words[1])
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.path.insert(0, "")
        main.__loader__ = importlib.machinery.BuiltinImporter
        return lambda: exec(compile(words[1], "<string>", "exec", 0, True), main.__dict__)
    sys.argv = list(words)
    return build_script(words[0], main)


def build_script(name: str, main: Any) -> Callable[[], None]:
    """Return what executes a script as `__main__`."""
    sys.path.insert(0, os.path.dirname(os.path.realpath(name)))
    path = os.path.join(os.getcwd(), name) if sys.version_info >= (3, 9) else name
    main.__file__ = path
    main.__cached__ = None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    with open(path, "rb") as file:
        source = file.read()
    return lambda: exec(compile(source, path, "exec", 0, True), main.__dict__)


def hide_our_frames() -> None:
    """Have the interpreter show an uncaught exception without what is below the program."""
    show = sys.excepthook

    def show_the_rest(kind: Any, error: Any, trace: Any) -> None:
        while trace and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        show(kind, error.with_traceback(trace), trace)

    sys.excepthook = show_the_rest


def prepare(folder: str, path: str) -> Task:
    """Import, listen and fork; returns the task, in a run alone."""
    sys.path.pop(0)  # our own folder
    given, sys.argv = sys.argv, Arguments([""])
    packages = list_packages()
    known = load(path, {})
    unfit = load(f"{path}.unfit", [])
    found = import_modules(known.get("modules", []), set(unfit))
    if found:
        save(f"{path}.unfit", [*unfit, found])
        os.execv(sys.executable, [sys.executable, *given])
    sys.argv = [""]
    gc.collect()
    gc.freeze()
    runs = Runs(folder, packages)
    os.unlink(os.path.join(folder, STARTING))
    return runs.serve()


process_id = os.getpid()
task = prepare(*sys.argv[1:])
become(task, process_id)
program = build_program(task["arguments"])
try:
    program()
except SystemExit:
    raise
except BaseException:
    hide_our_frames()
    raise
