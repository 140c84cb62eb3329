"""The warm parent: preloads packages, then forks each run.

It forks only if it has a single thread and no open GPU. None of its own modules is in `sys.modules`
when a run begins.
"""

import array
import atexit
import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import struct
import sys
from typing import Any, Callable, Collection, Dict, List, NoReturn, Optional, Sequence, Tuple

from .ending import ForkedExit
from .inherited import OWN_PREFIXES, Inherited
from .program import (
    COLD,
    ForkTask,
    StartOver,
    become,
    build_program,
    name_process,
    remove_stand_in,
)
from .sdk import (
    PORT_FILE_MODULE,
    list_packages_once,
    look_sooner,
    read_machine,
    read_process_id_late,
)

SOCKET = "warm.sock"
STARTING = "warm.starting"  # stand-ins wait while it is there
PROCESS_ID, LOG = "warm.pid", "warm.log"
PARENT_NAME = "warm-parent"
# Late imports of `wandb.init` and `run.finish`; some versions lack some of them.
LATE = {
    "wandb": (
        *(PORT_FILE_MODULE, "wandb.sdk.lib.service.service_client", "wandb.sdk.lib.gitlib"),
        *("wandb.sdk.launch.inputs.internal", "wandb.apis.public", "yaml", "requests"),
    )
}
PACKAGES = ("site-packages", "dist-packages")
DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri")
ASK_SECONDS = 5.0  # a stopped stand-in must not block the others


def prepare_run(
    folder: str,
    packages: Sequence[str],
    ending: ForkedExit,
    agent: Optional[Tuple[bool, int, str]] = None,
) -> Callable[[], None]:
    """Preload, listen and fork; returns only in a forked run, with a function to execute it.

    `folder` is the agent's. With `agent`, a ForkingAgent, this process imports wandb, forks the
    parent and becomes the agent; then it also returns in the agent.
    """
    arguments, shared = sys.argv, 0
    if agent:
        quick, lifeline, path = agent
        launcher: Any = importlib.import_module("..launcher", __package__)
        os.environ["PATH"] = remove_stand_in(path, folder)
        shared = packages.index("wandb") + 1
    before = dict(os.environ)
    inherited = Inherited()
    with inherited.recording():
        reason = preload(packages[:shared])
        is_agent = agent and fork_parent(folder, lifeline, reason)
        reason = "" if is_agent else preload(packages[shared:])
    if is_agent:
        atexit.unregister(ending)
        gc.freeze()
        gc.enable()
        os.environ.clear()  # of what imports have set, which runs would inherit
        os.environ.update({**before, "PATH": path})
        sys.argv = arguments
        return lambda: launcher.main(quick)
    reason = reason or find_obstacle() or inherited.find_obstacle()
    if reason:
        note_cold(folder, reason)
        end_parent()
    parent = os.getpid()
    changes = inherited.list_changes()
    for do_once in (look_sooner, list_packages_once, read_process_id_late, read_machine):
        do_once()
    ours = __name__.partition(".")[0]
    for name in [*sys.modules]:  # the project may have modules with our names
        if name.partition(".")[0] == ours:
            del sys.modules[name]
    gc.freeze()  # it contains hardly any garbage, and a collection would write to every page
    server = ForkServer(folder, before)
    name_process(PARENT_NAME)
    with contextlib.suppress(OSError):  # the supervisor has ended
        os.unlink(os.path.join(folder, STARTING))
    task = server.serve()
    gc.enable()
    start_over = StartOver(folder, inherited)
    start_over.kept = server  # freeing it would write to pages shared with the parent
    try:
        inherited.renew()
        become(task, parent, changes)
        ending.begin()
        return build_program(task.arguments, task.words, start_over)
    except Exception as error:
        start_over.end(repr(error))
        raise


def fork_parent(folder: str, lifeline: int, reason: str) -> bool:
    """Fork the parent, unless there is a reason not to; return True in the agent.

    `lifeline` is the file whose end means that the supervisor has ended.
    """
    reason = reason or find_threads()
    if reason:
        note_cold(folder, reason)
    else:
        child = os.fork()
        if not child:
            become_parent(folder, lifeline)
            return False
        os.waitpid(child, 0)
    os.close(lifeline)
    return True


def become_parent(folder: str, lifeline: int) -> None:
    """Make this process the supervisor's child, as if that had started it; note its id."""
    if os.fork():
        os._exit(0)
    os.setsid()  # so that it does not look like a run
    name_process(PARENT_NAME)
    log = os.open(os.path.join(folder, LOG), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for file, stream in ((lifeline, 0), (log, 1), (log, 2)):
        os.dup2(file, stream)
    os.close(lifeline)
    os.close(log)
    with open(os.path.join(folder, PROCESS_ID), "w", encoding="utf-8") as noted:
        noted.write(str(os.getpid()))


def note_cold(folder: str, reason: str) -> None:
    with open(os.path.join(folder, COLD), "w", encoding="utf-8") as file:
        file.write(reason)


def preload(packages: Sequence[str]) -> str:
    """Import packages; return why one failed, empty if none. Disables garbage collection."""
    gc.disable()
    sys.argv = [""]
    for package in packages:
        try:
            __import__(package)
        except (Exception, SystemExit) as error:
            return f"{package} cannot be preloaded: {error!r}"
        for name in LATE.get(package, ()):
            with contextlib.suppress(ImportError):
                __import__(name)
    return ""


def end_parent() -> NoReturn:
    """End the parent after its exit handlers, which delete what its imports created."""
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    os._exit(0)


def find_threads() -> str:
    """Return that preloading has left threads, so that this process must not fork; empty if not.

    Forks once first, since libraries such as OpenBLAS end their threads before a fork.
    """
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    more = len(os.listdir("/proc/self/task")) - 1
    return f"preloading has left {more} more threads" if more else ""


def find_obstacle() -> str:
    """Return why this process must not fork; empty if it may."""
    threads = find_threads()
    if threads:
        return threads
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return find_device([os.readlink(link) for link in links if os.path.lexists(link)], sys.modules)


def find_device(paths: Collection[str], modules: Dict[str, Any]) -> str:
    """Return an error if a GPU device is open or a CUDA context exists; empty if not."""
    cuda: Any = getattr(modules.get("torch"), "cuda", None)
    found = [path for path in paths if path.startswith(DEVICES)]
    if cuda and cuda.is_initialized():
        found.append("a CUDA context")
    return f"preloading has opened {found[0]}" if found else ""


class ForkServer:
    """Forks runs; keeps the connections to their stand-ins by the runs' process ids."""

    def __init__(self, folder: str, environment: Dict[str, str]) -> None:
        self.connections: Dict[int, socket.socket] = {}
        self.folder = folder
        self.inherited = list_inherited(os.getpid(), environment)
        self.modules = {name.partition(".")[0] for name in sys.modules} - {"__main__"}
        self.installed = list_installed()
        path = os.path.join(folder, SOCKET)
        if os.path.lexists(path):
            os.unlink(path)
        place = os.open(folder, os.O_RDONLY)
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listening.bind(f"/proc/self/fd/{place}/{SOCKET}")  # an address has at most 107 bytes
        os.close(place)
        self.listening.listen(16)
        self.woken, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        self.on_child = signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> ForkTask:
        """Fork runs until stdin closes and no run remains; return the task in a forked run."""
        open_files: List[Any] = [0, self.woken, self.listening]
        while 0 in open_files or self.connections:
            ready = select.select([*open_files, *self.connections.values()], [], [])[0]
            if self.woken in ready:
                os.read(self.woken, 4096)
                self.report_ends()
            for process, connection in list(self.connections.items()):
                if connection in ready:  # its stand-in was killed
                    self.connections.pop(process).close()
                    os.kill(process, signal.SIGKILL)
            task = self.take() if self.listening in ready else None
            if task:
                return task
            # The supervisor has ended, or packages changed, so that it must start another parent.
            if 0 in open_files and (0 in ready or list_installed() != self.installed):
                open_files = [self.woken]
                self.listening.close()
        end_parent()

    def report_ends(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                process, status = os.waitpid(-1, os.WNOHANG)
                if not process:
                    return
                connection = self.connections.pop(process, None)
                if connection:
                    answer(connection, f"ended {status}")
                    connection.close()

    def take(self) -> Optional[ForkTask]:
        """Answer one stand-in; return its task in the forked run, None in the parent."""
        connection, _ = self.listening.accept()
        connection.settimeout(ASK_SECONDS)
        streams = array.array("i")
        try:
            _, ancillary, _, _ = connection.recvmsg(16, socket.CMSG_SPACE(12))
            streams.frombytes(ancillary[0][2])
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            task = ForkTask(struct.unpack("3i", peer)[0], self.folder)
            reason = self.find_reason(task)
        except (OSError, LookupError, ValueError) as error:
            reason = repr(error)
        process = 0 if reason else os.fork()
        if not (reason or process):
            self.leave(connection, streams)
            return task
        for stream in streams:
            os.close(stream)
        answer(connection, f"refused {reason}" if reason else f"process {process}")
        if reason:
            connection.close()
        else:
            self.connections[process] = connection
        return None

    def find_reason(self, task: ForkTask) -> str:
        """Return why a run cannot be forked from this parent; empty if it can."""
        inherited = list_inherited(task.stand_in, task.environment)
        different = [name for name, one in inherited.items() if one != self.inherited[name]]
        if different:
            return f"another {different[0]}"
        if task.words != task.arguments and not getattr(sys.stdout, "write_through", True):
            return "option -u"
        if list_installed() != self.installed:
            return "packages have changed"
        return find_shadowed(task.words, task.working_folder, self.modules)

    def leave(self, connection: socket.socket, streams: Sequence[int]) -> None:
        """In a forked run, close the parent's files and take over the standard streams."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, self.on_child)
        for other in (connection, self.listening, *self.connections.values()):
            other.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, 256)


def list_inherited(process: int, environment: Dict[str, str]) -> Dict[str, object]:
    """Return, keyed by name, the properties that the parent and its runs must share."""
    with open(f"/proc/{process}/limits", encoding="utf-8") as file:
        limits = file.read()
    return {
        "environment": {n: v for n, v in environment.items() if not n.startswith(OWN_PREFIXES)},
        "CPU affinity": os.sched_getaffinity(process),
        "priority": os.getpriority(os.PRIO_PROCESS, process),
        "resource limit": limits,
    }


def list_installed() -> List[int]:
    """Return when packages were last installed or removed, in nanoseconds since the epoch."""
    folders = [path for path in sys.path if path.endswith(PACKAGES) and os.path.isdir(path)]
    return [os.stat(path).st_mtime_ns for path in folders]


def find_shadowed(words: Sequence[str], folder: str, modules: Collection[str]) -> str:
    """Return a preloaded module that a cold run would load from the project; empty if none.

    `words` is the program's command line, `folder` its working folder.
    """
    if words[0] not in ("-m", "-c"):
        folder = os.path.dirname(os.path.realpath(os.path.join(folder, words[0])))
    for entry in os.listdir(folder):
        name, _, ending = entry.partition(".")
        # An installed package takes precedence over a folder without __init__.py.
        is_package = os.path.exists(os.path.join(folder, entry, "__init__.py"))
        if name in modules and (ending.endswith(("py", "so")) or is_package):
            return f"the project's own {name}"
    return ""


def answer(connection: socket.socket, text: str) -> None:
    """Send a message; ignore a stand-in that is gone."""
    with contextlib.suppress(OSError):
        connection.sendall(text.encode())
