"""Google's application default credentials, and a token of them for plain HTTP."""

from __future__ import annotations

import os
import subprocess
import warnings
from typing import Any

from deployer.errors import CloudError
from deployer.gke.api.patience import READ_SECONDS, bound_session, call_within
from deployer.waiting import run_program, waiting_for

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
LOGIN = (
    "gcloud auth application-default login, or name a key's file in GOOGLE_APPLICATION_CREDENTIALS"
)
FILE_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
ASK_GCLOUD, GCLOUD_SECONDS = ("gcloud", "config", "get", "project"), 10.0


def get_access_token() -> str:
    """Return a token of the application default credentials, good for about an hour.

    Raises CloudError where there are none, or Google refuses them.
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

    As google.auth.default does, which runs gcloud without a limit; here it is asked only where no
    project is `named`. Raises GoogleAuthError.
    """
    import google.auth
    from google.auth import _cloud_sdk
    from google.auth.credentials import with_scopes_if_required

    own: Any = _cloud_sdk
    load: Any = google.auth.load_credentials_from_file
    file = own.get_application_default_credentials_path()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about quota projects, which nobody asked for
        if os.environ.get(FILE_VARIABLE, file) != file or not os.path.isfile(file):
            found, project = google.auth.default(scopes=[SCOPE], request=_open_request())
            return found, project or ""
        loaded, project = load(file)
    scope: Any = with_scopes_if_required
    return scope(loaded, [SCOPE]), project or ("" if named else _ask_gcloud())


def refresh(credentials: Any) -> None:
    """Get another token; raises GoogleAuthError."""
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
