"""Start, list, signal and end processes of this host."""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import signal
import sys
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set

from ..exit_codes import FINISHED, STOPPED, AgentExit
from ..settings import FOLDER_VARIABLE

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
EXIT_CODE_FIELD = 49  # the 52nd of /proc/PID/stat, counted from the third; see proc(5)
TERMINATE_SECONDS = 5.0  # between SIGTERM and SIGKILL, for processes that ignored the interrupt
KILL_SECONDS = 10.0  # a process in an uninterruptible system call can outlast SIGKILL
POLL_SECONDS = 0.1
RUN_VARIABLE = "WANDB_RUN_ID"
AGENT_NAME = "wandb-agent"  # as launcher.py names its process
WRAPPER_NAME = "metrics-wrapper"  # as metric_wrapper.py names its process
# Python ignores the first two, and a shell's `&` the others; a child would inherit that.
RESTORED_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT)
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
DRAIN_SIGNAL = signal.SIGUSR1
WATCHED_SIGNALS = {*STOP_SIGNALS, DRAIN_SIGNAL, signal.SIGCHLD}
TICK_SECONDS = 0.5
DRAINED = AgentExit(FINISHED, "drained: its last run has ended")
INTERRUPTED = AgentExit(STOPPED, "asked to stop")
# Exit code 0, so that the Kubernetes Job completes and starts no other agent.
OUT_OF_TIME = AgentExit(FINISHED, "its time is over (--max-time)")


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
        """Return True if the process is a zombie, which only waits to be reaped."""
        return self.state in "ZX"

    @property
    def is_stand_in(self) -> bool:
        """Return True if it forwards signals to a run: a warm run's stand-in, or a wrapper."""
        return self.name in ("warm-python", WRAPPER_NAME)

    @property
    def is_run(self) -> bool:
        """Return True for a run's first process: it leads a group in another's session.

        `wandb agent` starts runs like this. wandb-core leads its own session; it must not be
        interrupted, since it delivers the run's data.
        """
        return self.id == self.group != self.session


def become_subreaper() -> None:
    """Adopt orphans of our descendants, so that none escapes."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def name_process(name: str) -> None:
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="utf-8") as file:
        file.write(name)


def spawn(command: Sequence[str], environment: Dict[str, str], log: int) -> int:
    """Start a command in its own process group, with empty stdin and both outputs in `log`."""
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
    """Reap every ended child; return exit statuses by process id, negative for a signal."""
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
    # The second field is the program's name in brackets; it may contain spaces and brackets.
    head, _, rest = text.rpartition(")")
    state, parent, group, session = rest.split()[:4]
    name = head.partition("(")[2]
    return Process(process_id, name, state, int(parent), int(group), int(session))


def read_exit_status(process_id: int) -> Optional[int]:
    """Return a zombie's exit status, negative for a signal; None if it is no zombie."""
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
    """Return all living descendants of this process, which must be a subreaper; reap the others.

    Reading the process table is not atomic, so a chain of parents may seem broken. Only ECHILD from
    the kernel proves that no process remains. Skips a process whose last thread hangs in the kernel
    for longer than KILL_SECONDS.
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
    """Return all living descendants of a process, without itself."""
    children: Dict[int, List[Process]] = {}
    for process in list_processes():
        children.setdefault(process.parent, []).append(process)
    found: List[Process] = []
    waiting = [ancestor]
    while waiting:
        # An ended process keeps its children until its last thread is gone.
        below = children.get(waiting.pop(), [])
        found += below
        waiting += [process.id for process in below]
    return [process for process in found if not process.ended]


def list_marked(folder: str) -> List[Process]:
    """Return all living processes, whatever their parent, whose environment has this folder."""
    mark = f"{FOLDER_VARIABLE}={folder}".encode()
    living = (process for process in list_processes() if not process.ended)
    return [process for process in living if mark in _read_environment(process.id)]


def list_leftovers(folder: str) -> List[Process]:
    """Return orphans of an earlier supervisor of this folder, without ourselves.

    Our ancestors may also have the folder in their environment, such as a container's shell or
    the process that detached us. They are left out.
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
    """Return a run's orphans and their descendants; this process must be their subreaper.

    Leaves out wandb-core and its children, which deliver the run's data.
    """
    own = [process for process in list_processes() if process.parent == os.getpid()]
    orphans = [p for p in own if not p.ended and read_variable(p.id, RUN_VARIABLE) == run_id]
    found = orphans + [below for orphan in orphans for below in list_descendants(orphan.id)]
    cores = {process.id for process in found if is_core(process)}
    return [process for process in found if not cores & {process.id, process.parent}]


def list_cores(run_id: str) -> List[int]:
    """Return the living wandb-core processes, which record and deliver what a run logs.

    Leaves out the agent's own, whose environment also names the last run.
    """
    living = [process for process in list_processes() if not process.ended]
    agents = {process.id for process in living if is_agent(process)}
    cores = [p.id for p in living if p.parent not in agents and is_core(p)]
    return [core for core in cores if read_variable(core, RUN_VARIABLE) == run_id]


def is_core(process: Process) -> bool:
    """Return True for wandb-core, which talks to the server for the process that started it."""
    return b"".join(_read_words(process.id, "cmdline")[:1]).endswith(b"/wandb-core")


def describe_process(process_id: int, said: str) -> str:
    """Return a sentence on a process with its command line and folder; empty if it is gone."""
    words = [word.decode(errors="replace") for word in _read_words(process_id, "cmdline") if word]
    with contextlib.suppress(OSError):
        return f"`{' '.join(words)}` {said} in {os.readlink(f'/proc/{process_id}/cwd')}"
    return ""


def holds_open(process_id: int, path: str) -> bool:
    folder = f"/proc/{process_id}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                if os.readlink(os.path.join(folder, name)) == path:
                    return True
    return False


def read_variable(process_id: int, name: str) -> str:
    """Return a variable of another process's environment; empty if unset."""
    start = f"{name}=".encode()
    found = [line for line in _read_environment(process_id) if line.startswith(start)]
    return found[0][len(start) :].decode() if found else ""


def is_agent(process: Process) -> bool:
    """Return True for the `wandb agent` itself, not for its runs and their helpers."""
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
    """End all processes of `find`: interrupt the runs, then send SIGTERM, then SIGKILL.

    An interrupt lets an unmodified trainer deliver all its data and its exit record; SIGTERM would
    not. The runs have the grace time; other processes have TERMINATE_SECONDS of it. Returns
    True if no process remains.
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
    """Return a function that signals each process once, or at every call if `again`."""
    reached: Set[int] = set()

    def send(processes: Sequence[Process]) -> None:
        for process in processes:
            if again or process.id not in reached:
                reached.add(process.id)
                send_signal(process.id, number)

    return send


def send_signal(process_id: int, number: int) -> None:
    """Send a signal to a process, or to a group by its negative id; ignore one that is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process_id, number)


# Child tasks: a forked child of the supervisor makes the network requests. So urllib and ssl never
# stay in the supervisor's memory, and an unresponsive server never delays a signal.


@dataclass(frozen=True)
class ChildTask:
    """A running child and the pipe for its result."""

    process_id: int
    pipe: int


def start_task(work: Callable[[], object], seconds: float) -> ChildTask:
    """Start `work` in a child process, which is killed after `seconds`.

    `work` must return JSON. The child is reaped like every other one.
    """
    receiver, sender = os.pipe()
    child = os.fork()
    if child:
        os.close(sender)
        return ChildTask(child, receiver)
    try:
        os.closerange(3, sender)  # the child must not hold the supervisor's lock
        signal.setitimer(signal.ITIMER_REAL, seconds)
        with os.fdopen(sender, "w", encoding="utf-8") as pipe:
            pipe.write(json.dumps(work()))
    except Exception as error:
        sys.stderr.write(f"deployer: a child task failed: {error!r}\n")
    finally:
        os._exit(0)


def run_task(work: Callable[[], object], seconds: float) -> Any:
    """Run `work` in a child and wait for its result; None on a timeout or failure."""
    task = start_task(work, seconds)
    os.waitpid(task.process_id, 0)
    return read_result(task)


def read_result(task: ChildTask) -> Any:
    """Return the result of an ended task; None if it failed."""
    with os.fdopen(task.pipe, encoding="utf-8") as pipe:
        text = pipe.read()
    return json.loads(text) if text else None


# Signals are blocked and fetched one by one, so that they never interrupt the supervisor's code.
# SIGTERM, SIGINT and SIGHUP stop: they interrupt the run. SIGUSR1 drains: the run may end first.
# The deadline stops, too.


class Signals:
    """Waits for signals and children, and records them.

    `asked_to` is the requested ending. `exit_statuses` are those of children by process id, since
    they were last cleared. `deadline` is in seconds since the epoch.
    """

    def __init__(self, deadline: float = math.inf) -> None:
        self._deadline = deadline
        self.asked_to: Optional[AgentExit] = None
        self.exit_statuses: Dict[int, int] = {}
        self._unawaited: Dict[int, ChildTask] = {}

    @property
    def interrupted(self) -> bool:
        return self.asked_to in (INTERRUPTED, OUT_OF_TIME)

    @property
    def draining(self) -> bool:
        """Return True if asked to exit after the current run."""
        return self.asked_to is DRAINED

    def pause(self, seconds: float) -> None:
        """Wait at most `seconds` for a signal and record its request; reap ended children."""
        signalled = signal.sigtimedwait(WATCHED_SIGNALS, seconds)
        if signalled and signalled.si_signo in STOP_SIGNALS:
            self.asked_to = INTERRUPTED
        elif signalled and signalled.si_signo == DRAIN_SIGNAL:
            self.asked_to = self.asked_to or DRAINED
        if time.time() >= self._deadline and not self.interrupted:
            self.asked_to = OUT_OF_TIME
        ended = reap()
        self.exit_statuses.update(ended)
        for process_id in ended:
            if process_id in self._unawaited:
                read_result(self._unawaited.pop(process_id))

    def find_out(
        self, question: Callable[[], Dict[str, Any]], seconds: float
    ) -> Optional[Dict[str, Any]]:
        """Ask in a child process and wait; a stop or drain request aborts it."""
        self.exit_statuses.clear()  # process ids are reused
        task = start_task(question, seconds)
        while task.process_id not in self.exit_statuses:
            self.pause(TICK_SECONDS)
            if self.asked_to:
                send_signal(task.process_id, signal.SIGKILL)
        result: Optional[Dict[str, Any]] = read_result(task)
        return result

    def send(self, work: Callable[[], object], seconds: float) -> None:
        """Start work in a child process without waiting for it."""
        task = start_task(work, seconds)
        self._unawaited[task.process_id] = task

    def call_off(self) -> None:
        """Kill the children of `send` that are still running."""
        for process_id in self._unawaited:
            send_signal(process_id, signal.SIGKILL)
