"""Which cluster, as which user, in which namespace: read as kubectl reads it."""

from __future__ import annotations

import hashlib
import os
import shutil
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import urllib3
import websocket
import yaml
from kubernetes import client
from kubernetes import config as untyped
from kubernetes.config import kube_config as untyped_files
from kubernetes.config.config_exception import ConfigException
from kubernetes.stream import ws_client as untyped_sockets

from deployer.config import paths
from deployer.errors import ConfigError
from deployer.waiting import TIMEOUTS_SECONDS, waiting_for

config: Any = untyped
kube_config: Any = untyped_files
ws_client: Any = untyped_sockets

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
CONNECTIONS = 16  # more threads gain nothing end to end
SHOW_KUBECONFIG = "kubectl config view; KUBECONFIG names the file"
HOME_KUBECONFIG = "~/.kube/config"
NO_KUBECONFIG = (
    "export KUBECONFIG=FILE, the one that your cluster's administrator or provider gave you"
)
LOG_IN = {"gke-gcloud-auth-plugin": "gcloud auth login", "aws": "aws sso login"}  # by plugin
IMPERSONATION = "impersonate-"
PLUGIN_SECONDS = 30.0
PLUGIN_VARIABLE = "KUBERNETES_EXEC_INFO"  # only a plugin and its descendants have it


@dataclass(frozen=True)
class Access:
    """A cluster's client, the context's name (empty inside a pod) and the namespace to work in.

    `renewal` is what to do when the server does not know the user any more.
    """

    client: Any
    context: str
    namespace: str
    renewal: str = "the account's token is refused: type the command again"

    @property
    def server(self) -> str:
        """Return the API server's address."""
        return str(self.client.configuration.host)

    @property
    def fingerprint(self) -> str:
        """Return a hash of the API server's address and of the CA that vouches for it."""
        ca_file = self.client.configuration.ssl_ca_cert
        ca = Path(ca_file).read_bytes() if ca_file else b""
        return hashlib.sha256(self.server.encode() + b"\n" + ca).hexdigest()


def is_configured(environment: Mapping[str, str]) -> bool:
    """Return True if a kubeconfig is named or there, or a pod's own account."""
    named = bool(environment.get("KUBECONFIG"))
    return named or _exists(HOME_KUBECONFIG) or NAMESPACE_FILE.exists()


def list_contexts(environment: Mapping[str, str]) -> Sequence[str]:
    """Return the names of the kubeconfig's contexts; none where it cannot be read."""
    try:
        content = kube_config.KubeConfigMerger(environment.get("KUBECONFIG") or HOME_KUBECONFIG)
        return [one["name"] for one in content.config["contexts"]]
    except (yaml.YAMLError, ConfigException, OSError, TypeError):
        return ()


def load_access(
    context: str | None, namespace: str | None, environment: Mapping[str, str]
) -> Access:
    """Read the kubeconfig (KUBECONFIG, else ~/.kube/config), or a pod's own account.

    Raises ConfigError if there is none, or no such context.
    """
    files = environment.get("KUBECONFIG") or HOME_KUBECONFIG
    if not _exists(files) and NAMESPACE_FILE.exists():
        return _load_own(namespace)
    if not _exists(files):
        raise ConfigError(files, "there is no such kubeconfig", NO_KUBECONFIG)
    try:
        content = kube_config.KubeConfigMerger(files).config
        chosen = _choose_context(files, content, context)
        settings = client.Configuration()
        loader = _Loader(content, chosen["name"], config_base_path=None)
        loader.load_and_set(settings)
    except yaml.YAMLError as error:
        raise ConfigError(files, "is not YAML that can be read", SHOW_KUBECONFIG) from error
    except (ConfigException, OSError) as error:
        raise ConfigError(files, f"cannot be used: {error}", SHOW_KUBECONFIG) from error
    name = str(chosen["name"])
    user = _read_user(content, str(chosen["context"].get("user", "")))
    _check_plugin(files, user, settings, name, loader.plugin_killed)
    found = namespace or chosen["context"].get("namespace") or "default"
    api = _build_client(settings)
    _impersonate(files, user, api)
    return Access(api, name, found, _describe_renewal(files, user))


def _choose_context(files: str, content: Any, wanted: str | None) -> Mapping[str, Any]:
    """Return the wanted context of a kubeconfig, else its current one."""
    listed = content["contexts"] if content.safe_get("contexts") else ()
    contexts: dict[str, Mapping[str, Any]] = {one["name"]: one.value for one in listed}
    name = wanted or content.safe_get("current-context") or ""
    if name in contexts:
        return contexts[name]
    if wanted:
        names = ", ".join(contexts)
        raise ConfigError("context", f"there is no '{wanted}' in {files}", f"name one of: {names}")
    said = f"has no context {name}, which is its current one" if name else "no context is chosen"
    hint = f"kubectl config use-context NAME, one of: {', '.join(contexts)}"
    raise ConfigError(files, said, hint if contexts else NO_KUBECONFIG)


def _describe_renewal(files: str, user: Mapping[str, Any]) -> str:
    """Return what to do when a server does not know a kubeconfig's user any more."""
    if command := (user.get("exec") or {}).get("command"):
        return LOG_IN.get(Path(command).name, f"log in again: {command} gave what is refused")
    if file := user.get("client-certificate"):
        return f"see whether it is over: openssl x509 -noout -enddate -in {file}"
    if not user:
        return f"{files} has no such user: {SHOW_KUBECONFIG}"
    what = "certificate" if "client-certificate-data" in user else "token"
    return f"ask whoever gave you {files} for a new one: its {what} is refused"


def _read_user(content: Any, name: str) -> Mapping[str, Any]:
    """Return a kubeconfig's entry of a user."""
    found = content["users"].get_with_name(name, safe=True)
    return (found.safe_get("user") if found else None) or {}


class _Loader(kube_config.KubeConfigLoader):  # type: ignore[misc]
    """Reads a kubeconfig as the client does, which would wait forever for a credential plugin."""

    plugin_killed = False
    token: str

    def _load_user_token(self) -> Any:
        found = super()._load_user_token()
        if found:
            self.token = self.token.strip()  # a `tokenFile` may end a line, as for kubectl
        return found

    def _load_from_exec_plugin(self) -> Any:
        if "exec" not in self._user:
            return None
        timer = threading.Timer(PLUGIN_SECONDS, self._kill_plugin)
        timer.daemon = True
        timer.start()
        try:
            with waiting_for(f"credentials from {self._user['exec']['command']}"):
                return super()._load_from_exec_plugin()
        finally:
            timer.cancel()

    def _kill_plugin(self) -> None:
        self.plugin_killed = True
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if PLUGIN_VARIABLE in child.environ():
                    child.kill()


def _check_plugin(
    files: str, user: Mapping[str, Any], settings: Any, context: str, killed: bool
) -> None:
    """Refuse a user whose program gave no credentials: the client would go on as nobody."""
    if "exec" not in user or "authorization" in settings.api_key or settings.cert_file:
        return
    command = str(user["exec"].get("command", ""))
    if killed:
        said = f"{command} gave no credentials in {PLUGIN_SECONDS:.0f} s and was ended"
        raise ConfigError(files, said, f"log in first: kubectl get pods --context {context}")
    if "/" in command or shutil.which(command):
        raise ConfigError(files, f"{command} gave no credentials", "kubectl get pods says why")
    hint = user["exec"].get("installHint") or f"install {command}, and see that it is on the PATH"
    raise ConfigError(files, f"{command}, which gives the credentials, is not installed", hint)


def _impersonate(files: str, user: Mapping[str, Any], api: Any) -> None:
    """Act as the user that a kubeconfig names, which the client itself overlooks."""
    others = [key for key in ("as-groups", "as-uid", "as-user-extra") if user.get(key)]
    if others:
        hint = f"leave {others[0]} out, or use that user's own token"
        raise ConfigError(files, f"{others[0]} is not supported, only as", hint)
    if user.get("as"):
        api.set_default_header("Impersonate-User", str(user["as"]))


def _load_own(namespace: str | None) -> Access:
    settings = client.Configuration()
    config.load_incluster_config(client_configuration=settings)
    return Access(_build_client(settings), "", namespace or NAMESPACE_FILE.read_text().strip())


def build_access(
    server: str, ca: bytes, get_token: Callable[[], str], namespace: str, context: str = ""
) -> Access:
    """Return the access to a cluster by its address, its CA's certificate (PEM) and a token.

    `get_token` is asked before every request, so a token may be short-lived.
    """
    settings: Any = client.Configuration()
    settings.host = server
    settings.ssl_ca_cert = str(_make_ca_file(server, ca))
    settings.api_key_prefix["authorization"] = "Bearer"

    def refresh(used: Any) -> None:
        used.api_key["authorization"] = get_token()

    settings.refresh_api_key_hook = refresh
    # The hook is asked only where there is a key already.
    settings.api_key["authorization"] = "none yet"
    return Access(_build_client(settings), context, namespace)


def open_websocket(access: Access, path: str) -> Any:
    """Return a WebSocket to the API server; a refusal is an ApiException as other calls raise it.

    By hand, since the client's own port-forward waits for ever once its connection is lost.
    """
    settings = access.client.configuration
    headers = {
        one["key"]: one["value"] for one in settings.auth_settings().values() if one.get("value")
    }
    for key, value in access.client.default_headers.items():
        if key.lower().startswith(IMPERSONATION):
            headers[key] = value
    headers["sec-websocket-protocol"] = "v4.channel.k8s.io"
    address = ws_client.get_websocket_url(f"{settings.host}{path}")
    options: dict[str, Any] = {"header": headers, "timeout": TIMEOUTS_SECONDS[1]}
    if settings.proxy or settings.proxy_headers:
        options = ws_client.websocket_proxycare(options, settings, address, headers)
    tunnel: Any = websocket.WebSocket(
        sslopt=_list_tls_options(settings), skip_utf8_validation=False
    )
    try:
        tunnel.connect(address, **options)
        return tunnel
    except websocket.WebSocketBadStatusException as error:
        answer = client.ApiException(status=error.status_code, reason=error.status_message)
        answer.body = (error.resp_body or b"").decode(errors="replace")
        raise answer from error
    except websocket.WebSocketException as error:
        raise ConnectionError(str(error)) from error


def _list_tls_options(settings: Any) -> dict[str, Any]:
    authorities = settings.ssl_ca_cert or ws_client.certifi.where()
    options = {
        "cert_reqs": ssl.CERT_REQUIRED if settings.verify_ssl else ssl.CERT_NONE,
        "ca_certs": authorities if settings.verify_ssl else None,
        "check_hostname": settings.assert_hostname if settings.verify_ssl else None,
        "certfile": settings.cert_file,
        "keyfile": settings.key_file,
        "server_hostname": settings.tls_server_name,
    }
    return {name: value for name, value in options.items() if value is not None}


def _make_ca_file(server: str, ca: bytes) -> Path:
    """Return a file with a CA's certificate: older clients take it only from a file."""
    folder = paths.home() / "kubernetes"
    folder.mkdir(exist_ok=True, mode=0o700)
    path = folder / f"{hashlib.sha256(server.encode()).hexdigest()[:16]}.crt"
    if not path.exists() or path.read_bytes() != ca:
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_bytes(ca)
        partial.replace(path)
    return path


def _build_client(settings: Any) -> Any:
    settings.connection_pool_maxsize = CONNECTIONS
    # Our client decides what is sent again; urllib3 knows nothing of effects.
    settings.retries = urllib3.Retry(total=False, redirect=3)
    return client.ApiClient(settings)


def _exists(files: str) -> bool:
    return any(Path(part).expanduser().exists() for part in files.split(os.pathsep) if part)
