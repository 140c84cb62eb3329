"""The main program of a pod: one supervisor, or several in parallel.

Nothing outside can send a signal to a process in a pod, but annotations of the pod appear in a
file.
"""

from __future__ import annotations

import contextlib
import glob
import io
import os
import select
import shutil
import signal
import sys
import threading
import time
from typing import Callable, Dict, List, Mapping, MutableMapping, Optional

from .__main__ import main as supervise
from .environment import count_cpus, divide
from .exit_codes import FAILED, FINISHED, GAVE_UP, MISCONFIGURED, STOPPED
from .host.processes import DRAIN_SIGNAL, STOP_SIGNALS, WATCHED_SIGNALS, reap, send_signal
from .settings import (
    AGENTS_FOLDER_VARIABLE,
    KEY_FILE_VARIABLE,
    KEY_VARIABLE,
    LAST_WORDS_VARIABLE,
    NAME_VARIABLE,
)

NAMES_VARIABLE = "DEPLOYER_AGENTS"  # of all agents of the pod, separated by spaces
RESTARTS = 6  # as many as a Job's backoffLimit
BACKOFF_SECONDS = 10.0  # before the second restart; the first is immediate, later delays double
FINAL_CODES = (FINISHED, GAVE_UP, MISCONFIGURED, STOPPED)
# The Job's reactions, in this order: restart the pod, give it up, count a failure.
GRAVEST_FIRST = (STOPPED, MISCONFIGURED, GAVE_UP)
MESSAGE_BYTES = 4096  # what a kubelet reads of a termination log
CHUNK_BYTES = 1 << 16
TICK_SECONDS = 0.2
ARCHIVE_VARIABLE = "DEPLOYER_CODE_ARCHIVE"
CODE_VARIABLE = "DEPLOYER_CODE_FOLDER"
ANNOTATIONS_VARIABLE = "DEPLOYER_POD_ANNOTATIONS"
DRAIN_KEY = "deployer.dev/drain"  # followed by a number for one of several agents
POLL_SECONDS = 1.0


# Several agents in one pod: each has a supervisor in its own child process. A failed one is
# restarted without affecting the others, as if each had its own Job. The pod ends when all have
# ended.


class Member:
    """One agent of a pack, its supervisor's process and output; `number` starts at 1."""

    def __init__(self, number: int, name: str, folder: str) -> None:
        self.number = number
        self.name = name
        self.folder = folder
        self.process = 0
        self.pipe = -1
        self.exit_code: Optional[int] = None
        self.restarts = 0
        self.starts_at = 0.0
        self._rest = b""

    @property
    def last_words_path(self) -> str:
        """Path of the file where its supervisor writes why it ended."""
        return os.path.join(self.folder, "last-words")

    @property
    def ended(self) -> bool:
        return self.exit_code is not None

    def pass_on(self) -> bool:
        """Forward the supervisor's output, each line prefixed with the agent's name.

        Return True if there was any.
        """
        try:
            chunk = os.read(self.pipe, CHUNK_BYTES)
        except BlockingIOError:
            return False
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if not chunk or len(self._rest) > CHUNK_BYTES:
            lines, self._rest = [*lines, *filter(None, [self._rest])], b""
        text = b"".join(b"[%s] %s\n" % (self.name.encode(), line) for line in lines)
        with contextlib.suppress(OSError):  # the reader may be gone
            os.write(1, text)
        return bool(chunk)

    def close(self) -> None:
        """Print the remaining output and close the pipe; orphans may still hold its other end."""
        while self.pass_on():
            pass
        os.close(self.pipe)
        self.process, self.pipe = 0, -1

    def say_end(self) -> str:
        """Return its supervisor's last words, else its exit code."""
        with contextlib.suppress(OSError), open(self.last_words_path, encoding="utf-8") as file:
            words = file.read().strip()
            if words:
                return f"{self.name}: {words}"
        return f"{self.name}: ended with exit code {self.exit_code}: its supervisor was killed"


class Pack:
    """The agents of one pod, each with its folder in `folder`.

    `supervise` runs in a child process of each agent.
    """

    def __init__(self, names: List[str], folder: str, supervise: Callable[[Member], int]) -> None:
        self.members = [
            Member(number, name, os.path.join(folder, name)) for number, name in enumerate(names, 1)
        ]
        self._supervise = supervise
        self._stopping = False

    def run(self) -> int:
        """Run all agents until the last has ended; return the most severe exit code."""
        signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED_SIGNALS)
        while not all(member.ended for member in self.members):
            self._start_missing()
            self._read_output()
            self._pass_on_signal()
            self._note_ends()
        return choose_gravest([member.exit_code or 0 for member in self.members])

    def _start_missing(self) -> None:
        for member in self.members:
            waits = not member.ended and not member.process
            if waits and self._stopping:
                member.exit_code = STOPPED
            elif waits and time.monotonic() >= member.starts_at:
                self._start(member)

    def _start(self, member: Member) -> None:
        with contextlib.suppress(OSError):
            os.unlink(member.last_words_path)
        reader, writer = os.pipe()
        process = os.fork()
        if process:
            os.close(writer)
            os.set_blocking(reader, False)
            member.process, member.pipe = process, reader
            return
        code = FAILED
        try:
            for one in (1, 2):
                os.dup2(writer, one)
            os.closerange(3, writer + 1)
            code = self._supervise(member)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else FAILED
        except BaseException as error:
            sys.stderr.write(f"deployer: the supervisor failed: {error!r}\n")
        finally:
            os._exit(code)

    def _read_output(self) -> None:
        pipes = {member.pipe: member for member in self.members if member.process}
        for pipe in select.select(list(pipes), [], [], TICK_SECONDS)[0]:
            pipes[pipe].pass_on()

    def _pass_on_signal(self) -> None:
        signalled = signal.sigtimedwait(WATCHED_SIGNALS - {signal.SIGCHLD}, 0)
        number = signalled.si_signo if signalled else 0
        self._stopping = self._stopping or number in STOP_SIGNALS
        if number in STOP_SIGNALS or number == DRAIN_SIGNAL:
            for member in self.members:
                if member.process:
                    send_signal(member.process, number)

    def _note_ends(self) -> None:
        ended = reap()
        for member in self.members:
            if member.process in ended:
                status = ended[member.process]
                member.close()
                self._judge(member, status if status >= 0 else 128 - status)

    def _judge(self, member: Member, code: int) -> None:
        """Record an agent's end, or schedule its restart like a Job would."""
        if self._stopping or code in FINAL_CODES or member.restarts >= RESTARTS:
            member.exit_code = code
            return
        delay = BACKOFF_SECONDS * 2 ** (member.restarts - 1) if member.restarts else 0.0
        member.starts_at = time.monotonic() + delay
        member.restarts += 1


def run_pack(names: List[str], folder: str, supervise: Callable[[Member], int]) -> int:
    """Run the agents of a pod, which share its CPUs and its GPU; return the pod's exit code."""
    words_path = os.environ.get(LAST_WORDS_VARIABLE, "")
    for variable, value in divide(count_cpus(), len(names), len(names)).items():
        os.environ.setdefault(variable, value)
    pack = Pack(names, folder, supervise)
    code = pack.run()
    if words_path:
        with contextlib.suppress(OSError), open(words_path, "wb") as file:
            file.write(join_ends([member.say_end() for member in pack.members]))
    return code


def join_ends(ends: List[str]) -> bytes:
    """Return one line for each agent's end, truncated to what a kubelet reads in total."""
    longest = MESSAGE_BYTES // len(ends) - 1
    lines = (" ".join(end.split()).encode()[:longest] for end in ends)
    return b"".join(line + b"\n" for line in lines)


def choose_gravest(codes: List[int]) -> int:
    """Return the exit code that makes the Job react as its agents need; 0 if all have finished.

    A stopped agent has remaining work, so its code takes precedence over failures of others.
    """
    grave = [code for code in GRAVEST_FIRST if code in codes]
    return grave[0] if grave else next((code for code in codes if code), FINISHED)


def build_environment(member: Member, environment: Mapping[str, str]) -> Dict[str, str]:
    """Return an agent's own environment variables: name, key, file for last words."""
    key_file = f"{environment.get(KEY_FILE_VARIABLE, '')}-{member.number}"
    key = ""
    with contextlib.suppress(OSError), open(key_file, encoding="utf-8") as file:
        key = file.read().strip()
    return {
        NAME_VARIABLE: member.name,
        KEY_FILE_VARIABLE: key_file,
        KEY_VARIABLE: key,
        LAST_WORDS_VARIABLE: member.last_words_path,
    }


def main() -> int:
    """Run the supervisor of each agent of a pod; returns the pod's exit code."""
    prepend_python(os.environ)
    enter_code(os.environ)
    names = os.environ.pop(NAMES_VARIABLE, "").split()
    if not names:
        return run_agent(DRAIN_KEY)
    return run_pack(names, os.environ[AGENTS_FOLDER_VARIABLE], run_member)


def run_member(member: Member) -> int:
    os.environ.update(build_environment(member, os.environ))
    return run_agent(f"{DRAIN_KEY}-{member.number}")


def run_agent(drain_key: str) -> int:
    """Run one supervisor, which drains when its pod has an annotation with the key."""
    annotations = os.environ.get(ANNOTATIONS_VARIABLE)
    if annotations:
        # Block before the thread starts, so that it never receives the supervisor's signals.
        signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED_SIGNALS)
        given = (annotations, drain_key)
        threading.Thread(target=await_drain, args=given, daemon=True).start()
    return supervise()


def prepend_python(environment: MutableMapping[str, str]) -> None:
    """Put our Python on PATH as `python`, the command with which sweeps start their trainer.

    An image may have only `python3`, or a virtual environment that is not on PATH.
    """
    path = environment.get("PATH", os.defpath)
    folder = os.path.dirname(sys.executable)
    found = shutil.which("python", path=path)
    if found and os.path.realpath(os.path.dirname(found)) == os.path.realpath(folder):
        return
    if not os.path.exists(os.path.join(folder, "python")):
        # A virtual environment always has `python`; a link to it would not be recognized as one.
        folder = os.path.join(environment["HOME"], "bin")
        os.makedirs(folder, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # the container was restarted
            os.symlink(sys.executable, os.path.join(folder, "python"))
    environment["PATH"] = os.pathsep.join([folder, path])


def enter_code(environment: Mapping[str, str]) -> None:
    """Unpack the project's code, if there is an archive, and make it the working folder."""
    archive = environment.get(ARCHIVE_VARIABLE)
    packed = read_archive(archive) if archive else b""
    if not packed:
        return
    import tarfile

    folder = environment[CODE_VARIABLE]
    os.makedirs(folder, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(packed)) as code:
        # Older Pythons have no filters; the archive is trusted anyway.
        if hasattr(tarfile, "tar_filter"):
            code.extractall(folder, filter="tar")
        else:
            code.extractall(folder)
    os.chdir(folder)


def read_archive(path: str) -> bytes:
    """Return the archive at `path`; empty if there is none.

    A ConfigMap has a size limit: a larger archive is split into `path`.00, `path`.01 and so on.
    """
    whole = os.path.exists(path)
    files = [path] if whole else sorted(glob.glob(glob.escape(path) + ".[0-9][0-9]"))
    contents = []
    for name in files:
        with open(name, "rb") as file:
            contents.append(file.read())
    return b"".join(contents)


def await_drain(annotations: str, key: str = DRAIN_KEY) -> None:
    """Wait until an annotation of the pod asks this agent to drain, then send the signal."""
    while not is_draining(annotations, key):
        time.sleep(POLL_SECONDS)
    os.kill(os.getpid(), DRAIN_SIGNAL)


def is_draining(annotations: str, key: str) -> bool:
    try:
        with open(annotations, "rb", buffering=0) as file:
            return f'{key}="true"'.encode() in file.read().splitlines()
    except OSError:
        return False
