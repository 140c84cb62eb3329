"""What a pod adds to its supervisors: their Python on PATH, the project's code, draining.

A process in a pod cannot be sent a signal, but annotations of the pod appear in a file.
"""

import contextlib
import glob
import io
import os
import shutil
import signal
import sys
import threading
import time
from typing import Mapping, MutableMapping

from .__main__ import main as supervise
from .host.signals import DRAIN_SIGNAL, WATCHED_SIGNALS
from .pack import NAMES_VARIABLE, Member, build_environment, run_pack
from .settings import AGENTS_FOLDER_VARIABLE

ARCHIVE_VARIABLE = "DEPLOYER_CODE_ARCHIVE"
CODE_VARIABLE = "DEPLOYER_CODE_FOLDER"
ANNOTATIONS_VARIABLE = "DEPLOYER_POD_ANNOTATIONS"
DRAIN_KEY = "deployer.dev/drain"  # with a number behind it, of one of several agents
POLL_SECONDS = 1.0


def main() -> int:
    """Run the supervisor of each agent of a pod; returns the pod's exit code."""
    lead_to_python(os.environ)
    enter_code(os.environ)
    names = os.environ.pop(NAMES_VARIABLE, "").split()
    if not names:
        return run_agent(DRAIN_KEY)
    return run_pack(names, os.environ[AGENTS_FOLDER_VARIABLE], run_member)


def run_member(member: Member) -> int:
    """Run one supervisor of several."""
    os.environ.update(build_environment(member, os.environ))
    return run_agent(f"{DRAIN_KEY}-{member.number}")


def run_agent(drain_key: str) -> int:
    """Run one supervisor, which leaves when its pod is annotated with the key."""
    annotations = os.environ.get(ANNOTATIONS_VARIABLE)
    if annotations:
        # Before the thread starts, so that it never takes a signal from the supervisor.
        signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED_SIGNALS)
        given = (annotations, drain_key)
        threading.Thread(target=await_drain, args=given, daemon=True).start()
    return supervise()


def lead_to_python(environment: MutableMapping[str, str]) -> None:
    """Make `python`, which sweeps start their trainer with, the Python that runs us.

    An image may have `python3` alone, or one of a virtual environment that PATH does not know.
    """
    path = environment.get("PATH", os.defpath)
    folder = os.path.dirname(sys.executable)
    found = shutil.which("python", path=path)
    if found and os.path.realpath(os.path.dirname(found)) == os.path.realpath(folder):
        return
    if not os.path.exists(os.path.join(folder, "python")):
        # Never so in a virtual environment, which would not know itself behind a link.
        folder = os.path.join(environment["HOME"], "bin")
        os.makedirs(folder, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # the container was started again
            os.symlink(sys.executable, os.path.join(folder, "python"))
    environment["PATH"] = os.pathsep.join([folder, path])


def enter_code(environment: Mapping[str, str]) -> None:
    """Unpack the project's code and make it the working folder, where there is an archive."""
    archive = environment.get(ARCHIVE_VARIABLE)
    packed = read_archive(archive) if archive else b""
    if not packed:
        return
    import tarfile

    folder = environment[CODE_VARIABLE]
    os.makedirs(folder, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(packed)) as code:
        # Older Pythons have no filters; the archive is the project's own either way.
        if hasattr(tarfile, "tar_filter"):
            code.extractall(folder, filter="tar")
        else:
            code.extractall(folder)
    os.chdir(folder)


def read_archive(path: str) -> bytes:
    """Return the archive at `path`; empty if there is none.

    A ConfigMap holds only so much: the parts of a larger one lie at `path`.00, `path`.01 and so on.
    """
    whole = os.path.exists(path)
    files = [path] if whole else sorted(glob.glob(glob.escape(path) + ".[0-9][0-9]"))
    contents = []
    for name in files:
        with open(name, "rb") as file:
            contents.append(file.read())
    return b"".join(contents)


def await_drain(annotations: str, key: str = DRAIN_KEY) -> None:
    """Wait until the pod's annotations ask this agent to leave after its run, and pass it on."""
    while not is_draining(annotations, key):
        time.sleep(POLL_SECONDS)
    os.kill(os.getpid(), DRAIN_SIGNAL)


def is_draining(annotations: str, key: str) -> bool:
    """Tell whether the annotations ask the agent of this key to drain."""
    try:
        with open(annotations, "rb", buffering=0) as file:
            return f'{key}="true"'.encode() in file.read().splitlines()
    except OSError:
        return False
