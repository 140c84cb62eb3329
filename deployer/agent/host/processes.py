"""Processes of this host: started, followed by their session, signalled, ended."""

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
TERMINATE_SECONDS = 5.0  # between SIGTERM and SIGKILL, for whatever ignored the interrupt
KILL_SECONDS = 10.0  # a process in an uninterruptible system call can outlast SIGKILL
POLL_SECONDS = 0.1
RUN_VARIABLE = "WANDB_RUN_ID"
AGENT_NAME = "wandb-agent"  # as launcher.py names its process
WRAPPER_NAME = "metrics-wrapper"  # as metric_wrapper.py names its own
# Python ignores these two, and a shell's `&` the third; a child would inherit that.
RESTORED_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT)
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
DRAIN_SIGNAL = signal.SIGUSR1
WATCHED_SIGNALS = {*STOP_SIGNALS, DRAIN_SIGNAL, signal.SIGCHLD}
TICK_SECONDS = 0.5
DRAINED = AgentExit(FINISHED, "drained: its last run has ended")
INTERRUPTED = AgentExit(STOPPED, "asked to stop")
# With 0, so that a Job is complete and starts no other agent.
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


# A child task: network requests, made in a forked child of the supervisor. So urllib and ssl never
# stay in the supervisor's memory, and a hanging server never delays a signal.


@dataclass(frozen=True)
class ChildTask:
    """A child at work, and the pipe into which it writes its result."""

    process_id: int
    pipe: int


def start_task(work: Callable[[], object], seconds: float) -> ChildTask:
    """Start `work` in a child that ends after so many seconds at the latest.

    What it returns must be JSON; the child is reaped like every other one.
    """
    receiver, sender = os.pipe()
    child = os.fork()
    if child:
        os.close(sender)
        return ChildTask(child, receiver)
    try:
        os.closerange(3, sender)  # the supervisor's lock must not live on in here
        signal.setitimer(signal.ITIMER_REAL, seconds)
        with os.fdopen(sender, "w", encoding="utf-8") as pipe:
            pipe.write(json.dumps(work()))
    except Exception as error:
        sys.stderr.write(f"deployer: a child task failed: {error!r}\n")
    finally:
        os._exit(0)


def run_task(work: Callable[[], object], seconds: float) -> Any:
    """Do `work` in a child and wait for its result; None if it took too long or failed."""
    task = start_task(work, seconds)
    os.waitpid(task.process_id, 0)
    return read_result(task)


def read_result(task: ChildTask) -> Any:
    """Return the result of a task whose child has ended; None if it failed."""
    with os.fdopen(task.pipe, encoding="utf-8") as pipe:
        text = pipe.read()
    return json.loads(text) if text else None


# Waits for signals and children, and notes what the supervisor is asked to do. Signals are blocked
# and fetched one by one, so that nothing is ever interrupted: SIGTERM and SIGINT stop (the run is
# interrupted), SIGUSR1 drains (the run may end first). A deadline stops, too.


class Signals:
    """What has happened so far.

    `asked_to` is the ending that somebody wants; `exit_statuses` are those of children by process
    id, since they were cleared last. `deadline` is in seconds since the epoch.
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
        """Return whether we are asked to leave after the run."""
        return self.asked_to is DRAINED

    def pause(self, seconds: float) -> None:
        """Wait for a signal, at most so long, and note what it asks; reap what has ended."""
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
        """Ask in a child process and wait; broken off as soon as somebody asks us to leave."""
        self.exit_statuses.clear()  # process ids come round again
        task = start_task(question, seconds)
        while task.process_id not in self.exit_statuses:
            self.pause(TICK_SECONDS)
            if self.asked_to:
                send_signal(task.process_id, signal.SIGKILL)
        result: Optional[Dict[str, Any]] = read_result(task)
        return result

    def send(self, work: Callable[[], object], seconds: float) -> None:
        """Have work done in a child process while we go on."""
        task = start_task(work, seconds)
        self._unawaited[task.process_id] = task

    def call_off(self) -> None:
        """Break off whatever was sent and goes on."""
        for process_id in self._unawaited:
            send_signal(process_id, signal.SIGKILL)
