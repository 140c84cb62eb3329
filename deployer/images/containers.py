"""A container of docker, podman or buildah on this machine: its command line and its life."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from deployer.errors import ImageError
from deployer.images.builders import RUNNER, Builder, Tell
from deployer.waiting import run_program

REMOVE_SECONDS = 60
CLEAR_TRIES, CLEAR_SECONDS = 10, 0.5
PULL_SECONDS = 1800
# buildah's containers are for building: what it has no option for, or ignores in its chroot.
WITHOUT_IN_BUILDAH = (
    "buildah sets no limits, no size of /dev/shm, no supplementary group, no read-only root and"
    " no GPU: docker and podman do"
)
SECRETS_PATH = "/deployer/secrets.json"
SET_SECRETS = (
    "import json, os, sys; os.environ.update(json.load(open(sys.argv[1])));"
    " os.execvp(sys.argv[2], sys.argv[2:])"
)
CLEAR = "import shutil, sys; shutil.rmtree(sys.argv[1], ignore_errors=True)"


@dataclass(frozen=True)
class Mount:
    """A folder or file of this machine, seen at `path` in the container."""

    source: Path
    path: str
    read_only: bool = False


@dataclass(frozen=True)
class Container:
    """What a container is started with; the first word of `command` replaces the entrypoint.

    `secrets` are variables whose values stay off the command line; `secrets_file` has them as JSON
    for a tool that takes none from its own environment. `clear` ends what is left of `command`, for
    a tool that gives containers no process ids of their own. `memory_mounts` maps paths to their
    limit in bytes, None for none. `gpus` is how many; -1 for all.
    """

    image: str
    command: tuple[str, ...]
    clear: tuple[str, ...] = ()
    user: str = ""
    group: str = ""
    folder: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets_file: Path | None = None
    mounts: tuple[Mount, ...] = ()
    memory_mounts: Mapping[str, int | None] = field(default_factory=dict)
    shared_memory_bytes: int | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    gpus: int = 0
    dropped: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    no_new_privileges: bool = False
    read_only: bool = False
    host_ipc: bool = False
    always_pull: bool = False


@dataclass(frozen=True)
class Machine:
    """What this machine has for a container; folders and files of volumes are made in `folder`."""

    folder: Path
    name: str
    cpus: int
    memory_bytes: int
    gpus: int
    environment: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class ContainerPlan:
    """A container, the folders and files that its mounts need, and what it lacks, in lines."""

    container: Container
    folders: tuple[Path, ...]
    files: Mapping[Path, bytes] = field(repr=False)
    left_out: tuple[str, ...]

    def make_mounts(self) -> None:
        """Make the folders, in which any user may write as in a pod's, and the files."""
        for folder in self.folders:
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o777)
        for path, content in self.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.parent.chmod(0o777)
            path.write_bytes(content)
            path.chmod(0o644)  # whatever our umask is; others do not get into the folder above


def build_commands(tool: str, name: str, container: Container) -> list[list[str]]:
    """Return the commands that run a container, the last of them in the foreground; pure."""
    if tool == "buildah":
        return _build_buildah(name, container)
    words = [tool, "run", "--rm", "--name", name, "--network", "host"]
    words += ["--pull", "always"] if container.always_pull else []
    words += ["--user", container.user] if container.user else []
    words += ["--group-add", container.group] if container.group else []
    words += _list_capabilities(container)
    words += ["--security-opt", "no-new-privileges"] if container.no_new_privileges else []
    words += ["--security-opt", "label=disable"]  # else SELinux keeps it from our folders
    words += ["--http-proxy=false"] if tool == "podman" else []  # which pods do not get
    words += ["--read-only"] if container.read_only else []
    if tool == "podman" and container.read_only:
        words += ["--read-only-tmpfs=false"]
    words += ["--ipc", "host"] if container.host_ipc else []
    words += _option("--shm-size", container.shared_memory_bytes)
    words += _option("--cpus", container.cpus)
    words += _option("--memory", container.memory_bytes)
    words += _option("--memory-swap", container.memory_bytes)  # pods have no swap
    words += _list_gpus(tool, container.gpus)
    for path, limit in container.memory_mounts.items():
        words += ["--tmpfs", f"{path}:mode=1777{f',size={limit}' if limit else ''}"]
    words += _list_inner(container)
    first, *others = container.command
    return [[*words, "--entrypoint", first, container.image, *others]]


def _build_buildah(name: str, container: Container) -> list[list[str]]:
    pull = "always" if container.always_pull else "false"
    made = ["buildah", "from", "--name", name, f"--pull={pull}", container.image]
    words = ["buildah", "run", "--network", "host"]
    words += ["--user", container.user] if container.user else []
    words += _list_capabilities(container)
    for path in container.memory_mounts:
        words += ["--mount", f"type=tmpfs,destination={path}"]
    command = container.command
    if container.secrets_file:
        words += ["--volume", f"{container.secrets_file}:{SECRETS_PATH}:ro"]
        command = (command[0], "-c", SET_SECRETS, SECRETS_PATH, *command)
    words += _list_inner(replace(container, secrets={}), "--workingdir")
    return [made, [*words, name, "--", *command]]


def _list_inner(container: Container, folder: str = "--workdir") -> list[str]:
    """Return mounts, variables and the working folder; `folder` is the flag of the last."""
    words = []
    for mount in container.mounts:
        words += ["--volume", f"{mount.source}:{mount.path}{':ro' if mount.read_only else ''}"]
    for variable, value in container.environment.items():
        words += ["--env", f"{variable}={value}"]
    for variable in container.secrets:  # their values are in the tool's own environment
        words += ["--env", variable]
    return [*words, *([folder, container.folder] if container.folder else [])]


def _list_capabilities(container: Container) -> list[str]:
    words = [word for one in container.dropped for word in ("--cap-drop", one)]
    return [*words, *(word for one in container.added for word in ("--cap-add", one))]


def _list_gpus(tool: str, count: int) -> list[str]:
    if tool == "docker":
        return ["--gpus", "all" if count < 0 else str(count)] if count else []
    names = ["all"] if count < 0 else [str(number) for number in range(count)]
    return [word for name in names for word in ("--device", f"nvidia.com/gpu={name}")]


def _option(flag: str, value: float | None) -> list[str]:
    return [] if value is None else [flag, f"{value:g}" if isinstance(value, float) else str(value)]


@contextmanager
def running(
    builder: Builder, name: str, container: Container, tell: Tell
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a container for the block and tell its lines; it is removed at the end, whatever happens.

    One that still runs then is asked to end, and killed 5 s later. Raises ImageError if it cannot
    be made.
    """
    environment = {**builder.environment, **container.secrets}
    *before, command = build_commands(builder.name, name, container)
    try:
        for words in before:
            done = run_program(words, PULL_SECONDS, f"`{words[0]} {words[1]}`", env=environment)
            _check(done, container.image)
        with _running(command, environment, tell) as process:
            yield process
    finally:
        _remove(builder, name, container, tell)


@contextmanager
def _running(
    command: Sequence[str], environment: Mapping[str, str], tell: Tell
) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-I", "-S", str(RUNNER), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C reaches it through us
        env=environment,
    ) as process:
        reader = threading.Thread(target=_read, args=(process, tell), daemon=True)
        reader.start()
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()  # the runner ends the tool, and the tool its container
            process.wait()
            reader.join(REMOVE_SECONDS)


def _read(process: subprocess.Popen[bytes], tell: Tell) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        tell(line.decode(errors="replace").rstrip())


def _check(done: subprocess.CompletedProcess[bytes], image: str) -> None:
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        tool = str(done.args[0])
        last = lines[-1] if lines else f"it ended with {done.returncode}"
        raise ImageError(
            f"{tool} cannot make a container of {image}: {last}", f"{tool} pull {image}"
        )


def _remove(builder: Builder, name: str, container: Container, tell: Tell) -> None:
    """Remove a container that may be gone already, as one with --rm is."""
    commands = [[builder.name, "rm", "--force", "--volumes", name]]
    if builder.name == "buildah":
        clear = build_commands("buildah", name, replace(container, command=container.clear))[1:]
        commands = [*(clear if container.clear else ()), ["buildah", "rm", name]]
    what = f"`{builder.name} rm`"
    for words in commands:
        try:
            done = run_program(words, REMOVE_SECONDS, what, env=builder.environment)
        except subprocess.TimeoutExpired:
            tell(f"warning: {what} does not end; later: {shlex.join(words)}")
            continue
        said = done.stderr.decode(errors="replace").strip().lower()
        if done.returncode and "no such" not in said and "not known" not in said:
            tell(f"warning: the container is not removed: {said}; again: {shlex.join(words)}")


def clear_folder(builder: Builder, image: str, python: str, folder: Path) -> None:
    """Delete a folder in which a container's user wrote, by a container if it needs its rights."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists() and image and builder.name != "buildah":
        inner = Container(
            image,
            (python, "-c", CLEAR, str(folder)),
            user="0",
            mounts=(Mount(folder, str(folder)),),
        )
        [words] = build_commands(builder.name, f"{folder.name}-clear", inner)
        with contextlib.suppress(subprocess.TimeoutExpired):
            run_program(words, REMOVE_SECONDS, f"`{builder.name} run`", env=builder.environment)
    for _ in range(CLEAR_TRIES):  # a process that is just ending may write a last file
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(CLEAR_SECONDS)
