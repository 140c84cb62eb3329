"""Connections to a server: certificates, HTTP and SOCKS proxies, requested waits.

Import it only in short-lived processes: ssl and urllib must not stay in a supervisor's memory.
"""

import contextlib
import os
import socket
import ssl
import time
from email.utils import parsedate_to_datetime
from typing import Any, Callable, Mapping, Optional, Tuple
from urllib.parse import unquote, urlsplit

from .network import CA_VARIABLES, find_proxy

SOCKS_PORT = 1080
# RFC 1928, RFC 1929
SOCKS_VERSION, LOGIN_VERSION, NO_LOGIN, BY_PASSWORD, CONNECT, DOMAIN_NAME = 5, 1, 0, 2, 1, 3
ADDRESS_BYTES = {1: 4, 4: 16}  # of an address in a reply, by its type
SOCKS_ERRORS = (
    *("", "general failure", "not allowed by its rules", "network unreachable"),
    *("host unreachable", "connection refused", "TTL expired", "command not supported"),
)


def build_context(environment: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """Return a context that trusts the authorities of the system and of the environment.

    Raises ValueError if a file cannot be read.
    """
    context = ssl.create_default_context()
    # Python 3.13 refuses authorities without key identifiers, which companies use; Go accepts them.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    for variable in CA_VARIABLES:
        path = environment.get(variable)
        if not path:
            continue
        try:
            if os.path.isdir(path):
                context.load_verify_locations(capath=path)
            else:
                context.load_verify_locations(cafile=path)
        except OSError as error:  # includes ssl.SSLError: no certificate in the file
            said = error.strerror or str(error)
            raise ValueError(f"{variable} names {path}: {said}") from None
    return context


def read_wait(headers: Any) -> float:
    """Return how many seconds a reply asks to wait; 0 if it does not.

    W&B's servers send `RateLimit-Reset`, in seconds like `Retry-After`.
    """
    for name in ("Retry-After", "RateLimit-Reset"):
        text = str(headers.get(name) or "").strip()
        try:
            return max(0.0, float(text))
        except ValueError:
            pass
        with contextlib.suppress(TypeError, ValueError):
            return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return 0.0


def build_opener(url: str) -> Any:
    """Return urllib's opener for a URL; it follows no redirects, which would leak the key.

    Raises ValueError for an unusable certificate or proxy.
    """
    import urllib.request

    class NoRedirects(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    context = build_context() if url.startswith("https://") else None
    proxy = find_proxy(url)
    scheme = urlsplit(proxy).scheme
    if scheme.startswith("socks5"):
        by_socks = build_socks_handler(connect_by_socks(proxy), context)
        return urllib.request.build_opener(NoRedirects, urllib.request.ProxyHandler({}), by_socks)
    if proxy and scheme not in ("http", "https", ""):
        raise ValueError(f"a proxy of the kind {scheme}:// cannot be used")
    proxies = urllib.request.ProxyHandler({urlsplit(url).scheme: proxy} if proxy else {})
    https = urllib.request.HTTPSHandler(context=context)
    return urllib.request.build_opener(NoRedirects, proxies, https)


def build_socks_handler(
    connect: Callable[..., socket.socket], context: Optional[ssl.SSLContext]
) -> Any:
    import http.client
    import urllib.request

    class SocksHandler(urllib.request.HTTPSHandler):
        def http_open(self, request: Any) -> Any:
            return self.do_open(lead(http.client.HTTPConnection), request)

        def https_open(self, request: Any) -> Any:
            return self.do_open(lead(http.client.HTTPSConnection), request, context=context)

        http_request = urllib.request.AbstractHTTPHandler.do_request_

    def lead(kind: Any) -> Any:
        def build(*args: Any, **more: Any) -> Any:
            connection = kind(*args, **more)
            connection._create_connection = connect
            return connection

        return build

    return SocksHandler()


def connect_by_socks(proxy: str) -> Callable[..., socket.socket]:
    """Return a function that connects through a SOCKS5 proxy, which resolves names (RFC 1928)."""
    parts = urlsplit(proxy)
    login = (unquote(parts.username or ""), unquote(parts.password or ""))

    def connect(address: Tuple[str, int], timeout: float, *_: Any) -> socket.socket:
        place = (parts.hostname or "", parts.port or SOCKS_PORT)
        connection = socket.create_connection(place, timeout)
        try:
            _log_in(connection, login)
            host = address[0].encode("idna")
            head = bytes((SOCKS_VERSION, CONNECT, 0, DOMAIN_NAME, len(host)))
            connection.sendall(head + host + address[1].to_bytes(2, "big"))
            code, kind = _read(connection, 4)[1::2]
            if code:
                said = SOCKS_ERRORS[code] if code < len(SOCKS_ERRORS) else f"error {code}"
                raise OSError(f"the SOCKS proxy refused: {said}")
            size = ADDRESS_BYTES.get(kind) or _read(connection, 1)[0]
            _read(connection, size + 2)  # the proxy's own address
        except BaseException:
            connection.close()
            raise
        return connection

    return connect


def _log_in(connection: socket.socket, login: Tuple[str, str]) -> None:
    methods = (NO_LOGIN, BY_PASSWORD) if login[0] else (NO_LOGIN,)
    connection.sendall(bytes((SOCKS_VERSION, len(methods), *methods)))
    _, chosen = _read(connection, 2)
    if chosen == BY_PASSWORD and login[0]:
        user, password = (word.encode() for word in login)
        connection.sendall(
            bytes((LOGIN_VERSION, len(user))) + user + bytes((len(password),)) + password
        )
        if _read(connection, 2)[1]:
            raise OSError("the SOCKS proxy refused the login")
    elif chosen != NO_LOGIN:
        raise OSError("the SOCKS proxy wants a login")


def _read(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = connection.recv(size - len(found))
        if not piece:
            raise OSError("the SOCKS proxy hung up")
        found += piece
    return found
