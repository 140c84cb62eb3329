"""Processes of one agent: start it, find its descendants, end and reap them. Linux only."""

import contextlib
import ctypes
import os
import signal
import time
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set

from ..settings import FOLDER_VARIABLE

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
EXIT_CODE_FIELD = 49  # the 52nd of /proc/PID/stat, counted from the third; see proc(5)
TERMINATE_SECONDS = 5.0  # between SIGTERM and SIGKILL, for whatever ignored the interrupt
KILL_SECONDS = 10.0  # a process in an uninterruptible system call can outlast SIGKILL
POLL_SECONDS = 0.1
RUN_VARIABLE = "WANDB_RUN_ID"
AGENT_NAME = "wandb-agent"  # as launcher.py names its process
WRAPPER_NAME = "metrics-wrapper"  # as metrics/wrapper.py names its own
# Python ignores these two, and a shell's `&` the third; a child would inherit that.
RESTORED_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT)


class Process(NamedTuple):
    """One line of the process table."""

    id: int
    name: str
    state: str
    parent: int
    group: int
    session: int

    @property
    def ended(self) -> bool:
        """Tell a process that only waits to be reaped."""
        return self.state in "ZX"

    @property
    def is_stand_in(self) -> bool:
        """Tell what passes on every signal to a run: a warm run's stand-in, or its wrapper."""
        return self.name in ("warm-python", WRAPPER_NAME)

    @property
    def is_run(self) -> bool:
        """Tell a run's first process: leader of a group in somebody else's session.

        `wandb agent` starts each run so; wandb-core, which must not be interrupted since it
        delivers the run's data, leads a session of its own.
        """
        return self.id == self.group != self.session


def become_subreaper() -> None:
    """Make orphans of our descendants our own children, so that none can slip away."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def name_process(name: str) -> None:
    """Give this process a name in the process table."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="utf-8") as file:
        file.write(name)


def spawn(command: Sequence[str], environment: Dict[str, str], log: int) -> int:
    """Start a command in its own process group, stdin empty, both outputs into `log`."""
    return os.posix_spawn(
        command[0],
        list(command),
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, log, 1),
            (os.POSIX_SPAWN_DUP2, log, 2),
        ],
        setpgroup=0,
        setsigmask=[],
        setsigdef=RESTORED_SIGNALS,
    )


def reap() -> Dict[int, int]:
    """Collect every child that has ended: process id to exit status, negative for a signal."""
    ended = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            process_id, status = os.waitpid(-1, os.WNOHANG)
            if not process_id:
                break
            killed = os.WIFSIGNALED(status)
            ended[process_id] = -os.WTERMSIG(status) if killed else os.WEXITSTATUS(status)
    return ended


def list_processes() -> Iterator[Process]:
    """Yield every process, those that have ended and were not reaped included."""
    for name in os.listdir("/proc"):
        process = read_process(int(name)) if name.isdigit() else None
        if process:
            yield process


def read_process(process_id: int) -> Optional[Process]:
    """Return one process; None if it is gone."""
    try:
        with open(f"/proc/{process_id}/stat", "rb") as file:
            text = file.read().decode(errors="replace")
    except OSError:
        return None
    # The second field is the program's name in brackets, which may hold blanks and brackets.
    head, _, rest = text.rpartition(")")
    state, parent, group, session = rest.split()[:4]
    name = head.partition("(")[2]
    return Process(process_id, name, state, int(parent), int(group), int(session))


def read_exit_status(process_id: int) -> Optional[int]:
    """Return how a process ended that waits to be reaped, negative for a signal; else None."""
    try:
        with open(f"/proc/{process_id}/stat", "rb") as file:
            fields = file.read().decode(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    if fields[0] != "Z":
        return None
    status = int(fields[EXIT_CODE_FIELD])
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def list_own() -> List[Process]:
    """Return all living processes below this one, which must be their subreaper; reaps the others.

    The process table cannot be read in one go, so that a chain of parents may seem cut. Only the
    kernel's word that there are no children at all is proof that nothing is left. One whose last
    thread hangs in the kernel for longer than KILL_SECONDS cannot be helped and is passed over.
    """
    for _ in range(int(KILL_SECONDS / POLL_SECONDS)):
        reap()
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return []
        found = list_descendants(os.getpid())
        if found:
            return found
        time.sleep(POLL_SECONDS)
    return []


def list_descendants(ancestor: int) -> List[Process]:
    """Return all living processes below one, itself left out."""
    children: Dict[int, List[Process]] = {}
    for process in list_processes():
        children.setdefault(process.parent, []).append(process)
    found: List[Process] = []
    waiting = [ancestor]
    while waiting:
        # The children of one that has ended hang on it until the last of its threads is gone.
        below = children.get(waiting.pop(), [])
        found += below
        waiting += [process.id for process in below]
    return [process for process in found if not process.ended]


def list_marked(folder: str) -> List[Process]:
    """Return all living processes, wherever they hang, that carry the folder of this agent."""
    mark = f"{FOLDER_VARIABLE}={folder}".encode()
    living = (process for process in list_processes() if not process.ended)
    return [process for process in living if mark in _read_environment(process.id)]


def list_leftovers(folder: str) -> List[Process]:
    """Return what an earlier supervisor of this folder has left; ourselves left out.

    Our ancestors may carry the folder too: the shell of a container, or who detached us.
    """
    parents = {process.id: process.parent for process in list_processes()}
    ours = {os.getpid()}
    above = os.getppid()
    while above and above not in ours:
        ours.add(above)
        above = parents.get(above, 0)
    marked = list_marked(folder)
    return [p for p in marked if p.id not in ours and p.parent != os.getpid()]


def list_remains(run_id: str) -> List[Process]:
    """Return what a run's first process has left behind, below this one, which is its subreaper.

    What delivers the run's data is not among it.
    """
    own = [process for process in list_processes() if process.parent == os.getpid()]
    orphans = [p for p in own if not p.ended and read_variable(p.id, RUN_VARIABLE) == run_id]
    found = orphans + [below for orphan in orphans for below in list_descendants(orphan.id)]
    cores = {process.id for process in found if is_core(process)}
    return [process for process in found if not cores & {process.id, process.parent}]


def list_cores(run_id: str) -> List[int]:
    """Return the living processes that write down and deliver what a run logs.

    The agent has one for itself, whose environment names its last run, too.
    """
    living = [process for process in list_processes() if not process.ended]
    agents = {process.id for process in living if is_agent(process)}
    cores = [p.id for p in living if p.parent not in agents and is_core(p)]
    return [core for core in cores if read_variable(core, RUN_VARIABLE) == run_id]


def is_core(process: Process) -> bool:
    """Tell wandb-core, which talks to the server for the process that started it."""
    return b"".join(_read_words(process.id, "cmdline")[:1]).endswith(b"/wandb-core")


def describe_process(process_id: int, said: str) -> str:
    """Say something of a process with its command line and folder; empty if it is gone."""
    words = [word.decode(errors="replace") for word in _read_words(process_id, "cmdline") if word]
    with contextlib.suppress(OSError):
        return f"`{' '.join(words)}` {said} in {os.readlink(f'/proc/{process_id}/cwd')}"
    return ""


def holds_open(process_id: int, path: str) -> bool:
    """Tell whether a process has a file open, which is named by its real path."""
    folder = f"/proc/{process_id}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                if os.readlink(os.path.join(folder, name)) == path:
                    return True
    return False


def read_variable(process_id: int, name: str) -> str:
    """Return a variable of another process's environment, empty if it has none."""
    start = f"{name}=".encode()
    found = [line for line in _read_environment(process_id) if line.startswith(start)]
    return found[0][len(start) :].decode() if found else ""


def is_agent(process: Process) -> bool:
    """Tell the `wandb agent` itself from its runs and their helpers."""
    return process.name == AGENT_NAME


def _read_environment(process_id: int) -> List[bytes]:
    return _read_words(process_id, "environ")


def _read_words(process_id: int, name: str) -> List[bytes]:
    try:
        with open(f"/proc/{process_id}/{name}", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def end_processes(find: Callable[[], Sequence[Process]], grace_seconds: float) -> bool:
    """End all that `find` returns: interrupt the runs, after the grace time TERM, at last KILL.

    An interrupt lets an unmodified trainer deliver all its data and its exit record; SIGTERM would
    not. The grace time is theirs: what they leave behind has TERMINATE_SECONDS of it. Returns
    whether nothing is left.
    """
    interrupted: Set[int] = set()
    deadline = time.monotonic() + grace_seconds

    def interrupt(processes: Sequence[Process]) -> None:
        for process in processes:
            if process.is_run and not process.is_stand_in and process.id not in interrupted:
                interrupted.add(process.id)
                send_signal(-process.group, signal.SIGINT)

    def find_graced() -> Sequence[Process]:
        return [process for process in find() if process.is_run or is_core(process)]

    if any(process.is_run for process in find()):
        _wait_until_gone(find_graced, grace_seconds, interrupt)
        grace_seconds = deadline - time.monotonic()
    return (
        _wait_until_gone(find, min(grace_seconds, TERMINATE_SECONDS), interrupt)
        or _wait_until_gone(find, TERMINATE_SECONDS, _sender(signal.SIGTERM))
        or _wait_until_gone(find, KILL_SECONDS, _sender(signal.SIGKILL, again=True))
    )


def _wait_until_gone(
    find: Callable[[], Sequence[Process]],
    seconds: float,
    act: Callable[[Sequence[Process]], None],
) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        left = find()
        if not left:
            return True
        act(left)
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)


def _sender(number: int, again: bool = False) -> Callable[[Sequence[Process]], None]:
    """Return a function that sends a signal to each process it meets, once or every time."""
    reached: Set[int] = set()

    def send(processes: Sequence[Process]) -> None:
        for process in processes:
            if again or process.id not in reached:
                reached.add(process.id)
                send_signal(process.id, number)

    return send


def send_signal(process_id: int, number: int) -> None:
    """Send a signal to a process, or to a group by its negative id; it may be gone already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process_id, number)
