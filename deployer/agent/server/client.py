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
HOPELESS = -1  # the status if no request was sent and waiting changes nothing: a certificate


@dataclass(frozen=True)
class Server:
    """A server's address without a slash at its end, and the key to use there.

    Without a key, the identity token of the environment is used.
    """

    base_url: str
    key: str


@dataclass(frozen=True)
class Reply:
    """A server's reply; `status` is 0 or HOPELESS when there was none, `error` then says why."""

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
    import ssl
    import urllib.error
    import urllib.request

    from ..network import read_headers
    from .transport import build_opener

    own = {"Content-Type": "application/json"}
    body = json.dumps(content).encode()
    url = f"{server.base_url}{path}"
    try:
        headers, opener = {**read_headers(), **own}, build_opener(url)
    except ValueError as error:
        return Reply(HOPELESS, error=str(error))
    try:
        headers["Authorization"] = authorize(server, opener)
        request = urllib.request.Request(url, body, headers)
        with opener.open(request, timeout=timeout or TIMEOUT_SECONDS) as answer:
            return Reply(200, json.loads(answer.read(MAX_REPLY_BYTES)))
    except urllib.error.HTTPError as error:
        return _refusal(server, error)
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            said = f"the certificate of {server.base_url} is not trusted: {read_reason(error)}"
            return Reply(HOPELESS, error=f"{said}; SSL_CERT_FILE names your own authority")
        return Reply(0, error=f"{server.base_url} does not answer: {read_reason(error)}")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Reply(0, error=f"{server.base_url} does not answer: {read_reason(error)}")


def authorize(server: Server, opener: Any) -> str:
    """Return the header by which the server knows us; raises what `opener` does."""
    if server.key:
        return f"Basic {base64.b64encode(f'api:{server.key}'.encode()).decode()}"
    from urllib.parse import urlencode

    from ..network import read_headers
    from .identity import get_access_token

    def exchange(url: str, form: Dict[str, str]) -> Any:
        import urllib.request

        request = urllib.request.Request(url, urlencode(form).encode(), read_headers())
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            return json.loads(answer.read(MAX_REPLY_BYTES))

    return f"Bearer {get_access_token(server.base_url, exchange)}"


def _refusal(server: Server, error: Any) -> Reply:
    from .transport import read_wait

    return Reply(
        error.code,
        error=f"{server.base_url} answered {error.code}: {read_reason(error)}",
        retry_after_seconds=read_wait(error.headers),
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
