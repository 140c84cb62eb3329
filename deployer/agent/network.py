"""Network settings from the environment: certificate authorities, headers for a gateway, proxies.

The rules are those of wandb-core and requests: if one of them reaches the server, `deployer`, its
supervisors and their runs do, too. `transport.py` connects.
"""

import ipaddress
import json
import os
from typing import Dict, Mapping, Optional
from urllib.parse import urlsplit

from .addresses import DEFAULT_PORTS

# Files with the certificates of a company's authority, as in OpenSSL and Go, requests, curl.
CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
HEADERS_VARIABLE = "WANDB_X_EXTRA_HTTP_HEADERS"  # the SDK's setting x_extra_http_headers
LOOPBACK = "localhost"


def read_headers(environment: Mapping[str, str] = os.environ) -> Dict[str, str]:
    """Return the headers for a gateway before the server; raises ValueError if invalid."""
    text = environment.get(HEADERS_VARIABLE)
    try:
        headers = json.loads(text) if text else {}
    except ValueError:
        headers = None
    if isinstance(headers, dict) and all(isinstance(one, str) for one in headers.values()):
        return headers
    # Do not show the text, which may be a secret.
    raise ValueError(f'{HEADERS_VARIABLE} is not a JSON object such as {{"X-Name": "value"}}')


def build_reach(environment: Mapping[str, str]) -> Dict[str, str]:
    """Return variables that give wandb-core the same settings as Python's libraries.

    wandb-core reads neither REQUESTS_CA_BUNDLE nor ALL_PROXY.
    """
    added = {}
    if not (environment.get("SSL_CERT_FILE") or environment.get("SSL_CERT_DIR")):
        path = next(filter(None, map(environment.get, CA_VARIABLES[1:])), "")
        if path:
            added["SSL_CERT_DIR" if os.path.isdir(path) else "SSL_CERT_FILE"] = path
    proxy = _get(environment, "all_proxy")
    for name in ("http_proxy", "https_proxy"):
        if proxy and not _get(environment, name):
            added[name.upper()] = proxy
    return added


def find_proxy(url: str, environment: Mapping[str, str] = os.environ) -> str:
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    if is_loopback(host) or _is_listed(host, port, _get(environment, "no_proxy")):
        return ""
    proxy = _get(environment, f"{parts.scheme}_proxy") or _get(environment, "all_proxy")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


def is_loopback(host: str) -> bool:
    """Return True for a loopback host name or address, which no proxy reaches."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == LOOPBACK or host.endswith(f".{LOOPBACK}")


def _is_listed(host: str, port: Optional[int], listed: str) -> bool:
    """Return True if NO_PROXY matches a host by name, domain or network, maybe with a port."""
    for entry in filter(None, (one.strip() for one in listed.split(","))):
        name, _, number = entry.rpartition(":") if entry.count(":") == 1 else (entry, "", "")
        if number and number != str(port):
            continue
        name = name.lstrip("*").lstrip(".")
        if not name or host == name or host.endswith(f".{name}"):
            return True
        try:
            if ipaddress.ip_address(host) in ipaddress.ip_network(name, strict=False):
                return True
        except ValueError:
            continue
    return False


def _get(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.upper()) or ""
