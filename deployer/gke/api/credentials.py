"""Limits the time a process waits for Google: per request, and for all unanswered requests."""

from __future__ import annotations

import os
import subprocess
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any, TypeVar

import requests
from requests import Session
from requests.adapters import HTTPAdapter

from deployer.errors import CloudError
from deployer.waiting import TIMEOUTS_SECONDS, run_program, waiting_for

T = TypeVar("T")
CONNECT_SECONDS, READ_SECONDS = TIMEOUTS_SECONDS
# For unanswered requests: to one API, and to all. A command must end within a minute.
API_SECONDS, TOTAL_SECONDS = CONNECT_SECONDS + READ_SECONDS, 45.0
FORGET_SECONDS = 60.0  # then a silent API is tried again, because a watcher runs for days
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
LOGIN = "gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS to a key file"
FILE_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
ASK_GCLOUD, GCLOUD_SECONDS = ("gcloud", "config", "get", "project"), 10.0
TOKEN_INFO = "https://oauth2.googleapis.com/tokeninfo"
# The account that a machine's credentials report until they are refreshed.
UNRESOLVED = "default"


class ApiPatience:
    """The remaining time for APIs that do not answer.

    Once it is used up, nothing is sent to a silent API for a minute.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lost: dict[str, tuple[float, float]] = {}
        self._lock = Lock()

    def get_left(self, api: str) -> float:
        """Return the time limit of a request in seconds; 0 means do not send it."""
        with self._lock:
            now = self._now()
            self._lost = {k: v for k, v in self._lost.items() if now - v[1] < FORGET_SECONDS}
            all_left = TOTAL_SECONDS - sum(seconds for seconds, _ in self._lost.values())
            if api not in self._lost:  # it may answer although others do not
                return max(CONNECT_SECONDS, min(API_SECONDS, all_left))
            return max(0.0, min(API_SECONDS - self._lost[api][0], all_left))

    def note_silence(self, api: str, seconds: float) -> None:
        with self._lock:
            lost = self._lost.get(api, (0.0, 0.0))[0]
            self._lost[api] = (lost + seconds, self._now())

    def note_answer(self, api: str) -> None:
        with self._lock:
            self._lost.pop(api, None)


# Shared by all clients that a command opens, because the minute is for all of them.
PATIENCE = ApiPatience()


class BoundedAdapter(HTTPAdapter):
    """Limits each request, regardless of the timeout of Google's libraries."""

    def send(self, *args: Any, **options: Any) -> Any:
        wanted = options.get("timeout")
        seconds = min(wanted, READ_SECONDS) if isinstance(wanted, (int, float)) else READ_SECONDS
        limits = (min(seconds, CONNECT_SECONDS), seconds)
        return super().send(*args, **{**options, "timeout": limits})


def bound_session(session: Session) -> Session:
    for scheme in ("http://", "https://"):
        session.mount(scheme, BoundedAdapter())
    return session


def call_within(seconds: float, send: Callable[[], T]) -> T:
    """Return the result of `send`; raises TimeoutError.

    Only for calls that change nothing, because the thread may continue after the timeout. Nothing
    else limits name resolution and calls of gcloud.
    """
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(send())
        except BaseException as error:  # it belongs to the caller
            future.set_exception(error)

    Thread(target=work, daemon=True).start()
    return future.result(seconds)


def get_access_token() -> str:
    """Return a token of the application default credentials, valid for about an hour.

    Raises CloudError if there are no credentials, or Google refuses them.
    """
    from google.auth.exceptions import GoogleAuthError

    def send() -> str:
        credentials, _project = find_credentials(named=True)
        refresh(credentials)
        return str(credentials.token)

    try:
        with waiting_for("Google Cloud (log in)"):
            return call_within(READ_SECONDS, send)
    except (GoogleAuthError, TimeoutError) as error:
        said = str(error.args[0] if error.args else "no answer").splitlines()[0]
        raise CloudError(f"Google's credentials: {said}", LOGIN, "UNAUTHENTICATED") from error


def find_credentials(*, named: bool) -> tuple[Any, str]:
    """Return the application default credentials, and their project if it is known.

    Like google.auth.default, which runs gcloud without a timeout; here gcloud runs only if no
    project is `named`. Raises GoogleAuthError.
    """
    import google.auth
    from google.auth import _cloud_sdk
    from google.auth.credentials import with_scopes_if_required

    own: Any = _cloud_sdk
    load: Any = google.auth.load_credentials_from_file
    file = own.get_application_default_credentials_path()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # irrelevant warnings about quota projects
        if os.environ.get(FILE_VARIABLE, file) != file or not os.path.isfile(file):
            found, project = google.auth.default(scopes=[SCOPE], request=_open_request())
            return found, project or ""
        loaded, project = load(file)
    scope: Any = with_scopes_if_required
    return scope(loaded, [SCOPE]), project or ("" if named else _ask_gcloud())


def refresh(credentials: Any) -> None:
    """Fetch a new token; raises GoogleAuthError."""
    credentials.refresh(_open_request())


def _open_request() -> Any:
    import requests
    from google.auth.transport.requests import Request

    return Request(bound_session(requests.Session()))


def _ask_gcloud() -> str:
    try:
        asked = run_program(ASK_GCLOUD, GCLOUD_SECONDS, "gcloud (config get project)")
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if asked.returncode else asked.stdout.decode().strip()


def find_account(credentials: Any, token_info: str = TOKEN_INFO) -> str:
    """Return the account of credentials; empty if Google answers without naming it.

    Raises GoogleAuthError or RequestException if there is no answer: a random id as a fallback
    would make today's owner differ from yesterday's.
    """
    account = _read_account(credentials)
    if account == UNRESOLVED or not (account or credentials.valid):
        refresh(credentials)
        account = _read_account(credentials)
    if account:
        return "" if account == UNRESOLVED else account
    answer = requests.post(
        token_info, data={"access_token": credentials.token}, timeout=TIMEOUTS_SECONDS
    )
    if answer.status_code >= 500:
        answer.raise_for_status()
    return str(answer.json().get("email") or "") if answer.ok else ""


def _read_account(credentials: Any) -> str:
    names = (getattr(credentials, one, None) for one in ("service_account_email", "account"))
    return next((str(name) for name in names if name), "")
