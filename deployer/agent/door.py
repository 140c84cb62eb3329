"""The supervisor's own small door to a W&B server, and what an answer means before the start.

The question is asked in a forked child, so that urllib and ssl never stay in the supervisor's
memory and a hanging server never delays a signal.
"""

import base64
import json
import os
import re
import signal
from dataclasses import asdict, dataclass
from typing import Any, Dict, Optional, Tuple, Union

from .outcome import FINISHED, MISCONFIGURED, SWEEP_ENDED, Ending

TIMEOUT_SECONDS = 20.0
CHILD_SECONDS = 60  # a server that drips byte by byte outwits the socket's time-out
MAX_REPLY_BYTES = 1 << 20
MAX_MESSAGE_CHARACTERS = 500
LOOPBACK = ("localhost", "127.", "[::1]")

VIEWER = "query Viewer { viewer { id entity username } }"
SWEEP_STATE = """
query GetSweepState($entity: String, $project: String, $sweep: String!) {
  project(name: $project, entityName: $entity) { sweep(sweepName: $sweep) { id state } }
}
"""
_REFUSED_FOR_GOOD = re.compile(r"permission denied|not found|does not exist", re.IGNORECASE)


@dataclass(frozen=True)
class Answer:
    """A server's answer; `status` is 0 when there was none, and `error` then says why."""

    status: int
    viewer: bool = False
    sweep_state: str = ""
    error: str = ""
    retry_after_seconds: float = 0.0


@dataclass(frozen=True)
class TryAgain:
    """Nothing can be said yet: wait, at least for `seconds` if the server asked for it."""

    reason: str
    seconds: float


def judge_preflight(answer: Answer) -> Union[Ending, TryAgain, None]:
    """Tell whether an agent can start now (None), later, or never.

    Only a clear no of the server ends a supervisor; whatever may pass is waited for.
    """
    if answer.status in (401, 403):
        return Ending(MISCONFIGURED, f"the key was refused: {answer.error}")
    if answer.status != 200 or (answer.error and not _REFUSED_FOR_GOOD.search(answer.error)):
        return TryAgain(answer.error, answer.retry_after_seconds)
    if not answer.viewer:
        return Ending(MISCONFIGURED, "the key was refused: it belongs to nobody")
    if not answer.sweep_state:
        return Ending(MISCONFIGURED, f"no such sweep: {answer.error or 'the server knows none'}")
    if answer.sweep_state in SWEEP_ENDED:
        return Ending(FINISHED, f"the sweep was already {answer.sweep_state}")
    return None


def fork_question(base_url: str, key: str, sweep_path: str) -> Tuple[int, int]:
    """Ask for viewer and sweep in a child; return its process id and the pipe of its answer."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child:
        os.close(sender)
        return child, receiver
    try:
        os.closerange(3, sender)  # the supervisor's lock must not live on in here
        signal.alarm(CHILD_SECONDS)
        answer = get_sweep_state(base_url, key, sweep_path)
        os.write(sender, json.dumps(asdict(answer)).encode())
    finally:
        os._exit(0)


def read_answer(receiver: int) -> Answer:
    """Read what a child that has ended wrote into its pipe."""
    with os.fdopen(receiver, "rb") as pipe:
        text = pipe.read()
    return Answer(**json.loads(text)) if text else Answer(0, error="the question broke off")


def get_sweep_state(base_url: str, key: str, sweep_path: str) -> Answer:
    """Ask who the key belongs to, then for the sweep's state."""
    entity, project, sweep = sweep_path.split("/")
    viewer, trouble = _post(base_url, key, VIEWER, {})
    if trouble or not (viewer or {}).get("viewer"):
        return trouble or Answer(200)
    variables = {"entity": entity, "project": project, "sweep": sweep}
    data, trouble = _post(base_url, key, SWEEP_STATE, variables)
    found = ((data or {}).get("project") or {}).get("sweep") or {}
    if trouble and not found:
        return Answer(trouble.status, True, error=trouble.error)
    return Answer(200, True, sweep_state=str(found.get("state", "")).upper())


def _post(
    base_url: str, key: str, query: str, variables: Dict[str, str]
) -> Tuple[Optional[Dict[str, Any]], Optional[Answer]]:
    """Send one operation; return its data and, if anything was wrong, an answer saying what."""
    import http.client
    import urllib.error
    import urllib.request

    body = json.dumps({"query": query, "variables": variables}).encode()
    token = base64.b64encode(f"api:{key}".encode()).decode()
    headers = {"Content-Type": "application/json", "Authorization": f"Basic {token}"}
    request = urllib.request.Request(f"{base_url}/graphql", body, headers)
    try:
        with _open(request) as reply:
            return _parse_reply(reply.read(MAX_REPLY_BYTES))
    except urllib.error.HTTPError as error:
        text = _server_message(error.read(MAX_REPLY_BYTES)) or error.reason
        wait = error.headers.get("Retry-After", "")
        seconds = float(wait) if wait.isdigit() else 0.0
        message = f"{base_url} answered {error.code}: {text}"
        return None, Answer(error.code, error=message, retry_after_seconds=seconds)
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        return None, Answer(0, error=f"{base_url} does not answer: {reason}")


def _open(request: Any) -> Any:
    import urllib.request

    class NoRedirects(urllib.request.HTTPRedirectHandler):
        """A redirect would carry the key to another host."""

        def redirect_request(self, *_: Any) -> None:
            return None

    # A proxy cannot reach what listens on this machine alone.
    proxies: Optional[Dict[str, str]] = {} if request.host.startswith(LOOPBACK) else None
    opener = urllib.request.build_opener(NoRedirects, urllib.request.ProxyHandler(proxies))
    return opener.open(request, timeout=TIMEOUT_SECONDS)


def _parse_reply(body: bytes) -> Tuple[Optional[Dict[str, Any]], Optional[Answer]]:
    reply = json.loads(body)
    message = _server_message(body)
    return reply.get("data"), Answer(200, error=message) if message else None


def _server_message(body: bytes) -> str:
    """Return the first error's own sentence from a GraphQL reply, or nothing."""
    try:
        return str(json.loads(body)["errors"][0]["message"])[:MAX_MESSAGE_CHARACTERS]
    except (ValueError, LookupError, TypeError):
        return ""
