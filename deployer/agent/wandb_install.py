"""Installs wandb and its requirements if the image's Python lacks it (option `install_wandb`).

Its version is pinned, pip chooses the others. The folder is deleted with the pod. A package of the
image is kept if wandb accepts its version, so that runs keep their packages.
"""

import fcntl
import importlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from typing import Callable, Iterator, List, MutableMapping, Optional

from .exit_codes import MISCONFIGURED, AgentExit
from .host.processes import WATCHED_SIGNALS, Signals

PIN = "wandb==0.31.0"  # as in uv.lock
INSTALL_VARIABLE = "DEPLOYER_INSTALL_WANDB"  # `1` to install it
FOLDER = "wandb-packages"  # in the pod's home
OLDEST_PYTHON = (3, 10)  # supported by this wandb
SECONDS = 900.0
DEFAULT_INDEX = "https://pypi.org/simple"
PATIENCE = {"PIP_RETRIES": "2", "PIP_DEFAULT_TIMEOUT": "20"}
# An image may set these for its own packages; they would affect our installation.
NOT_PASSED = (
    *("PIP_CONSTRAINT", "PIP_NO_BINARY", "PIP_NO_DEPS", "PIP_PRE", "PIP_PREFIX"),
    *("PIP_REQUIRE_HASHES", "PIP_REQUIRE_VIRTUALENV", "PIP_TARGET", "PIP_USER"),
)
# The most specific first: a refused connection, an index without TLS, pip's last message.
_REASONS = (
    re.compile(r"connection broken by '(?:\w+\('?<[^>]*>: )?(.*?)'?\)?': \S+$", re.MULTILINE),
    re.compile(r"^WARNING: (The repository located at .*? is not a trusted .*?host)", re.MULTILINE),
    re.compile(r"^ERROR: (.*)", re.MULTILINE),
)
_LOGIN = re.compile(r"//[^/@\s]*@")


def has_wandb() -> bool:
    # A folder of run logs named `wandb` looks like a package without an __init__ file.
    spec = importlib.util.find_spec("wandb")
    return spec is not None and spec.origin is not None


def get_wandb_version() -> str:
    return _get_version("wandb") or ""


def ensure_wandb(
    environment: MutableMapping[str, str], signals: Signals, say: Callable[[str], None]
) -> Optional[AgentExit]:
    """Install wandb if INSTALL_VARIABLE is set and it is missing, and put it on PYTHONPATH.

    Agents of one pod share the folder; the first one installs. Returns an ending if it failed.
    """
    if not environment.get(INSTALL_VARIABLE) or has_wandb():
        return None
    folder = os.path.join(environment["HOME"], FOLDER)
    if not os.path.isdir(folder):
        say(f"installing {PIN}, which {sys.executable} lacks")
    found = signals.find_out(lambda: {"failed": _install(folder)}, SECONDS)
    if signals.asked_to:
        return signals.asked_to
    failed = f"it took longer than {SECONDS:.0f} s" if found is None else found["failed"]
    if failed:
        image = f"`FROM IMAGE` and `RUN python3 -m pip install {PIN}`"
        said = f"{PIN} cannot be installed: {failed}; instead, build an image from {image}"
        return AgentExit(MISCONFIGURED, said)
    sys.path.append(folder)
    importlib.invalidate_caches()
    own_path = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join([folder, own_path] if own_path else [folder])
    return None


def _install(folder: str) -> str:
    """Create the folder unless it exists; return an error or "". Runs in a child task."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED_SIGNALS)
    found = f"{sys.executable} is Python {sys.version.split()[0]}"
    if sys.version_info < OLDEST_PYTHON:
        return f"it needs Python {'.'.join(map(str, OLDEST_PYTHON))}, and {found}"
    with open(f"{folder}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.isdir(folder):
            return ""
        if not _find_pip():
            return f"{found} with neither pip nor ensurepip"
        wheels, new = f"{folder}.wheels", f"{folder}.new"
        for left in (wheels, new):
            shutil.rmtree(left, ignore_errors=True)
            os.mkdir(left)
        for name in NOT_PASSED:
            os.environ.pop(name, None)
        for name, value in PATIENCE.items():
            os.environ.setdefault(name, value)
        os.environ["TMPDIR"] = wheels  # certainly writable and large enough
        failed = _download(wheels) or _unpack(wheels, new)
        shutil.rmtree(wheels, ignore_errors=True)
        if not failed:
            os.rename(new, folder)
        return failed


def _find_pip() -> bool:
    """Return True if pip is available; falls back to the wheel in ensurepip."""
    if importlib.util.find_spec("pip"):
        return True
    ensurepip = importlib.util.find_spec("ensurepip")
    folder = os.path.join(os.path.dirname((ensurepip and ensurepip.origin) or ""), "_bundled")
    names = sorted(os.listdir(folder)) if ensurepip and os.path.isdir(folder) else []
    pips = [os.path.join(folder, name) for name in names if name.startswith("pip-")]
    sys.path.extend(pips)
    os.environ["PYTHONPATH"] = os.pathsep.join([*pips, os.environ.get("PYTHONPATH", "")])
    return bool(pips)


def _download(wheels: str) -> str:
    """Download the wheels of wandb and its requirements; return an error or ""."""
    failed = _run_pip("download", "--only-binary=:all:", "--dest", wheels, PIN)
    if not failed:
        return ""
    index = os.environ.get("PIP_INDEX_URL") or _ask_pip("config", "get", "global.index-url")
    return f"{_hide(index or DEFAULT_INDEX)}: {failed}"


def _unpack(wheels: str, new: str) -> str:
    """Install the wheels that the image needs to the folder `new`; return an error or ""."""
    chosen = choose_wheels(wheels, _get_version)
    return _run_pip("install", "--no-index", "--no-deps", "--no-compile", "--target", new, *chosen)


def _run_pip(*words: str) -> str:
    """Run pip; return its error message, empty on success."""
    quiet = ("--disable-pip-version-check", "--no-input", "--no-cache-dir", "--quiet")
    command = [sys.executable, "-m", "pip", *words, *quiet]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.returncode:
        return ""
    reasons = [said for pattern in _REASONS for said in pattern.findall(done.stderr)]
    last = done.stderr.strip().split("\n")[-1]
    return _hide(reasons[0] if reasons else last or f"pip ended with {done.returncode}")


def _ask_pip(*words: str) -> str:
    """Return the output of pip; empty if it fails."""
    command = [sys.executable, "-m", "pip", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode else done.stdout.strip()


def choose_wheels(folder: str, get_version: Callable[[str], Optional[str]]) -> List[str]:
    """Return the paths of wandb's wheel and of required wheels that the image does not have.

    The image's version of a package may also be too old or too new. `get_version` returns it, None
    if the image lacks the package.
    """
    module = importlib.import_module("pip._vendor.packaging.requirements")
    names = [name for name in os.listdir(folder) if name.endswith(".whl")]
    wheels = {_normalize(name.split("-")[0]): os.path.join(folder, name) for name in names}
    chosen = ["wandb"]
    for package in chosen:  # which grows
        for line in _read_requirements(wheels[package]):
            needed = module.Requirement(line)
            if needed.marker and not needed.marker.evaluate({"extra": ""}):
                continue
            name = _normalize(needed.name)
            has = get_version(name)
            fits = has is not None and needed.specifier.contains(has, prereleases=True)
            if not fits and name not in chosen and name in wheels:
                chosen.append(name)
    return [wheels[name] for name in chosen]


def _read_requirements(wheel: str) -> Iterator[str]:
    from email.parser import Parser
    from zipfile import ZipFile

    with ZipFile(wheel) as archive:
        [name] = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode("utf-8"))
    yield from metadata.get_all("Requires-Dist") or ()


def _get_version(name: str) -> Optional[str]:
    # Imported here, since a supervisor would keep its 3 MB of modules.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _hide(text: str) -> str:
    return _LOGIN.sub("//", text)
