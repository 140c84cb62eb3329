"""A supervisor's requests to the W&B server: its own key, the preflight check, the sweep's state.

Call functions that send requests only in short-lived processes: urllib and ssl must not stay in a
supervisor's memory.
"""

from __future__ import annotations

import base64
import json
import os
import re
import time
from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, MutableMapping, Optional, Pattern, Union

from .exit_codes import FINISHED, MISCONFIGURED, SWEEP_ENDED, AgentExit
from .host.processes import Signals
from .settings import KEY_FILE_VARIABLE, KEY_VARIABLE, AgentSettings

TIMEOUT_SECONDS = 20.0
MAX_REPLY_BYTES = 1 << 26  # fits a whole summary
MAX_MESSAGE_CHARACTERS = 500
HOPELESS = -1  # the status of permanent errors without a reply, such as an untrusted certificate
KEY_BYTES = 20  # 40 hexadecimal characters, the shortest key that every SDK accepts
CHILD_SECONDS = 60  # a server that sends byte by byte bypasses the socket timeout
VIEWER = "query Viewer { viewer { id entity username } }"
SWEEP_STATE = """
query GetSweepState($entity: String, $project: String, $sweep: String!) {
  project(name: $project, entityName: $entity) { sweep(sweepName: $sweep) { id state config } }
}
"""
OWN_KEY = """
mutation DeployerCreateAgentKey($sweepPath: String!, $agentName: String!, $key: String!) {
  deployerCreateAgentKey(input: {sweepPath: $sweepPath, agentName: $agentName, key: $key}) { key }
}
"""
OWN_KEY_ON_NODE = """
mutation DeployerCreateAgentKey(
  $sweepPath: String!, $agentName: String!, $key: String!, $node: String
) {
  deployerCreateAgentKey(
    input: {sweepPath: $sweepPath, agentName: $agentName, key: $key, node: $node}
  ) { key }
}
"""
# Read from the sweep's YAML by regex, since the standard library has no YAML parser.
PROGRAM = re.compile(r"""^program: *["']?([^"'#\n]+?)["']? *$""", re.MULTILINE)
METRIC = re.compile(
    r"""^metric:(?:[ ]*\{[^}\n]*?|(?:[ ]*\n[ ]+.*)*?\n[ ]+)\bname:[ ]*["']?([^"'#,}\n]+)""",
    re.MULTILINE,
)
_REFUSED_FOR_GOOD = re.compile(r"permission denied|not found|does not exist", re.IGNORECASE)
LONGEST_WAIT_SECONDS = 5.0  # so that work resumes within seconds once a server is back
ASKS_AT_THE_END = 8  # about half a minute; then the state is unknown
BROKEN_OFF = "the question broke off"
GOODBYE_SECONDS = 3.0  # no retry, so that it does not delay the supervisor's end
GOODBYE = "mutation DeployerLeave { deployerLeave(input: {}) { success } }"


@dataclass(frozen=True)
class ServerAddress:
    """A server's address without a trailing slash, and its key.

    With an empty key, requests use the identity token of the environment.
    """

    base_url: str
    key: str


@dataclass(frozen=True)
class ServerReply:
    """A server's reply; without one, `status` is 0 or HOPELESS, and `error` says why."""

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
        """Return True if the error is transient: no reply, too many requests, a server error."""
        return self.status in (0, 408, 429) or (
            self.status >= 500 and self.status not in (501, 505)
        )


def ask(
    server: ServerAddress, query: str, variables: Dict[str, Any], timeout: float = 0.0
) -> ServerReply:
    """Send one GraphQL operation; `error` has the server's message even with status 200."""
    reply = post(server, "/graphql", {"query": query, "variables": variables}, timeout)
    if reply.status != 200 or reply.body is None:
        return reply
    return ServerReply(200, reply.body, server_message(reply.body))


def post(server: ServerAddress, path: str, content: object, timeout: float = 0.0) -> ServerReply:
    """Send JSON and return the reply; never raises."""
    import http.client
    import ssl
    import urllib.error
    import urllib.request

    from .network import read_headers
    from .transport import build_opener

    own = {"Content-Type": "application/json"}
    body = json.dumps(content).encode()
    url = f"{server.base_url}{path}"
    try:
        headers, opener = {**read_headers(), **own}, build_opener(url)
    except ValueError as error:
        return ServerReply(HOPELESS, error=str(error))
    try:
        headers["Authorization"] = authorize(server, opener)
        request = urllib.request.Request(url, body, headers)
        with opener.open(request, timeout=timeout or TIMEOUT_SECONDS) as answer:
            return ServerReply(200, json.loads(answer.read(MAX_REPLY_BYTES)))
    except urllib.error.HTTPError as error:
        return _refusal(server, error)
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            said = f"the certificate of {server.base_url} is not trusted: {read_reason(error)}"
            return ServerReply(HOPELESS, error=f"{said}; SSL_CERT_FILE names your own authority")
        return ServerReply(0, error=f"{server.base_url} does not answer: {read_reason(error)}")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return ServerReply(0, error=f"{server.base_url} does not answer: {read_reason(error)}")


def authorize(server: ServerAddress, opener: Any) -> str:
    """Return the value of the Authorization header; raises the errors of `opener`."""
    if server.key:
        return f"Basic {base64.b64encode(f'api:{server.key}'.encode()).decode()}"
    from urllib.parse import urlencode

    from .identity import get_access_token
    from .network import read_headers

    def exchange(url: str, form: Dict[str, str]) -> Any:
        import urllib.request

        request = urllib.request.Request(url, urlencode(form).encode(), read_headers())
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            return json.loads(answer.read(MAX_REPLY_BYTES))

    return f"Bearer {get_access_token(server.base_url, exchange)}"


def _refusal(server: ServerAddress, error: Any) -> ServerReply:
    from .transport import read_wait

    return ServerReply(
        error.code,
        error=f"{server.base_url} answered {error.code}: {read_reason(error)}",
        retry_after_seconds=read_wait(error.headers),
    )


def read_reason(error: Any) -> str:
    """Return the server's message if a urllib error has one, else the error's reason."""
    try:
        text = server_message(json.loads(error.read(MAX_REPLY_BYTES)))
    except (AttributeError, OSError, ValueError):  # no answer, or not one of a W&B server
        text = ""
    return text or str(getattr(error, "reason", error))


def server_message(body: Any) -> str:
    """Return the first error message of a GraphQL reply; empty if none."""
    try:
        return str(body["errors"][0]["message"])[:MAX_MESSAGE_CHARACTERS]
    except (LookupError, TypeError):
        return ""


class Keys:
    """An agent's keys; `environment`, which its runs inherit, always has the current one."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        self._environment = environment
        file = environment.get(KEY_FILE_VARIABLE, "")
        self.given = (_read(file) if file else "") or environment.get(KEY_VARIABLE, "")
        self.use(self.given)

    @property
    def current(self) -> str:
        return self._environment[KEY_VARIABLE]

    @property
    def own(self) -> bool:
        """Return True if the agent has its own key, which W&B's own servers never create."""
        return self.current != self.given

    def use(self, key: str) -> None:
        self._environment[KEY_VARIABLE] = key


def choose_key() -> str:
    return os.urandom(KEY_BYTES).hex()


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


@dataclass(frozen=True)
class Answer:
    """The preflight answer; without one, `status` is 0 or HOPELESS, and `error` says why."""

    status: int
    viewer: bool = False
    sweep_state: str = ""
    error: str = ""
    retry_after_seconds: float = 0.0
    program: str = ""
    metric: str = ""


@dataclass(frozen=True)
class TryAgain:
    """A transient failure: retry, after at least `seconds` if the server asked for it."""

    reason: str
    seconds: float


def judge_preflight(answer: Answer) -> Union[AgentExit, TryAgain, None]:
    """Decide whether an agent can start now (None), later (TryAgain), or never (AgentExit).

    Only a permanent error ends a supervisor; it waits for transient errors to pass.
    """
    if answer.status == HOPELESS:
        return AgentExit(MISCONFIGURED, answer.error)
    if answer.status in (401, 403):
        return AgentExit(MISCONFIGURED, f"the key was refused: {answer.error}")
    if answer.status != 200 or (answer.error and not _REFUSED_FOR_GOOD.search(answer.error)):
        return TryAgain(answer.error, answer.retry_after_seconds)
    if not answer.viewer:
        return AgentExit(MISCONFIGURED, "the server does not know the key")
    if not answer.sweep_state:
        return AgentExit(MISCONFIGURED, f"no such sweep: {answer.error or 'the server knows none'}")
    if answer.sweep_state in SWEEP_ENDED:
        return AgentExit(FINISHED, f"the sweep was already {answer.sweep_state}")
    return None


def get_sweep_state(server: ServerAddress, sweep_path: str) -> Answer:
    entity, project, sweep = sweep_path.split("/")
    viewer = ask(server, VIEWER, {})
    if viewer.status != 200 or viewer.error or not viewer.data.get("viewer"):
        return Answer(viewer.status, False, "", viewer.error, viewer.retry_after_seconds)
    variables = {"entity": entity, "project": project, "sweep": sweep}
    reply = ask(server, SWEEP_STATE, variables)
    found = (reply.data.get("project") or {}).get("sweep") or {}
    if not found and (reply.error or reply.status != 200):
        return Answer(reply.status, True, "", reply.error, reply.retry_after_seconds)
    config = str(found.get("config") or "")
    program, metric = (find_word(pattern, config) for pattern in (PROGRAM, METRIC))
    state = str(found.get("state", "")).upper()
    return Answer(200, True, state, program=program, metric=metric)


def find_word(pattern: Pattern[str], config: str) -> str:
    """Return the match of PROGRAM or METRIC in a sweep's YAML; empty if none."""
    found = pattern.search(config)
    return found.group(1).strip() if found else ""


def bring_own_key(
    server: ServerAddress, sweep_path: str, agent: str, key: str, node: str = ""
) -> ServerReply:
    """Register our own key, newer than the given one; idempotent.

    From then on the server refuses older keys of this agent, such as that of our predecessor on an
    unreachable node. W&B's own server does not have this mutation, and an older backend does not
    accept `node`.
    """
    variables = {"sweepPath": sweep_path, "agentName": agent, "key": key}
    if node:
        reply = ask(server, OWN_KEY_ON_NODE, {**variables, "node": node})
        if reply.passing or not reply.error:
            return reply
    return ask(server, OWN_KEY, variables)


# The supervisor's requests to the server. They retry while the server is unreachable, unless the
# supervisor is asked to stop.


class Questions:
    """Sends requests with the current key; calls `tell` with the reason before it waits."""

    def __init__(
        self,
        settings: AgentSettings,
        keys: Keys,
        signals: Signals,
        tell: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._keys = keys
        self._signals = signals
        self._tell = tell
        self.program = ""  # of the sweep, set after the first request
        self.metric = ""  # the same

    def preflight(self) -> Optional[AgentExit]:
        """Retry until it is clear whether an agent can start; return None if it can."""
        tries = 0
        while True:
            verdict = judge_preflight(self._ask())
            if self._signals.asked_to:
                return self._signals.asked_to
            if not isinstance(verdict, TryAgain):
                return verdict
            self._wait_for_server(verdict, tries)
            tries += 1

    def get_final_state(self) -> Optional[str]:
        """Return the sweep's state, empty if unknown to the server; None if unreachable."""
        for tries in range(ASKS_AT_THE_END):
            answer = self._ask()
            verdict = judge_preflight(answer)
            if answer.status == HOPELESS:
                return None
            if self._signals.asked_to or not isinstance(verdict, TryAgain):
                return answer.sweep_state
            self._wait_for_server(verdict, tries)
        return None

    def take_own_key(self) -> Optional[AgentExit]:
        """Register a newer key than that of any earlier supervisor, if the server supports it."""
        server = ServerAddress(self._settings.base_url, self._keys.given)
        path, name, node = self._settings.sweep_path, self._settings.name, self._settings.node
        key = choose_key()
        tries = 0
        while not self._signals.asked_to:
            result = self._signals.find_out(
                lambda: asdict(bring_own_key(server, path, name, key, node)), CHILD_SECONDS
            )
            reply = ServerReply(**result) if result else ServerReply(0, error=BROKEN_OFF)
            if not reply.passing:
                if reply.status == 200 and not reply.error:
                    self._keys.use(key)
                break
            self._wait_for_server(TryAgain(reply.error, reply.retry_after_seconds), tries)
            tries += 1
        return self._signals.asked_to

    def _ask(self) -> Answer:
        server = ServerAddress(self._settings.base_url, self._keys.current)
        path = self._settings.sweep_path
        result = self._signals.find_out(
            lambda: asdict(get_sweep_state(server, path)), CHILD_SECONDS
        )
        answer = Answer(**result) if result else Answer(0, error=BROKEN_OFF)
        self.program = answer.program or self.program
        self.metric = answer.metric or self.metric
        return answer

    def _wait_for_server(self, trouble: TryAgain, tries: int) -> None:
        self._tell(trouble.reason)
        jitter = 0.5 + os.urandom(1)[0] / 255
        seconds = max(trouble.seconds, jitter * min(LONGEST_WAIT_SECONDS, 0.5 * 2 ** min(tries, 9)))
        deadline = time.monotonic() + seconds
        while not self._signals.asked_to and time.monotonic() < deadline:
            self._signals.pause(max(0.0, deadline - time.monotonic()))


def say_goodbye(server: ServerAddress) -> None:
    ask(server, GOODBYE, {}, GOODBYE_SECONDS)
