"""Client of an image registry over HTTP, including the search for a login.

Source: the OCI distribution specification, github.com/opencontainers/distribution-spec/spec.md.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import urljoin

import requests
from requests.auth import AuthBase, HTTPBasicAuth

from deployer.config.image_reference import DOCKER_HUB, Repository
from deployer.errors import CloudError, ImageError
from deployer.images.builders import open_scratch
from deployer.images.failures import (
    RegistryLogin,
    build_foreign_login,
    build_refusal,
    translate_failure,
)
from deployer.waiting import COMMAND, TIMEOUTS_SECONDS, run_program, waiting_for

USER, PASSWORD, TOKEN = (
    "DEPLOYER_REGISTRY_USER",
    "DEPLOYER_REGISTRY_PASSWORD",
    "DEPLOYER_REGISTRY_TOKEN",
)
# Google's user name for a token; other registries accept any name with one.
TOKEN_USER = "oauth2accesstoken"
DOCKER_HUB_KEY = "https://index.docker.io/v1/"
HELPER_SECONDS = 30.0
OpenBlob = Callable[[], AbstractContextManager[IO[bytes]]]
# The answer comes only after the registry has stored the whole upload.
UPLOAD_SECONDS = (TIMEOUTS_SECONDS[0], 1800.0)
MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
PARAMETER = re.compile(r'(\w+)="([^"]*)"')


# The login for a registry: from the environment, from Google, or from `docker login`. A password is
# never an argument of a program, nor part of a message: tools get a file of mode 0600.


@dataclass(frozen=True)
class RegistryUser:
    """A login; `source` says where it was found. Without a user there is no login."""

    user: str = ""
    password: str = field(default="", repr=False)
    source: str = "nobody"

    def __bool__(self) -> bool:
        return bool(self.user)


def find_credentials(repository: Repository, environment: Mapping[str, str]) -> RegistryUser:
    """Return the login for a registry: the environment's, else Google's, else docker's.

    Raises ImageError if half of a login is given; CloudError if there are no Google credentials.
    """
    if found := _read_environment(environment):
        return found
    configured = _read_docker_config(repository.host, environment)
    if not repository.is_google:
        return configured
    from deployer.gke.api.credentials import get_access_token

    try:
        return RegistryUser(TOKEN_USER, get_access_token(), "Google's application credentials")
    except CloudError:
        if configured:
            return configured
        raise


@contextmanager
def write_auth_file(
    credentials: RegistryUser, host: str, environment: Mapping[str, str]
) -> Iterator[Path]:
    """Yield a folder with a `config.json` for docker, podman and buildah; remove it again."""
    with open_scratch() as folder:
        given = _load_json(_docker_folder(environment) / "config.json")
        pair = base64.b64encode(f"{credentials.user}:{credentials.password}".encode()).decode()
        key = DOCKER_HUB_KEY if host == DOCKER_HUB else host
        content: dict[str, Any] = {"auths": {key: {"auth": pair}}}
        # docker also reads the daemon's address here.
        if "currentContext" in given:
            content["currentContext"] = given["currentContext"]
        for name in ("contexts", "cli-plugins"):
            if (_docker_folder(environment) / name).is_dir():
                (folder / name).symlink_to(_docker_folder(environment) / name)
        file = folder / "config.json"
        file.touch(0o600)
        file.write_text(json.dumps(content))
        yield folder


def _read_environment(environment: Mapping[str, str]) -> RegistryUser | None:
    user, password, token = (environment.get(name, "") for name in (USER, PASSWORD, TOKEN))
    if token:
        return RegistryUser(user or TOKEN_USER, token, TOKEN)
    if bool(user) != bool(password):
        missing, given = (PASSWORD, USER) if user else (USER, PASSWORD)
        raise ImageError(f"{given} is set and {missing} is not", f"export {missing}=…")
    return RegistryUser(user, password, USER) if user else None


def _read_docker_config(host: str, environment: Mapping[str, str]) -> RegistryUser:
    """Return the login for a registry from `docker login` or `podman login`."""
    key = DOCKER_HUB_KEY if host == DOCKER_HUB else host
    for path in _list_config_files(environment):
        content = _load_json(path)
        helper = content.get("credHelpers", {}).get(host) or content.get("credsStore")
        found = _ask_helper(helper, key) if helper else None
        found = found or _decode(content.get("auths", {}).get(key, {}).get("auth", ""))
        if found:
            return RegistryUser(*found, str(path))
    return RegistryUser()


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
    """Query a docker credential helper for a login; None if it has none or is missing.

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


class NoLogin(AuthBase):
    """Sends no login, and prevents requests from searching netrc for one."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


class Bearer(AuthBase):
    """Sends the token of the registry's own token server."""

    def __init__(self, token: str) -> None:
        self.token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self.token}"
        return request


@dataclass(frozen=True)
class ImageManifest:
    """An image in a registry: its digest, and the compressed size of its layers.

    `config` is the digest of its configuration. For a multi-platform image it is empty, and `parts`
    are the platforms' images.
    """

    digest: str
    size_bytes: int
    config: str = ""
    parts: tuple[str, ...] = ()


class Registry:
    """One repository of a registry. Every failure is an ImageError with a hint."""

    def __init__(
        self, repository: Repository, credentials: RegistryUser, ca: str = "", plain: bool = False
    ) -> None:
        self.repository = repository
        self._credentials = credentials
        scheme = "http" if plain else "https"
        self._base = f"{scheme}://{repository.api_host}/v2/{repository.path}/"
        self._login = RegistryLogin(repository, credentials.source, credentials.user)
        self._verify: bool | str = ca or True
        self._session = requests.Session()
        self._auth: AuthBase = NoLogin()

    def get_manifest(self, tag: str) -> ImageManifest | None:
        """Return the image of a tag or digest; None if it does not exist."""
        headers = {"Accept": ", ".join(MANIFEST_TYPES)}
        answer = self._send("GET", f"manifests/{tag}", headers=headers)
        if answer.status_code == 404 and not self._is_missing_repository(answer):
            return None
        self._check(answer, "read from")
        content = answer.json()
        parts = [*content.get("layers", []), content.get("config", {})]
        digest = f"sha256:{hashlib.sha256(answer.content).hexdigest()}"
        size = sum(part.get("size", 0) for part in parts)
        # Attestations have a platform called unknown.
        others = (
            one["digest"]
            for one in content.get("manifests", [])
            if one.get("platform", {}).get("os") != "unknown"
        )
        return ImageManifest(
            digest, size, content.get("config", {}).get("digest", ""), tuple(others)
        )

    def get_labels(self, manifest: ImageManifest) -> dict[str, str]:
        """Return an image's labels; for several platforms, those of the first one."""
        found: ImageManifest | None = manifest
        if manifest.parts:
            found = self.get_manifest(manifest.parts[0])
        if found is None or not found.config:
            return {}
        answer = self._send("GET", f"blobs/{found.config}")
        self._check(answer, "read from")
        labels = answer.json().get("config", {}).get("Labels") or {}
        return {str(name): str(value) for name, value in labels.items()}

    def check_push(self) -> None:
        """Raise ImageError unless this login may push; called before a long build."""
        upload = self._begin_upload()
        self._send("DELETE", upload)

    def has_blob(self, digest: str) -> bool:
        return self._send("HEAD", f"blobs/{digest}").status_code == 200

    def put_blob(self, digest: str, size_bytes: int, open_blob: OpenBlob) -> None:
        """Upload one layer or configuration in one piece."""
        upload = self._begin_upload()
        with open_blob() as content:
            answer = self._send(
                "PUT",
                upload,
                params={"digest": digest},
                data=content,
                headers={
                    "Content-Type": "application/octet-stream",
                    "Content-Length": str(size_bytes),
                },
                timeout=UPLOAD_SECONDS,
            )
        self._check(answer, "push to")

    def put_manifest(self, tag: str, kind: str, content: bytes) -> None:
        """Point a tag at an image whose layers are uploaded."""
        headers = {"Content-Type": kind}
        answer = self._send("PUT", f"manifests/{tag}", data=content, headers=headers)
        self._check(answer, "push to")

    def _begin_upload(self) -> str:
        answer = self._send("POST", "blobs/uploads/", headers={"Content-Length": "0"})
        self._check(answer, "push to")
        return urljoin(answer.url, answer.headers["Location"])

    def _send(self, method: str, path: str, **options: Any) -> requests.Response:
        """Send one request; if the registry demands a login, log in and retry once."""
        answer = self._send_once(method, path, **options)
        challenge = answer.headers.get("WWW-Authenticate", "")
        if answer.status_code == 401 and self._is_ours(answer.url) and self._log_in(challenge):
            if "data" in options and not isinstance(options["data"], bytes):
                options["data"].seek(0)
            answer = self._send_once(method, path, **options)
        return answer

    def _send_once(self, method: str, path: str, **options: Any) -> requests.Response:
        options.setdefault("timeout", COMMAND.limit(TIMEOUTS_SECONDS))
        url = urljoin(self._base, path)
        auth = self._auth if self._is_ours(url) else NoLogin()
        try:
            with waiting_for(f"the registry {self.repository.host}"):
                return self._session.request(method, url, auth=auth, verify=self._verify, **options)
        except requests.RequestException as error:
            raise translate_failure(error, self._login) from error

    def _is_ours(self, url: str) -> bool:
        """Return True for the registry's own host; only that gets the login."""
        return not self._session.should_strip_auth(self._base, url)  # type: ignore[no-untyped-call]

    def _log_in(self, challenge: str) -> bool:
        """Log in as the registry demands; return True if there is a new login to try."""
        before, kind = self._auth, challenge.partition(" ")[0].lower()
        if kind == "basic" and self._credentials:
            self._auth = HTTPBasicAuth(self._credentials.user, self._credentials.password)
            return not isinstance(before, HTTPBasicAuth)
        if kind == "bearer":
            self._auth = Bearer(self._get_token(dict(PARAMETER.findall(challenge))))
            return True
        return False

    def _get_token(self, asked: Mapping[str, str]) -> str:
        """Return a token from the server that a registry names.

        Source: distribution.github.io/distribution/spec/auth/token.
        """
        login: AuthBase = NoLogin()
        if self._credentials:
            login = HTTPBasicAuth(self._credentials.user, self._credentials.password)
        wanted = {name: asked[name] for name in ("service", "scope") if name in asked}
        try:
            with waiting_for(f"{asked.get('realm', '')}, which logs in to the registry"):
                answer = self._session.get(
                    asked.get("realm", ""),
                    params=wanted,
                    auth=login,
                    verify=self._verify,
                    timeout=TIMEOUTS_SECONDS,
                )
        except requests.RequestException as error:
            raise translate_failure(error, self._login) from error
        if not answer.ok:
            raise build_refusal(answer, "log in to", self._login)
        content = answer.json()
        return str(content.get("token") or content.get("access_token", ""))

    def _check(self, answer: requests.Response, what: str) -> None:
        if answer.status_code == 401 and not self._is_ours(answer.url):
            raise build_foreign_login(answer.url, what, self.repository)
        if not answer.ok:
            raise build_refusal(answer, what, self._login)

    def _is_missing_repository(self, answer: requests.Response) -> bool:
        """Return True if Google lacks the repository, which others create at the first push."""
        return self.repository.is_artifact_registry and "NAME_UNKNOWN" in answer.text
