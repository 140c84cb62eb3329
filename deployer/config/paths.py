"""The paths in the local state folder."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from deployer.errors import ConfigError

# The target of `results get` in a project, which is not part of its code.
RESULTS = "results"


def home() -> Path:
    """Return the state folder (`DEPLOYER_HOME`, else the platform's), created with mode 0700.

    Raises ConfigError if it cannot be created.
    """
    chosen = os.environ.get("DEPLOYER_HOME")
    path = Path(chosen).expanduser() if chosen else Path(platformdirs.user_data_dir("deployer"))
    if not path.is_absolute():  # else each working folder would have its own backend
        hint = f'export DEPLOYER_HOME="$PWD/{chosen}"'
        raise ConfigError("DEPLOYER_HOME", f"{chosen} is a relative path", hint)
    try:
        path.mkdir(parents=True, mode=0o700)
    except OSError as error:
        if not path.is_dir():  # an existing folder keeps its mode
            raise _refuse(path, error.strerror or str(error)) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise _refuse(path, "is not writable")
    return path.resolve()


def _refuse(path: Path, reason: str) -> ConfigError:
    """Return an error that names the variable which determined the folder, by default HOME."""
    names = ("DEPLOYER_HOME", "XDG_DATA_HOME")
    blamed = next((name for name in names if os.environ.get(name)), "HOME")
    hint = "export DEPLOYER_HOME=FOLDER, with a folder that you may write to"
    return ConfigError(blamed, f"{path}: {reason}", hint)


def backend_folder() -> Path:
    return home() / "backend"


def copies_folder() -> Path:
    """Return the folder with copies of backends from deleted clusters, a subfolder for each."""
    return home() / "copies"


def list_copies() -> tuple[Path, ...]:
    return tuple(sorted(path for path in copies_folder().glob("[!.]*") if path.is_dir()))


def agents_folder() -> Path:
    return home() / "agents"


def checkpoints_folder() -> Path:
    return home() / "checkpoints"


def outputs_folder() -> Path:
    """Return the folder in which local runs keep models and other outputs."""
    return home() / "outputs"


def code_folder() -> Path:
    """Return the folder with copies of git repositories, and checkouts of their commits."""
    return home() / "code"


def data_folder() -> Path:
    return home() / "data"


def sweeps_folder() -> Path:
    return home() / "sweeps"


def find_packaged(name: str) -> Path:
    """Return a folder such as k8s or infra/gke: inside the installed package, else next to it."""
    package = Path(__file__).parents[1]
    inside = package / name
    return inside if inside.is_dir() else package.parent / name
