"""Stands in for `python` on an agent's PATH: has a run forked from the warm parent.

It passes on its arguments, environment, working folder, limits and standard streams, forwards
signals, and ends as the run ends. Whatever cannot be warm is started as ever. Every start of a run
waits for it, so it imports next to nothing: `-I -S`, and modules written in C.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import _struct
import marshal
import os
import sys

TYPE_CHECKING = False  # typing's own costs more than all of this
if TYPE_CHECKING:
    from typing import Any, Dict, List, NoReturn, Set, Tuple

    Environment = Dict[str, str]

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # of the agent
SOCKET = "warm.sock"
STARTING = "warm.starting"  # there while the parent imports, which this run would do no sooner
STARTING_SECONDS = 15.0
TICK_SECONDS = 0.02
COMMAND_NAME = "warm-python"  # what it is called in the process table
AGENT_NAME = b"wandb-agent"  # as launcher.py names its process
SO_LENGTH = _struct.Struct("=I")
FORWARDED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCONT")
STREAMS = (0, 1, 2)


def main() -> None:
    """Become the run, as far as anybody can tell."""
    arguments = sys.argv[1:]
    environment = restore(dict(os.environ))
    reason = find_reason(arguments, environment)
    if reason:
        start_cold(arguments, environment, reason)
    wait_for_parent()
    numbers = [getattr(_signal, name) for name in FORWARDED]
    waiting = _signal.pthread_sigmask(_signal.SIG_BLOCK, numbers)
    task = describe(arguments, environment, waiting)
    note("warm")  # before the run begins, which may find that it cannot be
    try:
        connection, process = ask(task)
    except OSError:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, waiting)
        start_cold(arguments, environment, "no parent yet")
    except ValueError as error:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, waiting)
        start_cold(arguments, environment, str(error))
    follow(connection, process, numbers, waiting)


def restore(environment: "Environment") -> "Environment":
    """Return the environment that the run would have without us, but for the list of imports."""
    ours = os.path.join(FOLDER, "bin")
    path = environment.get("PATH", "").split(os.pathsep)
    environment["PATH"] = os.pathsep.join(entry for entry in path if entry != ours)
    return environment


def find_reason(arguments: "List[str]", environment: "Environment") -> str:
    """Return why this start cannot be warm, empty if it can."""
    run_id = environment.get("WANDB_RUN_ID")
    if not run_id or environment.get("DEPLOYER_RUN_PROLOGUE") == run_id or not is_agents():
        return "not the run's first program"
    rest = arguments[1:] if arguments[:1] == ["-u"] else arguments
    if not rest:
        return "no program"
    if rest[0] in ("-m", "-c"):
        return "" if len(rest) > 1 else "no program"
    if rest[0].startswith("-"):
        return f"option {rest[0]}"
    if not rest[0].endswith(".py") or not os.path.isfile(rest[0]):
        return "not a Python file"
    return "a terminal" if any(map(os.isatty, STREAMS)) else ""


def is_agents() -> bool:
    """Tell whether the agent itself has started us, and no script in between."""
    try:
        with open(f"/proc/{os.getppid()}/comm", "rb") as file:
            return file.read().strip() == AGENT_NAME
    except OSError:
        return False


def start_cold(arguments: "List[str]", environment: "Environment", reason: str) -> "NoReturn":
    """Become the Python that would have been started without us."""
    if environment.get("WANDB_RUN_ID") and reason != "not the run's first program":
        note(f"cold: {reason}")
    for folder in environment["PATH"].split(os.pathsep):
        try:
            os.execve(os.path.join(folder, "python"), ["python", *arguments], environment)
        except OSError:
            continue
    sys.stderr.write("python: no such program\n")
    os._exit(127)


def note(start: str) -> None:
    """Write down how this run was started, for the supervisor."""
    try:
        with open(os.path.join(FOLDER, "start"), "w", encoding="utf-8") as file:
            file.write(start)
    except OSError:
        pass


def describe(
    arguments: "List[str]", environment: "Environment", blocked: "Set[int]"
) -> "Dict[str, Any]":
    """Return what the run is to inherit from us."""
    import resource

    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    limits = {name: resource.getrlimit(getattr(resource, name)) for name in names}
    umask = os.umask(0)
    os.umask(umask)
    return {
        "arguments": arguments,
        "environment": environment,
        "folder": os.getcwd(),
        "umask": umask,
        "limits": limits,
        "nice": os.nice(0),
        "affinity": list(os.sched_getaffinity(0)),
        "blocked": [int(number) for number in blocked],
        "ignored": list_ignored(),
    }


def list_ignored() -> "List[int]":
    """Return the signals that are ignored, but for those that Python itself ignores."""
    own = (_signal.SIGPIPE, getattr(_signal, "SIGXFSZ", 0))
    ignored = (n for n in range(1, _signal.NSIG) if n not in own)
    return [n for n in ignored if _signal.getsignal(n) == _signal.SIG_IGN]


def ask(task: "Dict[str, Any]") -> "Tuple[_socket.socket, int]":
    """Send the task to the parent; return the connection and the run's process id."""
    place = os.open(FOLDER, os.O_RDONLY)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    # By way of /proc, since an address holds 107 bytes at most.
    connection.connect(f"/proc/self/fd/{place}/{SOCKET}")
    os.close(place)
    body = marshal.dumps(task)
    streams = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, _struct.pack("3i", *STREAMS))
    connection.sendmsg([SO_LENGTH.pack(len(body))], [streams])
    connection.sendall(body)
    answer = receive(connection)
    if answer is None:
        raise ValueError("the parent has ended")
    if "refused" in answer:
        raise ValueError(answer["refused"])
    return connection, answer["process"]


def wait_for_parent() -> None:
    """Wait while the parent starts."""
    import time

    path = os.path.join(FOLDER, STARTING)
    deadline = time.monotonic() + STARTING_SECONDS
    while os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(TICK_SECONDS)


def receive(connection: "_socket.socket") -> "Any":
    """Return the next message, None if the parent is gone."""
    length = receive_bytes(connection, SO_LENGTH.size)
    body = length and receive_bytes(connection, SO_LENGTH.unpack(length)[0])
    return marshal.loads(body) if body else None


def receive_bytes(connection: "_socket.socket", count: int) -> bytes:
    """Return so many bytes, none if the connection ends before."""
    received = b""
    while len(received) < count:
        chunk = connection.recv(count - len(received))
        if not chunk:
            return b""
        received += chunk
    return received


def follow(
    connection: "_socket.socket", process: int, numbers: "List[int]", waiting: "Set[int]"
) -> None:
    """Forward signals until the run has ended, then end in the same way."""
    with open("/proc/self/comm", "w", encoding="utf-8") as file:
        file.write(COMMAND_NAME)

    def forward(number: int, _frame: object) -> None:
        # An interrupt is meant for the whole group, as that of a terminal.
        target = -process if number == _signal.SIGINT else process
        try:
            os.kill(target, number)
        except OSError:
            pass

    for number in numbers:
        _signal.signal(number, forward)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, waiting)
    ending = receive(connection)
    if ending is None:
        die(_signal.SIGKILL)
    if ending["signal"]:
        die(ending["signal"])
    os._exit(ending["code"])


def die(number: int) -> "NoReturn":
    """End by a signal, as the run did, without a core of our own."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in (_signal.SIGKILL, _signal.SIGSTOP):
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
    os.kill(os.getpid(), number)
    os._exit(128 + number)


main()
