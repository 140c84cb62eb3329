"""The warm parent: imports what runs import, then forks each run.

It has one thread and no open device, or it does not fork. Nothing of it is in `sys.modules` when a
run begins.
"""

import contextlib
import ctypes
import gc
import marshal
import os
import select
import signal
import socket
import struct
import sys
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Sequence, Tuple

from .core_wait import look_sooner
from .ending import Ending
from .handover import Handover, Store
from .imports import (
    FREE_PREFIXES,
    PACKAGES,
    PYTHONS_OWN,
    Group,
    Imports,
    find_shadowed,
    list_files,
    put_away,
)
from .lists import SCRIPT, explain, read_entries, read_unfit
from .package_metadata import keep_metadata
from .program import Task, become, build_program, find_place, name_process
from .registered import Loggers
from .repairs import build_seeding
from .start_over import StartOver
from .state import State

SOCKET = "warm.sock"
STARTING = "warm.starting"  # stand-ins wait while it is there
WRONG = "warm.wrong"  # there once a run has found that it does not import what was assumed
PARENT_NAME = "warm-parent"
MANY = 150  # modules; the SDK itself has 400 and takes half a second
LENGTH = struct.Struct("=I")


def prepare_run(
    imports: Imports,
    begun: State,
    at_start: FrozenSet[str],
    folder: str,
    path: str,
    ending: Ending,
) -> Callable[[], None]:
    """Listen and fork; returns in a run alone, with what executes its program.

    `begun` is how the process was before its imports, `at_start` are the modules that every Python
    has at its start, `folder` is the agent's, and `path` that of the list of imports. `ending` is
    told of a run what it shares with this process.
    """
    parent = os.getpid()
    look_sooner()
    keep_metadata([path for path in sys.path if path.endswith(PACKAGES)])
    seed = build_seeding(imports.audit.generators, imports.numpy_generators)
    forget_ourselves()
    others = list_others(imports.groups, at_start)
    loggers = Loggers(imports.groups)
    imports.exit_handlers.put_away()
    put_away(imports, at_start, begun)
    store = Store(imports.groups, others)
    del others
    gc.freeze()  # all of it; hardly any is garbage, and to find that takes as long as many imports
    gc.enable()
    runs = Runs(folder, imports, path)
    name_process(PARENT_NAME)
    with contextlib.suppress(OSError):  # the supervisor has let us go
        os.unlink(os.path.join(folder, STARTING))
    task = runs.serve()
    start_over = StartOver(task, folder, f"{path}.unfit", runs.listed)
    finder = Handover(store, loggers, imports.exit_handlers, start_over)
    finder.kept = runs, imports, begun  # a run that let go of them would write to all their pages
    try:
        become(task, parent, finder, seed)
        ending.begin(store.modules, PYTHONS_OWN, ctypes.PyDLL(None))
        program = build_program(task["arguments"])
    except Exception as error:
        start_over(SCRIPT, repr(error))
        raise
    finder.path = list(sys.path)
    return program


def list_others(groups: Sequence[Group], at_start: FrozenSet[str]) -> Dict[str, Any]:
    """Return the modules of no group that not every Python has at its start."""
    known = {name for group in groups for name in group.modules} | at_start
    return {name: module for name, module in sys.modules.items() if name not in known}


def forget_ourselves() -> None:
    """Take our own modules out of `sys.modules`; the project may have some of these names."""
    ours = __name__.partition(".")[0]
    for name in [*sys.modules]:
        if name == ours or name.startswith(f"{ours}."):
            del sys.modules[name]


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

    def __init__(self, folder: str, imports: Imports, path: str) -> None:
        self.connections: Dict[int, socket.socket] = {}
        self.groups = groups = imports.groups
        self.imports = imports
        self.wrong_path = os.path.join(folder, WRONG)
        self.path = path
        self.listed = {name for name, _ in read_entries(path)}
        self.unfit_path = f"{path}.unfit"
        self.unfit = read_unfit(self.unfit_path)
        self.files = list_files(groups)
        self.reads = {name for group in groups for name in group.reads}
        self.affinity = os.sched_getaffinity(0)
        self.stale = False
        self.environment = self.keep(os.environ)
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
            if self.listening in ready:
                task = self.take()
                if task:
                    return task
            # The supervisor has left or lets us go; or it is to start another one.
            if 0 in open_files and (0 in ready or self.stale):
                open_files = [self.woken]
                self.listening.close()
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
                self.stale = self.stale or self.lacks_much()
                send(connection, {"signal": killed, "code": os.WEXITSTATUS(status)})
                connection.close()

    def lacks_much(self) -> bool:
        """Tell whether runs import so much more that another parent is worth while."""
        names = {name for name, _ in read_entries(self.path)} - self.listed
        return sum(map(self.imports.is_wanted, names)) >= MANY

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
        if self.keep(task["environment"]) != self.environment:
            return "another environment"
        if set(task["affinity"]) != self.affinity:
            return "another CPU affinity"
        if task["arguments"][0] == "-u" and not getattr(sys.stdout, "write_through", True):
            return "option -u"
        self.stale = True  # unless it is not
        if os.path.exists(self.wrong_path):
            return "imports were not as assumed"
        if list_files(self.groups) != self.files:
            return "packages have changed"
        if read_unfit(self.unfit_path) != self.unfit:
            return self.find_news()
        self.stale = False
        try:
            shadowed = find_shadowed(find_place(task), self.groups)
        except OSError as error:
            return str(error)
        return f"the project's own {shadowed}" if shadowed else ""

    def find_news(self) -> str:
        """Return what a run has found to be unfit."""
        news = [one for one in read_unfit(self.unfit_path).items() if one not in self.unfit.items()]
        return explain(*news[0]) if news else "packages have changed"

    def keep(self, environment: Any) -> Dict[str, str]:
        """Return what of an environment an import may go by."""
        return {
            name: value
            for name, value in environment.items()
            if name in self.reads or not name.startswith(FREE_PREFIXES)
        }

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
    with contextlib.suppress(OSError):
        connection.sendall(LENGTH.pack(len(body)) + body)
