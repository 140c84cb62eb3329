"""One W&B server and one key: GraphQL over HTTP; every failure is a `WandbError`."""

from __future__ import annotations

import contextlib
import json
import time
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any, Self
from urllib.parse import urlsplit

import requests
from requests import exceptions as http
from requests.adapters import HTTPAdapter
from urllib3.exceptions import ConnectTimeoutError, ReadTimeoutError, SSLError
from urllib3.util.retry import Retry

from deployer import __version__
from deployer.agent import network
from deployer.agent.identity import get_access_token
from deployer.agent.network import HEADERS_VARIABLE, read_headers
from deployer.agent.settings import TOKEN_FILE_VARIABLE
from deployer.agent.transport import build_context, read_wait
from deployer.errors import ConfigError, WandbError
from deployer.waiting import (
    BUSY_STATUSES,
    COMMAND,
    NO_ANSWER,
    PASSING_STATUSES,
    TIMEOUTS_SECONDS,
    waiting_for,
)

CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS = TIMEOUTS_SECONDS
NEAR_READ_TIMEOUT_SECONDS = 15.0  # a local server that takes longer hangs
RETRIED_STATUSES = tuple(status for status in PASSING_STATUSES if status != NO_ANSWER)

NOT_THERE = "check that the server runs and that the address is right"
NOT_WANDB = "is this the address of a W&B server? It must answer POST /graphql"
CERTIFICATES = "export SSL_CERT_FILE=FILE with the certificate of your own authority"
BAD_ADDRESS = "an address looks like https://wandb.example.org"

WHOLE_TRIES = 4  # for an answer that is cut off
LIST_NAMES = """
query Names {
  mutations: __type(name: "Mutation") { fields { name } }
  sweep_fields: __type(name: "Sweep") { fields { name } }
}
"""
NAMED = ("mutations", "sweep_fields")

# Every exception of requests: message and hint. The first matching class counts.
TROUBLES: tuple[tuple[type[http.RequestException], str, str], ...] = (
    (http.SSLError, "the certificate is not trusted", CERTIFICATES),
    (http.ProxyError, "the proxy refused", "see HTTPS_PROXY and NO_PROXY"),
    (http.Timeout, "no answer in time", NOT_THERE),
    (http.ChunkedEncodingError, "the answer was cut off", "try again"),
    (http.ConnectionError, "cannot be reached", NOT_THERE),
    (http.InvalidJSONError, "the answer is not JSON", NOT_WANDB),
    (http.ContentDecodingError, "the answer cannot be decoded", NOT_WANDB),
    (http.StreamConsumedError, "the response was read twice", "please report this"),
    (http.RetryError, "refused too often", "try again later"),
    (http.TooManyRedirects, "too many redirects", NOT_WANDB),
    (http.URLRequired, "is not an address", BAD_ADDRESS),
    (http.MissingSchema, "is not an address", BAD_ADDRESS),
    (http.InvalidSchema, "is not an address", BAD_ADDRESS),
    (http.InvalidURL, "is not an address", BAD_ADDRESS),
    (http.InvalidHeader, "the key cannot be sent", "keys are letters, digits, '-' and '_'"),
    (http.UnrewindableBodyError, "the request could not be sent again", "try again"),
    (http.HTTPError, "refused", NOT_WANDB),
)


class Client:
    """A connection to one server with one key; `key_source` says where the key was found.

    A `near` server, on this machine, has a shorter timeout.
    """

    def __init__(
        self, base_url: str, key: str, key_source: str = "", *, near: bool = False
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.key = key
        self.key_source = key_source
        # The server's clock minus ours, as of its last answer; None if it sent no time.
        self.ahead_seconds: float | None = None
        # One session for repeatable requests and one for the others, because threads share a
        # client.
        self.session, self._careful = self._open(read_retries=3), self._open(read_retries=0)
        self._read_seconds = NEAR_READ_TIMEOUT_SECONDS if near else READ_TIMEOUT_SECONDS

    def _open(self, read_retries: int) -> requests.Session:
        session = open_session(self.base_url, read_retries)
        session.auth = ("api", self.key) if self.key else self.authorize
        session.headers.update(self.gateway_headers)
        return session

    def authorize(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add an access token to a request, if there is an identity token instead of a key."""
        try:
            token = get_access_token(self.base_url, self._exchange)
        except ValueError as error:
            raise ConfigError(TOKEN_FILE_VARIABLE, str(error)) from None
        request.headers["Authorization"] = f"Bearer {token}"
        return request

    def _exchange(self, url: str, form: dict[str, str]) -> dict[str, Any]:
        with open_session(url) as session:
            session.headers.update(self.gateway_headers)
            session.auth = lambda request: request  # no key from netrc
            answer = session.post(url, data=form, timeout=self._timeouts, allow_redirects=False)
        if not answer.ok:
            said = f"{self.base_url}: the identity token is refused: {read_refusal(answer)}"
            raise WandbError(said, f"see {TOKEN_FILE_VARIABLE}", answer.status_code)
        return _json_object(answer.text)

    @cached_property
    def gateway_headers(self) -> dict[str, str]:
        """The headers of WANDB_X_EXTRA_HTTP_HEADERS for this server; raises ConfigError."""
        try:
            return read_headers()
        except ValueError as error:
            raise ConfigError(HEADERS_VARIABLE, str(error)) from None

    def execute(
        self, query: str, variables: dict[str, Any] | None = None, repeatable: bool = True
    ) -> dict[str, Any]:
        """Send one operation and return its `data`.

        With `repeatable=False`, an operation that may have reached the server is not retried.
        Raises WandbError with the server's own sentence.
        """
        question = {"query": query, "variables": variables or {}}
        try:
            with waiting_for(self.words):
                if repeatable:
                    answer = self._post(self.session, question, WHOLE_TRIES)
                else:
                    answer = self._post(self._careful, question, 1)
            if said := answer.headers.get("Date"):
                with contextlib.suppress(ValueError):
                    self.ahead_seconds = parsedate_to_datetime(said).timestamp() - time.time()
            return self._data(answer)
        except http.RequestException as error:
            raise translate(self.base_url, error) from error

    def _post(
        self, session: requests.Session, question: dict[str, Any], tries: int
    ) -> requests.Response:
        """Return the complete answer; the adapter retries everything except a cut-off answer."""
        try:
            return session.post(
                f"{self.base_url}/graphql",
                json=question,
                timeout=self._timeouts,
                allow_redirects=False,
            )
        except http.ChunkedEncodingError:
            if tries == 1:
                raise
            return self._post(session, question, tries - 1)

    def ask_login_code(self) -> str | None:
        """Return a one-time code that signs this key's owner in to the embedded backend's page.

        None if the server has no such codes.
        """
        try:
            with waiting_for(self.words):
                answer = self.session.post(f"{self.base_url}/login/link", timeout=self._timeouts)
            return str(answer.json()["code"]) if answer.ok else None
        except (http.RequestException, KeyError, ValueError, TypeError):
            return None

    @property
    def _timeouts(self) -> tuple[float, float]:
        return COMMAND.limit((CONNECT_TIMEOUT_SECONDS, self._read_seconds))

    @property
    def words(self) -> str:
        return f"the W&B server at {self.base_url}"

    @property
    def mutations(self) -> frozenset[str]:
        """The names of the server's mutations; empty if introspection is disabled."""
        return self._names["mutations"]

    @property
    def sweep_fields(self) -> frozenset[str]:
        """The names of a sweep's fields on the server; empty if introspection is disabled."""
        return self._names["sweep_fields"]

    @cached_property
    def _names(self) -> dict[str, frozenset[str]]:
        try:
            found = self.execute(LIST_NAMES)
        except WandbError as error:
            if error.status in (0, 401, 403):
                raise
            found = {}
        fields = {kind: (found.get(kind) or {}).get("fields") or () for kind in NAMED}
        return {kind: frozenset(str(f["name"]) for f in fields[kind]) for kind in NAMED}

    def _data(self, response: requests.Response) -> dict[str, Any]:
        """Return the reply's `data`, or raise the server's error."""
        body = _json_object(response.text)
        problem = _problem(body)
        if response.ok and not response.is_redirect and not problem and "data" in body:
            return dict(body["data"] or {})
        message = problem or _plain_sentence(response)
        raise WandbError(
            f"{self.base_url}: {message}", self._hint(response, bool(body)), response.status_code
        )

    def _hint(self, response: requests.Response, spoke_json: bool) -> str:
        if response.status_code in (401, 403):
            return f"the key came from {self.key_source}; is it a key of {self.base_url}?"
        if response.is_redirect:
            return f"use the address {response.headers.get('Location', '')}".strip()
        if response.status_code == 429:
            return "the server limits the request rate; wait a minute"
        if response.status_code >= 500:
            return "the server has a problem; its stored data is safe; try again"
        return "" if spoke_json else NOT_WANDB


def open_session(url: str, read_retries: int = 0) -> requests.Session:
    """Return a session for a URL's host, with its proxy and the trusted authorities."""
    session = requests.Session()
    session.headers["User-Agent"] = f"deployer/{__version__}"
    # A proxy cannot reach loopback addresses; NO_PROXY rarely lists them.
    session.trust_env = not is_loopback(url)
    session.mount("http://", HTTPAdapter(max_retries=_retries(read_retries)))
    if url.startswith("https://"):
        session.mount("https://", _Trusting(max_retries=_retries(read_retries)))
    return session


def is_loopback(base_url: str) -> bool:
    """Return True for a loopback address: 127.0.0.1, ::1 or localhost."""
    return network.is_loopback(urlsplit(base_url).hostname or "")


def translate(base_url: str, error: http.RequestException) -> WandbError:
    """Translate an exception of requests to a WandbError with status 0 (no answer came)."""
    for kind, message, hint in TROUBLES:
        if isinstance(error, kind):
            return WandbError(f"{base_url}: {message} ({_reason(error)})", hint, NO_ANSWER)
    return WandbError(f"{base_url}: {error}", NOT_THERE, NO_ANSWER)


class _Trusting(HTTPAdapter):
    """Trusts the system's and the environment's authorities in addition to those of requests."""

    def __init__(self, **options: Any) -> None:
        try:
            self._context = build_context()
        except ValueError as error:
            raise ConfigError("certificates", str(error), CERTIFICATES) from None
        super().__init__(**options)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, ssl_context=self._context, **options)

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        return super().proxy_manager_for(proxy, ssl_context=self._context, **options)


class _Retries(Retry):
    """Retries as `Retry` does, except if that cannot help.

    It cannot help after a read timeout of an accepted request, and for certificate errors.
    """

    def increment(self, *args: Any, **kwargs: Any) -> Self:
        error = kwargs.get("error")
        if isinstance(error, ReadTimeoutError | SSLError):
            raise error
        return super().increment(*args, **kwargs)

    def get_retry_after(self, response: Any) -> float | None:
        return read_wait(response.headers) or None


def _retries(read_retries: int) -> Retry:
    """Return retries that wait as long as the server's answer says, else 0.5, 1, 2 s."""
    return _Retries(
        total=4,
        connect=2,
        read=read_retries,
        status=4,
        backoff_factor=0.5,
        status_forcelist=RETRIED_STATUSES if read_retries else BUSY_STATUSES,
        allowed_methods=None,
        raise_on_status=False,
    )


def _json_object(text: str) -> dict[str, Any]:
    try:
        body = json.loads(text)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _problem(body: dict[str, Any]) -> str:
    """Return the server's sentence from `{"errors":[{"message"}]}` or `{"error": …}`."""
    errors = body.get("errors")
    if isinstance(errors, list) and errors:
        return "; ".join(str(e.get("message", e) if isinstance(e, dict) else e) for e in errors)
    error = body.get("error")
    return str(error) if error else ""


def read_refusal(response: requests.Response) -> str:
    """Return the server's own sentence about a rejected request, else its status."""
    return _problem(_json_object(response.text)) or _plain_sentence(response)


def _plain_sentence(response: requests.Response) -> str:
    return f"HTTP {response.status_code} {response.reason or ''}".strip()


def _reason(error: BaseException) -> str:
    """Return the innermost informative cause; requests wraps it three times."""
    cause: Any = error.args[0] if error.args else error
    while getattr(cause, "reason", None) is not None:
        cause = cause.reason
    if isinstance(cause, ConnectTimeoutError):
        cause = cause.args[-1]  # the arguments before it are the connection object
    text = str(cause) or type(error).__name__
    return text.rsplit(": ", 1)[-1] if "object at 0x" in text or "HTTPConnection" in text else text
