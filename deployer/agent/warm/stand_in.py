"""Stands in for `python` on an agent's PATH: asks the warm parent to fork the run.

The parent reads the stand-in's arguments, environment and so on from /proc. The stand-in passes its
streams, forwards signals, and ends like the run. Programs that cannot be warm start as usual. Every
run waits for it, so it imports almost nothing: `-I -S`, and modules written in C.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import _struct
import os
import sys
import time

TYPE_CHECKING = False  # importing typing costs more than all of this
if TYPE_CHECKING:
    from typing import Dict, List, NoReturn, Set, Tuple

    Environment = Dict[str, str]

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # of the agent
SOCKET = "warm.sock"
COLD = "warm.cold"  # why all further runs start cold
OVER = "warm.over"  # exists once the run has ended to start over
STARTING = "warm.starting"  # exists while the parent preloads; a cold run would not import faster
STARTING_SECONDS = 15.0
TICK_SECONDS = 0.02
# A stopped or hanging parent is killed, so that it cannot fork the run later, next to a cold one.
ANSWER_SECONDS = 5.0
LOOK_SECONDS = 1.0
COMMAND_NAME = "warm-python"  # its name in the process table
AGENT_NAME = "wandb-agent"  # as launcher.py names its process
FORWARDED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCONT")
STREAMS = (0, 1, 2)
NO_RUN = "not the run's first program"
EXIT_CODE_FIELD = 49  # the 52nd of /proc/PID/stat, counted from the third; see proc(5)


def main() -> None:
    arguments = sys.argv[1:]
    environment = dict(os.environ)
    path = environment.get("PATH", "").split(os.pathsep)
    environment["PATH"] = os.pathsep.join(one for one in path if one != f"{FOLDER}/bin")
    reason = find_reason(arguments, environment) or read(f"{FOLDER}/{COLD}")
    if reason:
        start_cold(arguments, environment, reason)
    deadline = time.monotonic() + STARTING_SECONDS
    while os.path.exists(f"{FOLDER}/{STARTING}") and time.monotonic() < deadline:
        time.sleep(TICK_SECONDS)
    numbers = [getattr(_signal, name) for name in FORWARDED]
    blocked = _signal.pthread_sigmask(_signal.SIG_BLOCK, numbers)
    note("warm")  # before the run begins, since it may start over
    try:
        connection, process = ask()
    except (OSError, ValueError) as error:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, blocked)
        reason = str(error) if isinstance(error, ValueError) else "no parent yet"
        start_cold(arguments, environment, read(f"{FOLDER}/{COLD}") or reason)
    handlers = {number: _signal.getsignal(number) for number in numbers}
    status = follow(connection, process, numbers, blocked)
    reason = read(f"{FOLDER}/{OVER}")
    if not reason:
        end(status)
    os.unlink(f"{FOLDER}/{OVER}")
    for number, handler in handlers.items():
        _signal.signal(number, handler)
    start_cold(arguments, environment, reason)


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def find_reason(arguments: "List[str]", environment: "Environment") -> str:
    """Return why this start cannot be warm; empty if it can."""
    run_id = environment.get("WANDB_RUN_ID")
    by_agent = read(f"/proc/{os.getppid()}/comm").strip() == AGENT_NAME
    if not run_id or environment.get("DEPLOYER_RUN_PROLOGUE") == run_id or not by_agent:
        return NO_RUN
    rest = arguments[1:] if arguments[:1] == ["-u"] else arguments
    if not rest or rest in (["-m"], ["-c"]):
        return "no program"
    if rest[0] not in ("-m", "-c"):
        if rest[0].startswith("-"):
            return f"option {rest[0]}"
        if not rest[0].endswith(".py") or not os.path.isfile(rest[0]):
            return "not a Python file"
    return "a terminal" if any(map(os.isatty, STREAMS)) else ""


def start_cold(arguments: "List[str]", environment: "Environment", reason: str) -> "NoReturn":
    if environment.get("WANDB_RUN_ID") and reason != NO_RUN:
        note(f"cold: {reason}")
    for folder in environment["PATH"].split(os.pathsep):
        try:
            os.execve(os.path.join(folder, "python"), ["python", *arguments], environment)
        except OSError:
            continue
    sys.stderr.write("python: no such program\n")
    os._exit(127)


def note(start: str) -> None:
    try:
        with open(f"{FOLDER}/start", "w", encoding="utf-8") as file:
            file.write(start)
    except OSError:
        pass


def ask() -> "Tuple[_socket.socket, int]":
    """Ask the parent for a run; return the connection and the run's process id.

    Raises OSError without a parent, ValueError if it refuses or does not answer.
    """
    place = os.open(FOLDER, os.O_RDONLY)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    connection.settimeout(ANSWER_SECONDS)
    # Through /proc, since a socket address has at most 107 bytes.
    connection.connect(f"/proc/self/fd/{place}/{SOCKET}")
    os.close(place)
    streams = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, _struct.pack("3i", *STREAMS))
    try:
        connection.sendmsg([b"run"], [streams])
        kind, _, rest = connection.recv(4096).decode().partition(" ")
    except _socket.timeout as error:
        kill_parent(connection)
        raise ValueError("the parent does not answer") from error
    if kind != "process":
        raise ValueError(rest or "the parent has ended")
    return connection, int(rest)


def kill_parent(connection: "_socket.socket") -> None:
    """Kill the listening parent, and so its runs; the supervisor starts another one."""
    peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    try:
        os.kill(_struct.unpack("3i", peer)[0], _signal.SIGKILL)
    except OSError:
        pass


def follow(
    connection: "_socket.socket", process: int, numbers: "List[int]", blocked: "Set[int]"
) -> int:
    """Forward signals until the run has ended; return its wait status."""
    with open("/proc/self/comm", "w", encoding="utf-8") as file:
        file.write(COMMAND_NAME)

    def forward(number: int, _frame: object) -> None:
        # An interrupt goes to the whole group, like Ctrl-C in a terminal.
        target = -process if number == _signal.SIGINT else process
        try:
            os.kill(target, number)
        except OSError:
            pass

    for number in numbers:
        _signal.signal(number, forward)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, blocked)
    return await_end(connection, process)


def end(status: int) -> "NoReturn":
    number = status & 127
    if not number:
        os._exit(status >> 8)
    import resource

    # End by the run's signal, without a core dump.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in (_signal.SIGKILL, _signal.SIGSTOP):
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def await_end(connection: "_socket.socket", process: int) -> int:
    """Return the run's wait status from its parent, or from /proc if it does not answer."""
    connection.settimeout(LOOK_SECONDS)
    patience = ANSWER_SECONDS
    while True:
        try:
            # If the parent is gone, the kernel has killed the run.
            return int(connection.recv(4096).partition(b" ")[2] or _signal.SIGKILL)
        except _socket.timeout:
            fields = read(f"/proc/{process}/stat").rpartition(")")[2].split()
            patience -= LOOK_SECONDS if fields[:1] in ([], ["Z"]) else 0
            if patience <= 0:
                kill_parent(connection)
                return int(fields[EXIT_CODE_FIELD]) if fields else int(_signal.SIGKILL)


main()
