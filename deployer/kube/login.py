"""Logs in to an API server: tokens, certificates and credential plugins, renewed.

Follows client-go (v0.37, `plugin/pkg/client/auth/exec`; November 2026).
"""

from __future__ import annotations

import base64
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import psutil

from deployer.errors import ConfigError
from deployer.kube.kubeconfig import NamedEntry
from deployer.waiting import waiting_for

LOG = logging.getLogger(__name__)

PLUGIN_SECONDS = 30.0
TYPING_SECONDS = 300.0  # for a plugin that prompts on the terminal
RENEWAL_SECONDS = 30.0  # between two runs of a plugin
REREAD_SECONDS = 60.0  # for files, like client-go's token refresh
VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
EXEC_INFO = "KUBERNETES_EXEC_INFO"
LOG_IN = {  # by plugin
    "gke-gcloud-auth-plugin": "gcloud auth login",
    "aws": "aws sso login",
    "kubelogin": "az login",
}
PROVIDERS = {
    "azure": "install kubelogin, then: kubelogin convert-kubeconfig",
    "gcp": "install gke-gcloud-auth-plugin, then: gcloud container clusters get-credentials",
    "oidc": "install kubelogin (kubectl oidc-login), and use it as `exec:`",
}


@dataclass(frozen=True)
class ApiCredentials:
    """Credentials: an Authorization header, a certificate with its key (PEM), or neither."""

    authorization: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    expires_at: float | None = None


class Login(Protocol):
    """Provides current credentials."""

    def get(self) -> ApiCredentials:
        """Return the credentials to use now. Raises ConfigError."""

    def refuse(self, used: ApiCredentials) -> bool:
        """Record that the server refused these; return True if there are new ones."""


class TokenLogin:
    """Requests a token before each request; `get_token` caches it while it is valid."""

    def __init__(self, get_token: Callable[[], str]) -> None:
        self._get_token = get_token

    def get(self) -> ApiCredentials:
        return ApiCredentials(f"Bearer {self._get_token()}")

    def refuse(self, used: ApiCredentials) -> bool:
        return self.get() != used


class FileLogin:
    """Reads the credentials of a kubeconfig or a pod's account; rereads files each minute."""

    def __init__(self, user: NamedEntry) -> None:
        self._user = user
        self._read_at = 0.0
        self._found = ApiCredentials()

    def get(self) -> ApiCredentials:
        if not self._read_at or time.monotonic() - self._read_at > REREAD_SECONDS:
            self._read_again()
        return self._found

    def refuse(self, used: ApiCredentials) -> bool:
        if self._found == used:
            self._read_again()
        return self._found != used

    def _read_again(self) -> None:
        """Reread the files; keep the previous credentials if that fails."""
        try:
            self._found = self._read()
        except ConfigError:
            if not self._read_at:
                raise
        self._read_at = time.monotonic()

    def _read(self) -> ApiCredentials:
        user = self._user
        token = user.get("token")
        if user.get("tokenFile"):
            token = _read(user, "tokenFile").decode(errors="replace").strip()
            if not token:
                raise ConfigError(str(user.file), "tokenFile is empty", "kubectl config view")
        authorization = f"Bearer {token}" if token else ""
        if not token and user.get("username"):
            pair = f"{user.get('username')}:{user.get('password')}"
            authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
        certificate, key = (read_data(user, f"client-{name}") for name in ("certificate", "key"))
        if certificate and not key:
            said = "client-key-data or client-key must be specified beside a client certificate"
            raise ConfigError(str(user.file), said, "kubectl config view")
        return ApiCredentials(authorization, certificate, key)


class PluginLogin:
    """Runs a kubeconfig's credential plugin: once, and again when the credentials expire.

    `cluster` is the cluster info for a plugin that asks for it.
    """

    def __init__(
        self,
        user: NamedEntry,
        cluster: Mapping[str, Any],
        context: str,
        environment: Mapping[str, str],
    ) -> None:
        self._user, self._cluster, self._context = user, cluster, context
        self._environment = environment
        self._found: ApiCredentials | None = None
        self._ran_at = 0.0
        self._lock = threading.Lock()

    def get(self) -> ApiCredentials:
        with self._lock:
            over = self._found and (self._found.expires_at or time.time() + 1) <= time.time()
            if self._found is None or (over and self._may_run()):
                self._run()
            assert self._found
            return self._found

    def refuse(self, used: ApiCredentials) -> bool:
        with self._lock:  # another thread may have renewed them meanwhile
            if self._found == used and self._may_run():
                self._run()
            return self._found != used

    def _may_run(self) -> bool:
        return time.monotonic() - self._ran_at > RENEWAL_SECONDS

    def _run(self) -> None:
        self._found = run_plugin(self._user, self._cluster, self._context, self._environment)
        self._ran_at = time.monotonic()


def build_login(
    user: NamedEntry, cluster: Mapping[str, Any], context: str, environment: Mapping[str, str]
) -> Login:
    """Return the login of a kubeconfig's user. Raises ConfigError."""
    if provider := (user.values.get("auth-provider") or {}):
        name = str(provider.get("name", ""))
        said = f"auth-provider {name} is not supported"
        raise ConfigError(str(user.file), said, PROVIDERS.get(name, "use an `exec:` plugin"))
    own = ("token", "tokenFile", "username", "client-certificate", "client-certificate-data")
    if user.values.get("exec") and not any(user.get(name) for name in own):
        return PluginLogin(user, cluster, context, environment)
    login = FileLogin(user)
    login.get()
    return login


def describe_renewal(files: str, user: NamedEntry) -> str:
    """Return the hint for when a server no longer accepts a kubeconfig's user."""
    if command := (user.values.get("exec") or {}).get("command"):
        name = Path(str(command)).name
        return LOG_IN.get(name, f"log in again: the server refuses the credentials of {command}")
    if file := user.values.get("client-certificate"):
        return f"check if it has expired: openssl x509 -noout -enddate -in {file}"
    if user.get("token").startswith("sha256~"):
        return "oc login"  # OpenShift's tokens end after a day
    if not user.values:
        return f"the user is not in {files}: kubectl config view"
    what = "certificate" if "client-certificate-data" in user.values else "token"
    return f"ask the provider of {files} for a new one: the server refuses its {what}"


def run_plugin(
    user: NamedEntry, cluster: Mapping[str, Any], context: str, environment: Mapping[str, str]
) -> ApiCredentials:
    """Run a kubeconfig's credential plugin, and return its credentials. Raises ConfigError."""
    plugin: Mapping[str, Any] = user.values["exec"]
    version, command = str(plugin.get("apiVersion", "")), str(plugin.get("command", ""))
    files = str(user.file)
    if version not in VERSIONS:
        raise ConfigError(files, f'exec plugin: invalid apiVersion "{version}"', VERSIONS[0])
    path = shutil.which(command, path=environment.get("PATH", os.defpath))
    if os.sep in command:
        path = str(user.file.parent / command)
    if not path or not os.path.exists(path):
        said = f"the credential plugin {command} is not installed"
        hint = plugin.get("installHint") or f"install {command}, and check that it is on the PATH"
        raise ConfigError(files, said, str(hint))
    mode = plugin.get("interactiveMode") or "IfAvailable"
    interactive = mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    if mode == "Always" and not interactive:
        said = f"{command} asks a question, but there is no terminal"
        raise ConfigError(files, said, f"log in first: kubectl get pods --context {context}")
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = cluster
    info = {"kind": "ExecCredential", "apiVersion": version, "spec": spec}
    own = {one.get("name") or "": one.get("value") or "" for one in plugin.get("env") or ()}
    told = {**environment, **own, EXEC_INFO: json.dumps(info)}
    words = [path, *(plugin.get("args") or ())]
    seconds = TYPING_SECONDS if interactive else PLUGIN_SECONDS
    return parse_credential(_run(words, told, interactive, seconds, files, context), user)


def _run(
    words: list[str],
    environment: Mapping[str, str],
    interactive: bool,
    seconds: float,
    files: str,
    context: str,
) -> str:
    """Run a program and log its stderr; return its stdout."""
    name, said = Path(words[0]).name, []
    hint = f"kubectl get pods --context {context}"
    # A file, since a program that the plugin leaves running may keep a pipe open forever.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as printed:
        try:
            process = subprocess.Popen(
                words,
                env=environment,
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=printed,
                stderr=None if interactive else subprocess.PIPE,  # prompts appear on the terminal
                text=True,
                errors="replace",
            )
        except (OSError, ValueError) as error:
            text = f"the credential plugin {name} cannot be run: {error}"
            raise ConfigError(files, text, hint) from error

        def show() -> None:
            for line in process.stderr or ():
                said.append(line.rstrip())
                LOG.info(f"{name}: {line.rstrip()}")

        reader = threading.Thread(target=show, daemon=True)
        reader.start()
        try:
            with waiting_for(f"credentials from {name}"):
                code = process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            _kill(process)
            text = f"{name} gave no credentials in {seconds:.0f} s and was killed"
            raise ConfigError(files, text, f"log in first: {hint}") from error
        reader.join(1.0)
        if code:
            last = f": {said[-1]}" if said else ""
            text = f"{name} gave no credentials (exit code {code}){last}"
            raise ConfigError(files, text, LOG_IN.get(name, f"{hint} says why"))
        printed.seek(0)
        return printed.read()


def _kill(process: subprocess.Popen[str]) -> None:
    with suppress(psutil.Error):
        own = psutil.Process(process.pid)
        for one in (*own.children(recursive=True), own):
            with suppress(psutil.Error):
                one.kill()


def parse_credential(text: str, user: NamedEntry) -> ApiCredentials:
    """Read an ExecCredential. Raises ConfigError with client-go's messages."""
    plugin = user.values["exec"]
    command, wanted = Path(str(plugin["command"])).name, str(plugin["apiVersion"])
    try:
        answer = json.loads(text)
        version = str(answer.get("apiVersion", ""))
        status = answer.get("status") or {}
        token, certificate, key = (
            str(status.get(name) or "")
            for name in ("token", "clientCertificateData", "clientKeyData")
        )
        expires_at = _parse_time(status.get("expirationTimestamp"))
    except (ValueError, AttributeError) as error:
        said = f"{command} printed no ExecCredential"
        raise ConfigError(str(user.file), said, "kubectl get pods says why") from error
    if version != wanted:
        said = f"exec plugin is configured to use API version {wanted}, plugin returned {version}"
        raise ConfigError(str(user.file), said, f"kubectl config view: apiVersion of {command}")
    if not (token or (certificate and key)):
        said = f"{command} gave no credentials: no token, no client certificate and key"
        raise ConfigError(str(user.file), said, "kubectl get pods says why")
    authorization = f"Bearer {token}" if token else ""
    return ApiCredentials(authorization, certificate.encode(), key.encode(), expires_at)


def _parse_time(text: Any) -> float | None:
    return datetime.fromisoformat(str(text)).timestamp() if text else None


def read_data(entry: NamedEntry, name: str) -> bytes:
    """Return an entry's value, from base64 data, else from a file; empty for neither."""
    if data := entry.get(f"{name}-data"):
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except ValueError as error:
            said = f"{name}-data is not base64"
            raise ConfigError(str(entry.file), said, "kubectl config view --raw") from error
    return _read(entry, name)


def _read(entry: NamedEntry, name: str) -> bytes:
    path = entry.resolve(name)
    if path is None:
        return b""
    try:
        return path.read_bytes()
    except OSError as error:
        said = f"cannot be used: {name}: {error.strerror}: {path}"
        raise ConfigError(str(entry.file), said, "kubectl config view") from error
