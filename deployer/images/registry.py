"""Client of an image registry over HTTP: reads and uploads, without docker.

Source: the OCI distribution specification, github.com/opencontainers/distribution-spec/spec.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import urljoin

import requests
from requests.auth import AuthBase, HTTPBasicAuth

from deployer.config.sections.image_reference import Repository
from deployer.images.failures import (
    RegistryLogin,
    build_foreign_login,
    build_refusal,
    translate_failure,
)
from deployer.images.registry_credentials import Credentials
from deployer.waiting import COMMAND, TIMEOUTS_SECONDS, waiting_for

OpenBlob = Callable[[], AbstractContextManager[IO[bytes]]]
# An upload's answer comes once the registry has stored all of it.
UPLOAD_SECONDS = (TIMEOUTS_SECONDS[0], 1800.0)
MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
PARAMETER = re.compile(r'(\w+)="([^"]*)"')


class NoLogin(AuthBase):
    """Sends no login, and keeps requests from looking into netrc for one."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


class Bearer(AuthBase):
    """Sends the token that the registry's own token server gave."""

    def __init__(self, token: str) -> None:
        self.token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self.token}"
        return request


@dataclass(frozen=True)
class Manifest:
    """An image in a registry: its digest, and what its layers take there, packed.

    `config` is the digest of its configuration; of several platforms' images it is empty, and
    `parts` are theirs.
    """

    digest: str
    size_bytes: int
    config: str = ""
    parts: tuple[str, ...] = ()


class Registry:
    """One repository of a registry. Every failure is an ImageError with a remedy."""

    def __init__(
        self, repository: Repository, credentials: Credentials, ca: str = "", plain: bool = False
    ) -> None:
        self.repository = repository
        self._credentials = credentials
        scheme = "http" if plain else "https"
        self._base = f"{scheme}://{repository.api_host}/v2/{repository.path}/"
        self._login = RegistryLogin(repository, credentials.source, credentials.user)
        self._verify: bool | str = ca or True
        self._session = requests.Session()
        self._auth: AuthBase = NoLogin()

    def get_manifest(self, tag: str) -> Manifest | None:
        """Return the image of a tag or digest; None if there is none."""
        headers = {"Accept": ", ".join(MANIFEST_TYPES)}
        answer = self._send("GET", f"manifests/{tag}", headers=headers)
        if answer.status_code == 404 and not self._is_missing_repository(answer):
            return None
        self._check(answer, "read from")
        content = answer.json()
        parts = [*content.get("layers", []), content.get("config", {})]
        digest = f"sha256:{hashlib.sha256(answer.content).hexdigest()}"
        size = sum(part.get("size", 0) for part in parts)
        # Attestations are for a platform called unknown.
        others = (
            one["digest"]
            for one in content.get("manifests", [])
            if one.get("platform", {}).get("os") != "unknown"
        )
        return Manifest(digest, size, content.get("config", {}).get("digest", ""), tuple(others))

    def get_labels(self, manifest: Manifest) -> dict[str, str]:
        """Return an image's labels; those of the first one where it has several platforms."""
        found: Manifest | None = manifest
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
        """Tell whether the repository has a layer already."""
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
        """Send one request; log in when the registry asks for it, and send it once more."""
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
        """Return True for the registry's own host, which alone gets the login."""
        return not self._session.should_strip_auth(self._base, url)  # type: ignore[no-untyped-call]

    def _log_in(self, challenge: str) -> bool:
        """Log in as the registry asks; return whether there is anything new to try."""
        before, kind = self._auth, challenge.partition(" ")[0].lower()
        if kind == "basic" and self._credentials:
            self._auth = HTTPBasicAuth(self._credentials.user, self._credentials.password)
            return not isinstance(before, HTTPBasicAuth)
        if kind == "bearer":
            self._auth = Bearer(self._get_token(dict(PARAMETER.findall(challenge))))
            return True
        return False

    def _get_token(self, asked: Mapping[str, str]) -> str:
        """Return the token of the server that a registry names.

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
        """Tell whether Google lacks the repository, which others make at the first push."""
        return self.repository.is_artifact_registry and "NAME_UNKNOWN" in answer.text
