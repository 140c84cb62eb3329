"""The login for a registry: from the environment, from Google, or as `docker login` left it.

A password is never an argument of a program, nor part of a message: tools get a file of mode 0600.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deployer.config.sections.image_reference import DOCKER_HUB, Repository
from deployer.errors import CloudError, ImageError
from deployer.images.scratch import open_scratch
from deployer.waiting import run_program

USER, PASSWORD, TOKEN = (
    "DEPLOYER_REGISTRY_USER",
    "DEPLOYER_REGISTRY_PASSWORD",
    "DEPLOYER_REGISTRY_TOKEN",
)
# What Google calls whoever brings a token; other registries take any name beside one.
TOKEN_USER = "oauth2accesstoken"
DOCKER_HUB_KEY = "https://index.docker.io/v1/"
HELPER_SECONDS = 30.0


@dataclass(frozen=True)
class Credentials:
    """A login; `source` says where it was found. Without a user there is none."""

    user: str = ""
    password: str = field(default="", repr=False)
    source: str = "nobody"

    def __bool__(self) -> bool:
        return bool(self.user)


def find_credentials(repository: Repository, environment: Mapping[str, str]) -> Credentials:
    """Return the login for a registry: the environment counts most, then Google's, then docker's.

    Raises ImageError if half of a login is given; CloudError if there are no Google credentials.
    """
    if found := _read_environment(environment):
        return found
    configured = _read_docker_config(repository.host, environment)
    if not repository.is_google:
        return configured
    from deployer.gke.api.token import get_access_token

    try:
        return Credentials(TOKEN_USER, get_access_token(), "Google's application credentials")
    except CloudError:
        if configured:
            return configured
        raise


@contextmanager
def write_auth_file(
    credentials: Credentials, host: str, environment: Mapping[str, str]
) -> Iterator[Path]:
    """Give a folder with a `config.json` for docker, podman and buildah, and remove it again."""
    with open_scratch() as folder:
        given = _load_json(_docker_folder(environment) / "config.json")
        pair = base64.b64encode(f"{credentials.user}:{credentials.password}".encode()).decode()
        key = DOCKER_HUB_KEY if host == DOCKER_HUB else host
        content: dict[str, Any] = {"auths": {key: {"auth": pair}}}
        # docker looks here, too, for the daemon that it shall talk to.
        if "currentContext" in given:
            content["currentContext"] = given["currentContext"]
        for name in ("contexts", "cli-plugins"):
            if (_docker_folder(environment) / name).is_dir():
                (folder / name).symlink_to(_docker_folder(environment) / name)
        file = folder / "config.json"
        file.touch(0o600)
        file.write_text(json.dumps(content))
        yield folder


def _read_environment(environment: Mapping[str, str]) -> Credentials | None:
    user, password, token = (environment.get(name, "") for name in (USER, PASSWORD, TOKEN))
    if token:
        return Credentials(user or TOKEN_USER, token, TOKEN)
    if bool(user) != bool(password):
        missing, given = (PASSWORD, USER) if user else (USER, PASSWORD)
        raise ImageError(f"{given} is set and {missing} is not", f"export {missing}=…")
    return Credentials(user, password, USER) if user else None


def _read_docker_config(host: str, environment: Mapping[str, str]) -> Credentials:
    """Return what `docker login` or `podman login` left for a registry."""
    key = DOCKER_HUB_KEY if host == DOCKER_HUB else host
    for path in _list_config_files(environment):
        content = _load_json(path)
        helper = content.get("credHelpers", {}).get(host) or content.get("credsStore")
        found = _ask_helper(helper, key) if helper else None
        found = found or _decode(content.get("auths", {}).get(key, {}).get("auth", ""))
        if found:
            return Credentials(*found, str(path))
    return Credentials()


def _list_config_files(environment: Mapping[str, str]) -> list[Path]:
    podman = [environment.get("REGISTRY_AUTH_FILE", "")]
    if runtime := environment.get("XDG_RUNTIME_DIR"):
        podman.append(f"{runtime}/containers/auth.json")
    return [*(Path(one) for one in podman if one), _docker_folder(environment) / "config.json"]


def _docker_folder(environment: Mapping[str, str]) -> Path:
    home = environment.get("HOME") or os.path.expanduser("~")
    return Path(environment.get("DOCKER_CONFIG") or Path(home) / ".docker")


def _load_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ImageError(f"{path}: cannot be read: {error}", "docker login writes it") from error
    return content if isinstance(content, dict) else {}


def _ask_helper(helper: str, key: str) -> tuple[str, str] | None:
    """Ask a program of docker's for a login; None where it has none or is not there.

    Source: github.com/docker/docker-credential-helpers.
    """
    try:
        program = f"docker-credential-{helper}"
        answer = run_program([program, "get"], HELPER_SECONDS, f"`{program} get`", key.encode())
        answer.check_returncode()
        found = json.loads(answer.stdout)
        return found["Username"], found["Secret"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return None


def _decode(pair: str) -> tuple[str, str] | None:
    try:
        user, colon, password = base64.b64decode(pair).decode().rstrip("\0").partition(":")
    except ValueError:
        return None
    return (user, password) if colon and user else None
