"""The supervisor's small client of a W&B server: one POST with the key, one reply.

Called in short-lived processes only: urllib and ssl must not stay in a supervisor's memory.
"""

import base64
import json
from dataclasses import dataclass
from typing import Any, Dict, Optional

TIMEOUT_SECONDS = 20.0
MAX_REPLY_BYTES = 1 << 26  # a summary comes whole
MAX_MESSAGE_CHARACTERS = 500
LOOPBACK = ("localhost", "127.", "[::1]")


@dataclass(frozen=True)
class Server:
    """A server's address without a slash at its end, and the key to use there."""

    base_url: str
    key: str


@dataclass(frozen=True)
class Reply:
    """A server's reply; `status` is 0 when there was none, and `error` then says why."""

    status: int
    body: Optional[Dict[str, Any]] = None
    error: str = ""
    retry_after_seconds: float = 0.0

    @property
    def data(self) -> Dict[str, Any]:
        """Return the data of a GraphQL reply, empty if it has none."""
        return (self.body or {}).get("data") or {}

    @property
    def passing(self) -> bool:
        """Tell whether the failure may pass: no reply, too many requests, a server error."""
        return self.status in (0, 408, 429) or (
            self.status >= 500 and self.status not in (501, 505)
        )


def ask(server: Server, query: str, variables: Dict[str, Any], timeout: float = 0.0) -> Reply:
    """Send one GraphQL operation; an error that the server names is in `error` even with 200."""
    reply = post(server, "/graphql", {"query": query, "variables": variables}, timeout)
    if reply.status != 200 or reply.body is None:
        return reply
    return Reply(200, reply.body, server_message(reply.body))


def post(server: Server, path: str, content: object, timeout: float = 0.0) -> Reply:
    """Send JSON and return the reply; raises nothing."""
    import http.client
    import urllib.error
    import urllib.request

    token = base64.b64encode(f"api:{server.key}".encode()).decode()
    headers = {"Content-Type": "application/json", "Authorization": f"Basic {token}"}
    body = json.dumps(content).encode()
    try:
        request = urllib.request.Request(f"{server.base_url}{path}", body, headers)
        with _open(request, timeout or TIMEOUT_SECONDS) as answer:
            return Reply(200, json.loads(answer.read(MAX_REPLY_BYTES)))
    except urllib.error.HTTPError as error:
        return _refusal(server, error)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Reply(0, error=f"{server.base_url} does not answer: {read_reason(error)}")


def _open(request: Any, timeout: float) -> Any:
    import urllib.request

    class NoRedirects(urllib.request.HTTPRedirectHandler):
        """A redirect would carry the key to another host."""

        def redirect_request(self, *_: Any) -> None:
            return None

    # A proxy cannot reach what listens on this machine alone.
    proxies: Optional[Dict[str, str]] = {} if request.host.startswith(LOOPBACK) else None
    opener = urllib.request.build_opener(NoRedirects, urllib.request.ProxyHandler(proxies))
    return opener.open(request, timeout=timeout)


def _refusal(server: Server, error: Any) -> Reply:
    wait = error.headers.get("Retry-After", "")
    return Reply(
        error.code,
        error=f"{server.base_url} answered {error.code}: {read_reason(error)}",
        retry_after_seconds=float(wait) if wait.isdigit() else 0.0,
    )


def read_reason(error: Any) -> str:
    """Return the server's own sentence if an error of urllib has one, else the error's reason."""
    try:
        text = server_message(json.loads(error.read(MAX_REPLY_BYTES)))
    except (AttributeError, OSError, ValueError):  # no answer, or not one of a W&B server
        text = ""
    return text or str(getattr(error, "reason", error))


def server_message(body: Any) -> str:
    """Return the first error's own sentence from a GraphQL reply, or nothing."""
    try:
        return str(body["errors"][0]["message"])[:MAX_MESSAGE_CHARACTERS]
    except (LookupError, TypeError):
        return ""
