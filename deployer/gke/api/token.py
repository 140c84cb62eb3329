"""An access token of Google for plain HTTP, as image registries need it."""

from __future__ import annotations

from deployer.errors import CloudError

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
LOGIN = (
    "gcloud auth application-default login, or name a key's file in GOOGLE_APPLICATION_CREDENTIALS"
)


def get_access_token() -> str:
    """Return a token of the application default credentials, good for about an hour.

    Raises CloudError where there are none, or Google refuses them.
    """
    import google.auth
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import Request

    try:
        credentials, _project = google.auth.default(scopes=[SCOPE])
        credentials.refresh(Request())  # type: ignore[no-untyped-call]
    except GoogleAuthError as error:
        said = str(error.args[0] if error.args else error).splitlines()[0]
        raise CloudError(f"Google's credentials: {said}", LOGIN, "UNAUTHENTICATED") from error
    return str(credentials.token)
