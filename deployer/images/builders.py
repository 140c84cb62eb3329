"""docker, podman and buildah: selection of a working one, with its arguments and folders."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deployer.config.image import BUILDERS
from deployer.errors import ImageError
from deployer.images.failures import build_tool_failure
from deployer.waiting import read_until_silent, run_program, waiting_for

LOG = logging.getLogger(__name__)

INSTALL = (
    "install docker, podman or buildah: apt-get install buildah, or docs.docker.com/get-docker"
)
# Checks whether the tool works: docker's daemon, the others' storage for images.
PROBES = {
    "docker": ("version", "--format", "{{.Server.Version}}"),
    "podman": ("info", "--format", "{{.Version.Version}}"),
    "buildah": ("info",),
}
PROBE_SECONDS = 15  # for each of the three
ASK_SECONDS = 45  # to describe an image
BUILD_SECONDS = 1800  # without a line of output
BUILD_FLAGS = {
    "docker": ("--progress=plain",),
    "podman": ("--layers",),
    "buildah": ("--layers", "--force-rm"),  # otherwise a failed build leaves containers behind
}
PULL_FLAGS = {"docker": "--pull", "podman": "--pull-always", "buildah": "--pull-always"}
RUNNER = Path(__file__).with_name("tool_runner.py")
KEPT_LINES = 60
LINE_END = re.compile(rb"[\r\n]+")
STEP = re.compile(r"(\[\d+/\d+\] )?STEP \d+/\d+: .*|#\d+ \[.*\d+/\d+\] .*")
STEP_LETTERS = 100
UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
PREFIX = "deployer-scratch-"
UNFINISHED = "deployer-new-"  # not locked yet, so it must not count as abandoned
LOCK = ".lock"


@dataclass(frozen=True)
class Build:
    """An image to build; `secrets` are files for the build that do not end up in the image.

    `anew` fetches the newest base images, and ignores the build cache.
    """

    reference: str
    dockerfile: Path
    context: Path
    platform: str
    arguments: Mapping[str, str]
    labels: Mapping[str, str]
    secrets: Mapping[str, Path] = field(default_factory=dict)
    anew: bool = False


@dataclass(frozen=True)
class LoginFiles:
    """Files with the login and the registry's CA for a tool; None for the tool's defaults."""

    folder: Path | None = None
    ca_folder: Path | None = None
    plain: bool = False


@dataclass(frozen=True)
class Builder:
    """One tool, by the name of its program, and its environment."""

    name: str
    environment: Mapping[str, str] = field(repr=False)

    def build(self, build: Build) -> None:
        """Build and tag an image; log each step. Raises ImageError with the tool's last lines."""
        words = ["build", *BUILD_FLAGS[self.name], "--file", str(build.dockerfile)]
        words += ["--no-cache", PULL_FLAGS[self.name]] if build.anew else []
        words += ["--tag", build.reference, "--platform", build.platform]
        words += [f"--build-arg={name}={value}" for name, value in build.arguments.items()]
        words += [f"--label={name}={value}" for name, value in build.labels.items()]
        words += [f"--secret=id={name},src={path}" for name, path in build.secrets.items()]
        self._run(f"{self.name} cannot build the image", [*words, str(build.context)])

    def has_image(self, reference: str) -> bool:
        return self._inspect(reference).returncode == 0

    def get_labels(self, reference: str) -> dict[str, str]:
        """Return the labels of an image of the tool; empty if unavailable."""
        try:
            found = json.loads(self._inspect(reference).stdout)
            settings = found["OCIv1"]["config"] if self.name == "buildah" else found[0]["Config"]
        except (ValueError, KeyError, IndexError, TypeError):
            return {}
        return dict(settings.get("Labels") or {})

    def get_size(self, reference: str) -> int:
        """Return an image's size on disk in bytes; buildah reports only three digits."""
        if self.name != "buildah":
            return int(self._ask("image", "inspect", "--format", "{{.Size}}", reference).stdout)
        said = self._ask("images", "--format", "{{.Size}}", reference).stdout.decode().split()
        return round(float(said[0]) * UNITS[said[1].upper()])

    def push(self, reference: str, login: LoginFiles, host: str) -> None:
        words = ["push"]
        if self.name != "docker":  # docker's daemon has its own settings for these
            words += [f"--authfile={login.folder}/config.json"] if login.folder else []
            words += [f"--cert-dir={login.ca_folder}"] if login.ca_folder else []
            words += ["--tls-verify=false"] if login.plain else []
        more = {"DOCKER_CONFIG": str(login.folder)} if login.folder else {}
        self._run(f"{self.name} cannot push {reference}", [*words, reference], more, host)

    def save(self, reference: str, path: Path) -> None:
        """Write an image to a file: docker its own archive format, the others OCI's."""
        words = {
            "docker": ["save", "--output", str(path), reference],
            "podman": ["save", "--format=oci-archive", "--output", str(path), reference],
            "buildah": ["push", reference, f"oci-archive:{path}:{reference}"],
        }
        self._run(f"{self.name} cannot save {reference}", words[self.name])

    def _inspect(self, reference: str) -> subprocess.CompletedProcess[bytes]:
        words = ["inspect", "--type", "image"] if self.name == "buildah" else ["image", "inspect"]
        return self._ask(*words, reference)

    def _ask(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        what = f"`{self.name} {words[0]}`"
        try:
            return run_program([self.name, *words], ASK_SECONDS, what, env=self.environment)
        except subprocess.TimeoutExpired as error:
            said = f"{what} did not answer in {ASK_SECONDS} s and was killed"
            raise ImageError(said, f"check `{self.name} {words[0]}` in a shell") from error

    def _run(
        self,
        what: str,
        words: Sequence[str],
        more: Mapping[str, str] | None = None,
        host: str = "",
    ) -> None:
        """Run a command and log its steps; raise ImageError with its last lines if it fails.

        The tool is killed however this process ends, so that it does not continue unobserved.
        """
        kept: deque[str] = deque(maxlen=KEPT_LINES)
        with (
            waiting_for(f"`{self.name} {words[0]}`"),
            subprocess.Popen(
                [sys.executable, "-I", "-S", str(RUNNER), self.name, *words],
                stdin=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C reaches it through us
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**self.environment, "DOCKER_BUILDKIT": "1", **(more or {})},
            ) as process,
        ):
            try:
                for line in _read_lines(process):
                    kept.append(line.rstrip())
                    if STEP.match(line):
                        LOG.info(line.strip()[:STEP_LETTERS])
            except subprocess.TimeoutExpired:
                kept.append(f"error: it printed nothing for {BUILD_SECONDS} s and was killed")
        if process.returncode:
            raise build_tool_failure(what, list(kept), host, self.name == "docker")


def _read_lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    rest = b""
    for _, block in read_until_silent(process, BUILD_SECONDS):
        *lines, rest = LINE_END.split(rest + block)
        yield from (line.decode(errors="replace") for line in lines)
    yield rest.decode(errors="replace")


def choose_builder(wanted: str | None, environment: Mapping[str, str]) -> Builder:
    """Return the requested tool, else the first on PATH that works. Raises ImageError."""
    problems = []
    for name in (wanted,) if wanted else BUILDERS:
        problem = _probe(name, environment)
        if not problem:
            return Builder(name, environment)
        problems.append(f"{name}: {problem}")
    if wanted:
        hint = f"install or start {wanted}, or remove `builder:` from deployer.yaml"
        raise ImageError(f"{wanted} does not work: {problems[0].partition(': ')[2]}", hint)
    raise ImageError(f"no working image builder found ({'; '.join(problems)})", INSTALL)


def _probe(name: str, environment: Mapping[str, str]) -> str:
    """Return why a tool does not work; empty if it does."""
    if not shutil.which(name, path=environment.get("PATH", os.defpath)):
        return "not installed"
    what = f"`{name} {PROBES[name][0]}`"
    try:
        done = run_program([name, *PROBES[name]], PROBE_SECONDS, what, env=environment)
    except subprocess.TimeoutExpired:
        return f"no answer in {PROBE_SECONDS} s"
    if done.returncode == 0:
        return ""
    said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return " ".join(said[-1].split()) if said else f"it exited with {done.returncode}"


# Folders for secrets and contexts of builds. Each holds a locked file while its command is alive.
# If a command was killed, the next one finds the file unlocked and removes the folder.


@contextmanager
def open_scratch() -> Iterator[Path]:
    """Yield an empty folder that only its owner can read, and remove it afterwards."""
    remove_abandoned()
    made = Path(tempfile.mkdtemp(prefix=UNFINISHED))  # mode 0700
    lock = os.open(made / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = made.rename(made.with_name(made.name.replace(UNFINISHED, PREFIX)))
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
    finally:
        os.close(lock)


def remove_abandoned() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            lock = os.open(folder / LOCK, os.O_RDWR)
        except OSError:  # another user's, or being deleted
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # its command is alive
        finally:
            os.close(lock)
