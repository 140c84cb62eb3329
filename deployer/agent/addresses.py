"""Addresses of W&B servers: aliases of one server, its host names in netrc, its pages.

W&B's cloud has several names. The rules are those of wandb 0.31.0 (`wandb/sdk/lib/urls.py`,
`wandb/util.py`, `wandb/sdk/lib/wbauth`; November 2026): `tests/outside/test_addresses.py` compares
them with what each SDK says.
"""

import re
from typing import Iterable, List, Optional, Tuple
from urllib.parse import SplitResult, urlsplit

CLOUD_URL = "https://api.forge.coreweave.com"
CLOUD_PAGES_URL = "https://forge.coreweave.com/wandb"
# A Forge host proxies the API of its W&B host, whose pages SDKs before 0.31 print.
FORGE_HOSTS = {"forge.coreweave.com": "api.wandb.ai", "qa.forge.coreweave.com": "api.qa.wandb.ai"}
FORGE_PAGES = "/wandb"
FIRST_FORGE_SDK = (0, 31)
DEFAULT_PORTS = {"http": 80, "https": 443}


def normalise(url: str) -> str:
    """Return the API address for a user's address, which may be a page of W&B's cloud."""
    url = url.rstrip("/")
    host = find_forge(url)
    if not host:
        return url
    old = FORGE_HOSTS[host]
    return f"https://{old}" if _split(url).hostname in _old_names(old) else f"https://api.{host}"


def find_forge(url: str) -> Optional[str]:
    """Return the Forge host of W&B's cloud if an API or page address is one of its names."""
    name = _split(url).hostname
    for host, old in FORGE_HOSTS.items():
        if name in (host, f"api.{host}", *_old_names(old)):
            return host
    return None


def _split(url: str) -> SplitResult:
    """Split an address; an invalid one has only empty parts."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _old_names(api_host: str) -> Tuple[str, str, str]:
    """Return the names of a W&B host before Forge: its API, and its pages old and new."""
    pages = api_host[len("api.") :]
    return api_host, pages, f"app.{pages}"


def canonical(url: str) -> str:
    """Return one text for all addresses of a server, only for comparison, not for requests."""
    host = find_forge(url)
    if host:
        return f"https://api.{host}"
    parts = _split(url)
    try:
        port = parts.port
    except ValueError:
        return url
    name = "localhost" if parts.hostname in ("127.0.0.1", "::1") else parts.hostname or ""
    suffix = "" if port in (None, DEFAULT_PORTS.get(parts.scheme)) else f":{port}"
    return f"{parts.scheme}://{name}{suffix}{parts.path.rstrip('/')}"


def is_same(one: str, other: str) -> bool:
    """Return True if two addresses lead to one server."""
    return canonical(one) == canonical(other)


def list_key_hosts(url: str) -> List[str]:
    """Return the host names for a server's key in netrc, in order of lookup.

    The SDK tries the address's own name, then the one that Forge proxies. We also try Forge's: a
    key of the cloud is valid for all its names.
    """
    host = find_forge(url)
    own = [_split(url).netloc]
    return list(dict.fromkeys([*own, *((f"api.{host}", FORGE_HOSTS[host]) if host else ())]))


def build_pages_url(url: str) -> str:
    """Return the address of a server's pages, no trailing slash (SDK: `api_to_app_url`)."""
    host = find_forge(url)
    if host:
        return f"https://{host}{FORGE_PAGES}"
    if "://api.wandb." in url and "://api.wandb.test" not in url:
        return url.replace("://api.", "://").rstrip("/")
    return url.replace("://api.", "://app.").rstrip("/")


def split_page(page: str, known: Iterable[Tuple[str, str]]) -> Optional[Tuple[str, List[str]]]:
    """Return the API address for a sweep's page, and [ENTITY, PROJECT, SWEEP_ID], or None.

    `known` are pairs of API and page addresses, since a page's address alone may be ambiguous.
    """
    parts = _split(page)
    words = [word for word in parts.path.split("/") if word]
    place = max((n for n, word in enumerate(words[:-1]) if word == "sweeps"), default=0)
    if place < 2:
        return None
    root = "/".join([f"{parts.scheme}://{parts.netloc}", *words[: place - 2]])
    path = [*words[place - 2 : place], words[place + 1]]
    for api, pages in known:
        if canonical(root) == canonical(pages):
            return api, path
    if find_forge(root):
        return normalise(root), path
    return re.sub(r"^(https?)://app\.", r"\1://api.", root), path


def address_for(url: str, version: str) -> str:
    """Return the address of a server for an SDK of this version, which may not know Forge."""
    host = find_forge(url)
    numbers = tuple(int(word) for word in re.findall(r"\d+", version)[:2])
    if host and numbers and numbers < FIRST_FORGE_SDK:
        return f"https://{FORGE_HOSTS[host]}"
    return url
