"""Selects the cluster, user and namespace, and connects to the API server."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import urllib3
import websocket
from kubernetes import client
from urllib3.contrib.socks import SOCKSProxyManager

from deployer import __version__
from deployer.agent.network import find_proxy
from deployer.agent.transport import build_context, connect_by_socks
from deployer.errors import ConfigError
from deployer.kube.kubeconfig import (
    NO_KUBECONFIG,
    SHOW_KUBECONFIG,
    NamedEntry,
    list_files,
    load_kubeconfig,
)
from deployer.kube.login import (
    ApiCredentials,
    FileLogin,
    Login,
    TokenLogin,
    build_login,
    describe_renewal,
    read_data,
)
from deployer.waiting import TIMEOUTS_SECONDS

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
NAMESPACE_FILE = ACCOUNT / "namespace"
CONNECTIONS = 16  # more threads are not faster end to end
PEM = re.compile(r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")
PROXY_KINDS = ("http", "https", "socks5")  # supported by kubectl
IMPERSONATION = "impersonate-"


@dataclass(frozen=True)
class ApiServer:
    """An API server: address, CA (PEM) and proxy.

    Without a CA, the system's CAs apply. `proxy` is a URL, empty for a direct connection.
    """

    server: str
    ca: bytes = b""
    name: str = ""  # the name in its certificate, if not the address
    verified: bool = True
    proxy: str = ""


class ApiConnection:
    """The client of one API server. It logs in again when credentials expire."""

    def __init__(self, target: ApiServer, login: Login, impersonated: str = "") -> None:
        self.target = target
        self._login = login
        self._lock = threading.Lock()
        self._used: ApiCredentials | None = None
        self.context: ssl.SSLContext | None = None
        settings: Any = client.Configuration()
        settings.host = target.server
        settings.proxy = None  # ignore the environment: `target.proxy` follows kubectl
        self.client: Any = client.ApiClient(settings)
        self.client.user_agent = f"deployer/{__version__}"
        if impersonated:
            self.client.set_default_header("Impersonate-User", impersonated)

    def prepare(self) -> ApiCredentials:
        """Load the current credentials before a request; return them. Raises ConfigError."""
        found = self._login.get()
        with self._lock:
            if found == self._used:
                return found
            if self._used is None or (found.certificate, found.key) != (
                self._used.certificate,
                self._used.key,
            ):
                self.context = _build_context(self.target, found)
                self.client.rest_client.pool_manager = _build_pool(self.target, self.context)
            self._set_header("Authorization", found.authorization)
            self._used = found
            return found

    def refuse(self, used: ApiCredentials) -> bool:
        """Record that the server refused these credentials; return True if there are new ones."""
        return self._login.refuse(used)

    def _set_header(self, name: str, value: str) -> None:
        if value:
            self.client.set_default_header(name, value)
        else:
            self.client.default_headers.pop(name, None)


@dataclass(frozen=True)
class Access:
    """A connection, the context's name (empty inside a pod) and the namespace to work in.

    `renewal` is the hint for when the server no longer accepts the user.
    """

    connection: ApiConnection
    context: str
    namespace: str
    renewal: str = "the account's token is refused: type the command again"

    @property
    def client(self) -> Any:
        """The client, with current credentials. Raises ConfigError."""
        self.connection.prepare()
        return self.connection.client

    @property
    def server(self) -> str:
        return self.connection.target.server

    @property
    def fingerprint(self) -> str:
        """Return a hash of the API server's address and its CA."""
        return hashlib.sha256(self.server.encode() + b"\n" + self.connection.target.ca).hexdigest()


def is_configured(environment: Mapping[str, str]) -> bool:
    """Return True if KUBECONFIG is set, or a kubeconfig or a pod's service account exists."""
    named = bool(environment.get("KUBECONFIG"))
    return named or bool(list_files(environment)[1]) or NAMESPACE_FILE.exists()


def list_contexts(environment: Mapping[str, str]) -> Sequence[str]:
    """Return the names of the kubeconfig's contexts; none if it is unreadable."""
    try:
        return list(load_kubeconfig(environment).contexts)
    except ConfigError:
        return ()


def load_access(
    context: str | None, namespace: str | None, environment: Mapping[str, str]
) -> Access:
    """Read the kubeconfig (KUBECONFIG, else ~/.kube/config), or a pod's service account.

    Raises ConfigError if there is none, or the context is missing.
    """
    files, found = list_files(environment)
    if not found and NAMESPACE_FILE.exists():
        return _load_own(namespace, environment)
    if not found:
        raise ConfigError(files, "kubeconfig not found", NO_KUBECONFIG)
    content = load_kubeconfig(environment)
    name, chosen = content.choose_context(context)
    cluster = content.find("cluster", name, chosen.get("cluster"))
    user = content.find("user", name, chosen.get("user"))
    target = _read_target(cluster, environment)
    # Like kubectl, send no credentials over an unencrypted connection.
    shown = user if target.server.startswith("https://") else NamedEntry({}, user.file)
    login = build_login(shown, _describe_cluster(cluster, target), name, environment)
    connection = ApiConnection(target, login, _read_impersonated(files, user))
    connection.prepare()
    found_namespace = namespace or chosen.get("namespace") or "default"
    return Access(connection, name, found_namespace, describe_renewal(files, user))


def _read_target(cluster: NamedEntry, environment: Mapping[str, str]) -> ApiServer:
    server = _read_server(cluster)
    proxy = cluster.get("proxy-url")
    if proxy and (scheme := urlsplit(proxy).scheme) not in PROXY_KINDS:
        said = f'unsupported scheme "{scheme}" of proxy-url, must be http, https, or socks5'
        raise ConfigError(str(cluster.file), said, SHOW_KUBECONFIG)
    return ApiServer(
        server,
        read_data(cluster, "certificate-authority"),
        cluster.get("tls-server-name"),
        not cluster.values.get("insecure-skip-tls-verify"),
        proxy or find_proxy(server, _without_all_proxy(environment)),
    )


def _read_server(cluster: NamedEntry) -> str:
    """Return a cluster's address; without a scheme it gets https if there is a CA."""
    server = cluster.get("server").rstrip("/")
    if server and "://" not in server:
        is_secure = any(cluster.get(f"certificate-authority{end}") for end in ("", "-data"))
        server = f"{'https' if is_secure else 'http'}://{server}"
    scheme, _, rest = server.partition("://")
    server = f"{scheme.lower()}://{rest}"
    try:
        parts = urlsplit(server)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ConfigError(str(cluster.file), "a cluster has no server address", SHOW_KUBECONFIG)
    if parts.username is not None:
        said = "a server address must not contain a login"
        raise ConfigError(str(cluster.file), said, "use a user with a token or a certificate")
    return server


def _without_all_proxy(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return an environment as kubectl sees it: Go ignores ALL_PROXY."""
    return {name: one for name, one in environment.items() if name.lower() != "all_proxy"}


def _describe_cluster(cluster: NamedEntry, target: ApiServer) -> Mapping[str, Any]:
    """Return the cluster info for a credential plugin (client.authentication.k8s.io)."""
    listed = cluster.values.get("extensions") or ()
    extensions = [one for one in listed if isinstance(one, dict)]
    own = (one for one in extensions if one.get("name") == "client.authentication.k8s.io/exec")
    told = {
        "server": target.server,
        "tls-server-name": target.name,
        "insecure-skip-tls-verify": not target.verified,
        "certificate-authority-data": base64.b64encode(target.ca).decode(),
        "proxy-url": cluster.get("proxy-url"),
        "config": next((one.get("extension") for one in own), None),
    }
    return {name: one for name, one in told.items() if one or name == "config"}


def _read_impersonated(files: str, user: NamedEntry) -> str:
    """Return the user that a kubeconfig impersonates, empty for none."""
    others = [key for key in ("as-groups", "as-uid", "as-user-extra") if user.values.get(key)]
    if others:
        hint = f"leave {others[0]} out, or use that user's own token"
        raise ConfigError(files, f"{others[0]} is not supported, only as", hint)
    return user.get("as")


def _load_own(namespace: str | None, environment: Mapping[str, str]) -> Access:
    host = environment.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    where = f"[{host}]" if ":" in host else host
    target = ApiServer(f"https://{where}:{port}", (ACCOUNT / "ca.crt").read_bytes())
    login = FileLogin(NamedEntry({"tokenFile": "token"}, ACCOUNT / "kubeconfig"))
    own = NAMESPACE_FILE.read_text().strip()
    return Access(ApiConnection(target, login), "", namespace or own)


def build_access(
    server: str, ca: bytes, get_token: Callable[[], str], namespace: str, context: str = ""
) -> Access:
    """Return access to a cluster by its address, its CA certificate (PEM) and a token.

    `get_token` is called before every request, so a token may be short-lived.
    """
    return Access(ApiConnection(ApiServer(server, ca), TokenLogin(get_token)), context, namespace)


def open_websocket(access: Access, path: str) -> Any:
    """Open a WebSocket to the API server; a refusal raises ApiException, as in other calls.

    Hand-written, because the client's own port-forward hangs forever once its connection is lost.
    """
    headers = {
        name: value
        for name, value in access.client.default_headers.items()
        if name.lower() == "authorization" or name.lower().startswith(IMPERSONATION)
    }
    headers["sec-websocket-protocol"] = "v4.channel.k8s.io"
    target, context = access.connection.target, access.connection.context
    address = f"ws{target.server.removeprefix('http')}{path}"
    options: dict[str, Any] = {"header": headers, "timeout": TIMEOUTS_SECONDS[1]}
    tls: dict[str, Any] = {"context": context}
    if target.name:
        tls["server_hostname"] = target.name
    if target.proxy:
        options["socket"] = _reach_through(target, context)
    tunnel: Any = websocket.WebSocket(sslopt=tls, skip_utf8_validation=False)
    try:
        tunnel.connect(address, **options)
        return tunnel
    except websocket.WebSocketBadStatusException as error:
        answer = client.ApiException(status=error.status_code, reason=error.status_message)
        answer.body = (error.resp_body or b"").decode(errors="replace")
        raise answer from error
    except websocket.WebSocketException as error:
        raise ConnectionError(str(error)) from error


def _reach_through(target: ApiServer, context: ssl.SSLContext | None) -> socket.socket:
    """Return a connection to an API server through its proxy, after the TLS handshake."""
    parts, proxy = urlsplit(target.server), urlsplit(target.proxy)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    if proxy.scheme.startswith("socks"):
        plain = connect_by_socks(target.proxy)((host, port), TIMEOUTS_SECONDS[0])
    else:
        plain = _connect_by_http(target.proxy, host, port)
    if parts.scheme != "https" or context is None:
        return plain
    return context.wrap_socket(plain, server_hostname=target.name or host)


def _connect_by_http(proxy: str, host: str, port: int) -> socket.socket:
    import http.client

    parts = urlsplit(proxy)
    tunnel = http.client.HTTPConnection(
        parts.hostname or "", parts.port or 80, timeout=TIMEOUTS_SECONDS[0]
    )
    if parts.scheme == "https":
        tunnel = http.client.HTTPSConnection(
            parts.hostname or "",
            parts.port or 443,
            timeout=TIMEOUTS_SECONDS[0],
            context=build_context(),
        )
    tunnel.set_tunnel(host, port, _list_proxy_headers(proxy))
    tunnel.connect()
    assert tunnel.sock is not None
    return tunnel.sock


def _list_proxy_headers(proxy: str) -> dict[str, str]:
    parts = urlsplit(proxy)
    if not parts.username:
        return {}
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}


def _build_pool(target: ApiServer, context: ssl.SSLContext | None) -> Any:
    options: dict[str, Any] = {
        "maxsize": CONNECTIONS,
        # Our client decides what to retry; urllib3 does not know which requests are idempotent.
        "retries": urllib3.Retry(total=False, redirect=3),
        "ssl_context": context,
    }
    if target.name:
        options["server_hostname"] = target.name
    if not target.verified:
        options["assert_hostname"] = False
    if target.proxy.startswith("socks"):
        # Like Go, which lets the proxy resolve names for socks5:// as well.
        address = target.proxy.replace("socks5://", "socks5h://", 1)
        return SOCKSProxyManager(address, **options)
    if target.proxy:
        headers = {name.lower(): one for name, one in _list_proxy_headers(target.proxy).items()}
        return urllib3.ProxyManager(target.proxy, proxy_headers=headers, **options)
    return urllib3.PoolManager(**options)


def _build_context(target: ApiServer, credentials: ApiCredentials) -> ssl.SSLContext | None:
    """Return a context that trusts the cluster's CA and has the user's certificate, if any."""
    if not target.server.startswith("https://"):
        return None
    try:
        if target.ca:
            blocks = PEM.findall(target.ca.decode(errors="replace"))  # comments have any encoding
            if not blocks:
                raise ValueError("certificate-authority holds no certificate")
            context = ssl.create_default_context(cadata="\n".join(blocks))
            # Python 3.13 refuses CAs without key identifiers; kubectl accepts them.
            context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
            # Any of the file's certificates is a trust anchor, including intermediate ones.
            context.verify_flags |= getattr(ssl, "VERIFY_X509_PARTIAL_CHAIN", 0)
        else:
            context = build_context()
        if not target.verified:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if credentials.certificate:
            # OpenSSL loads a certificate and its key only from a file.
            with tempfile.NamedTemporaryFile("wb", suffix=".pem") as file:
                os.chmod(file.name, 0o600)
                file.write(credentials.certificate.rstrip() + b"\n" + credentials.key)
                file.flush()
                context.load_cert_chain(file.name, password="")  # else OpenSSL prompts for it
    except (ssl.SSLError, ValueError) as error:
        said = f"a certificate cannot be used: {error}"
        raise ConfigError("kubeconfig", said, SHOW_KUBECONFIG) from error
    return context
