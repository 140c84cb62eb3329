"""Failures of calls to Kubernetes: as a `KubeError` with a hint, and which to retry."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

from kubernetes.client.exceptions import ApiException, OpenApiException
from kubernetes.config.config_exception import ConfigException
from urllib3 import exceptions as http
from urllib3.exceptions import ReadTimeoutError

from deployer.errors import KubeError
from deployer.kube.objects import Kind
from deployer.waiting import BUSY_STATUSES, COMMAND, NO_ANSWER, double_wait, retry, waiting_for

AGAIN = "type the command again"
HEALTH = "kubectl get --raw /readyz{context}"
REACH = "kubectl cluster-info{context}"
RIGHT = "kubectl auth can-i {verb} {plural}{namespace}{context}"
WEBHOOKS = (
    "ask an administrator: "
    "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations{context}"
)
EXPIRED = "if `date` is right, ask an administrator to renew the API server's certificate"
OTHER_CLUSTER = (
    "get a new kubeconfig of the cluster: this one does not match the server's certificate"
)
SENT = "deployer plan FILE -o yaml shows the manifests"
VIEW = "kubectl config view"
NOT_FOUND = "NotFound"  # Kubernetes' reason for a missing object
NO_SUCH_PATH = "could not find the requested resource"  # or an empty message

# Hints for statuses that say more than that the server is unhealthy.
HINTS: dict[int, str] = {
    400: SENT,
    401: "{renewal}",
    403: RIGHT,
    404: "kubectl get {plural}{namespace}{context}",
    408: AGAIN,
    409: AGAIN,
    413: "send fewer files, or use an image that contains them",
    422: SENT,
    429: "wait a little, then type the command again",
    504: AGAIN,
}
# Texts of the server that need another hint than their status.
REFUSALS: tuple[tuple[str, str], ...] = (
    ("exceeded quota", "kubectl get resourcequota{namespace}{context}"),
    ("failed quota", "kubectl get resourcequota{namespace}{context}"),
    ("violates PodSecurity", SENT),
    ('namespaces "', "kubectl create namespace {name}{context}"),
    ("being terminated", "kubectl get namespace{namespace}{context}"),
    ("failed calling webhook", WEBHOOKS),
    ("field is immutable", "deployer down, then the command again"),
)
# Exceptions of the client and of urllib3 without an answer; the first match applies.
TROUBLES: tuple[tuple[tuple[type[Exception], ...], str, str], ...] = (
    ((http.NameResolutionError,), "its name is unknown", REACH),
    ((http.NewConnectionError,), "it refuses the connection", REACH),
    ((http.ConnectTimeoutError,), "it does not answer", REACH),
    ((http.ReadTimeoutError,), "no answer in time", AGAIN),
    ((http.ProxyError, http.ProxySchemeUnknown), "the proxy refused", "see HTTPS_PROXY, NO_PROXY"),
    ((http.SSLError, ssl.SSLError), "its certificate is not trusted", REACH),
    ((http.ProtocolError,), "the answer was cut off", AGAIN),
    ((http.LocationValueError, ConfigException), "the kubeconfig is wrong", VIEW),
    ((json.JSONDecodeError, UnicodeDecodeError), "the answer is not from Kubernetes", REACH),
    # Its text may contain the token.
    (
        (ValueError,),
        "the client cannot send it: check that the kubeconfig's token is one line",
        VIEW,
    ),
    ((http.HTTPError, OpenApiException, OSError), "the connection failed", REACH),
)
# The request was sent, and its effect is unknown unless it only read.
UNANSWERED = (http.ReadTimeoutError, http.ProtocolError)
# Verbs of `kubectl auth can-i` that differ from ours.
VERBS = {"read": "get", "read the log of": "get", "forward a port of": "create"}
READS = ("get", "read", "list", "watch")
CATCHABLE = tuple(kind for kinds, _, _ in TROUBLES for kind in kinds)
T = TypeVar("T")
LONGEST_WAIT_SECONDS = 30.0
FORBIDDEN_SECONDS = 60.0
FORBIDDEN_PAUSE_SECONDS = 2.0
# RBAC's text for a refusal; quotas and policies use other texts.
REFUSED_BY_RULES = re.compile(r'\bUser ".*" cannot ')


@dataclass(frozen=True)
class ApiCall:
    """A call and its target: `server` is an address, `context` the kubeconfig's name for it.

    `renewal` is the hint for when the server does not know the user.
    """

    verb: str
    kind: Kind
    name: str
    namespace: str
    context: str
    server: str
    renewal: str = "log in again"

    @property
    def words(self) -> str:
        """The failed action, for an error's first line."""
        named = f"{self.kind.kind} {self.name}".strip()
        where = f"in namespace {self.namespace}" if self.namespace else "in any namespace"
        return f"cannot {self.verb} {named} {where}"

    @property
    def place(self) -> str:
        """The API server's address and context."""
        return f"the API server at {self.server}" + (
            f" (context {self.context})" if self.context else ""
        )

    def hint(self, template: str) -> str:
        """Fill in a hint, so that its command can be pasted."""
        return template.format(
            verb=VERBS.get(self.verb, self.verb),
            plural=f"{self.kind.plural}.{self.kind.group}".rstrip("."),
            namespace=f" -n {self.namespace}" if self.namespace else " -A",
            name=self.namespace,
            renewal=self.renewal,
            context=f" --context {self.context}" if self.context else "",
        )


def translate_error(error: Exception, attempt: ApiCall) -> KubeError:
    """Return the error for the user; the server's own sentence stays unchanged."""
    if isinstance(error, ApiException) and error.status:
        return _translate_answer(error, attempt)
    cause = _find_cause(error)
    said, hint = next((said, hint) for kinds, said, hint in TROUBLES if isinstance(cause, kinds))
    if isinstance(cause, UNANSWERED) and attempt.verb not in READS:
        said += "; the server may have done it anyway"
    if words := getattr(_find_certificate(cause), "verify_message", ""):
        said += f": {words}"
        hint = EXPIRED if "expired" in words or "not yet valid" in words else OTHER_CLUSTER
    where = f" (context {attempt.context})" if attempt.context else ""
    return KubeError(
        f"{attempt.words}: {attempt.server}{where}: {said}", attempt.hint(hint), status=NO_ANSWER
    )


def _find_cause(error: Exception) -> Exception:
    cause: BaseException | None = error
    while isinstance(cause, ApiException | http.MaxRetryError):
        inner = cause.reason if isinstance(cause, http.MaxRetryError) else None
        cause = inner or cause.__cause__ or cause.__context__
    return cause if isinstance(cause, CATCHABLE) else error


def _find_certificate(cause: BaseException) -> BaseException | None:
    inner = next((one for one in cause.args if isinstance(one, ssl.SSLError)), cause.__cause__)
    return cause if isinstance(cause, ssl.SSLCertVerificationError) else inner


def _translate_answer(error: ApiException, attempt: ApiCall) -> KubeError:
    status = int(error.status or 0)
    answer = _read_status(error.body)
    if status == HTTPStatus.NOT_FOUND and NO_SUCH_PATH in answer.get("message", NO_SUCH_PATH):
        return build_missing_kind(attempt)
    said = str(answer.get("message") or "").rstrip(": ")  # a refusal may give no reason
    sentence = said or f"the server answers {status} {error.reason}"
    hint = next((h for words, h in REFUSALS if words in sentence), HINTS.get(status, HEALTH))
    return KubeError(
        f"{attempt.words}: {sentence}",
        attempt.hint(hint),
        status=status,
        reason=str(answer.get("reason") or ""),
        retry_after_seconds=_read_retry_after(error),
    )


def build_missing_kind(attempt: ApiCall) -> KubeError:
    """Return the error for a kind that the server does not have, unlike a missing object."""
    kind = attempt.kind
    return KubeError(
        f"{attempt.words}: the server has no kind {kind.kind} in {kind.api_version}",
        attempt.hint("kubectl api-resources{context}"),
        status=HTTPStatus.NOT_FOUND,
    )


def _read_status(body: Any) -> dict[str, Any]:
    """Return the server's `Status` object; empty for a proxy's HTML page."""
    try:
        answer = json.loads(body or "")
    except (ValueError, TypeError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _read_retry_after(error: ApiException) -> float | None:
    try:
        return max(0.0, float((error.headers or {}).get("Retry-After", "")))
    except ValueError:
        return None


class Resender:
    """Sends requests of one client, and retries where that is safe and may help.

    A starting server refuses every user until it has loaded its rules. So a request that was
    allowed before and is forbidden now is retried for a minute. `sleep` waits.
    """

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self._sleep = sleep
        self._allowed: set[tuple[str, str]] = set()

    def send(self, send: Callable[[], T], attempt: ApiCall, repeatable: bool) -> T:
        """Send a request; raises KubeError once a retry is useless."""
        right = (attempt.verb, attempt.kind.plural)

        def ask() -> T:
            try:
                with waiting_for(attempt.place):
                    return send()
            except CATCHABLE as error:
                raise translate_error(error, attempt) from error

        def may_pass(failure: KubeError) -> bool:
            if COMMAND.gives_up or isinstance(failure.__cause__, ReadTimeoutError):
                return False
            return failure.passing if repeatable else failure.status in BUSY_STATUSES

        left = FORBIDDEN_SECONDS
        while True:
            try:
                answer = retry(ask, KubeError, may_pass, self._sleep, _wait_seconds)
            except KubeError as failure:
                lacks_right = failure.forbidden and REFUSED_BY_RULES.search(failure.message)
                if not lacks_right or right not in self._allowed or left <= 0:
                    raise
                self._sleep(FORBIDDEN_PAUSE_SECONDS)
                left -= FORBIDDEN_PAUSE_SECONDS
            else:
                self._allowed.add(right)
                return answer


def _wait_seconds(failure: KubeError, tries: int) -> float:
    """Return how long to wait: as long as the server asks, else with exponential backoff."""
    asked = failure.retry_after_seconds
    return double_wait(failure, tries) if asked is None else min(LONGEST_WAIT_SECONDS, asked)
