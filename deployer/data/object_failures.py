"""Errors of object stores as one line with a hint, never with a key in it.

Depends on the store's error codes and on classes of exceptions. Codes: Amazon's
https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html and those of other servers.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from deployer.errors import DataError
from deployer.waiting import is_passing, waiting_for

WRONG_KEY = "the access key is unknown"
AGAIN = "type the command again: it resumes where it stopped"
ASK = "ask the object store's administrator: its log says why"
CHANGED = ("the object changed during the copy", "type the command again")
# Code: message, hint.
REFUSALS = {
    "InvalidAccessKeyId": (WRONG_KEY, "check AWS_ACCESS_KEY_ID, or AWS_PROFILE"),
    "XAdminUserNotFound": (WRONG_KEY, "check AWS_ACCESS_KEY_ID, or AWS_PROFILE"),
    "SignatureDoesNotMatch": ("the secret key is wrong", "check AWS_SECRET_ACCESS_KEY"),
    "NoSuchBucket": ("bucket not found", "make it, or correct `url:` in deployer.yaml"),
    "AccessDenied": ("access is denied", "ask for read and write access to it"),
    "AllAccessDisabled": ("access is denied", "ask for read and write access to it"),
    "ExpiredToken": ("the credentials have expired", "log in again, or renew AWS_SESSION_TOKEN"),
    "InvalidToken": ("the session token is wrong", "renew AWS_SESSION_TOKEN, or unset it"),
    "RequestTimeTooSkewed": ("this machine's clock is wrong", "set it: timedatectl"),
    "PermanentRedirect": ("the bucket is in another region", "export AWS_REGION=ITS_REGION"),
    "AuthorizationHeaderMalformed": (
        "the bucket is in another region",
        "export AWS_REGION=ITS_REGION",
    ),
    "InvalidBucketName": ("the bucket's name is invalid", "correct `url:` in deployer.yaml"),
    "NoSuchKey": ("the object is gone", "type the command again"),
    "PreconditionFailed": CHANGED,
    # HEAD has no body, so the status is the only code.
    "301": ("the bucket is in another region", "export AWS_REGION=ITS_REGION"),
    "403": ("access is denied", "check the credentials, and that they may read and write it"),
    "404": ("the object is gone", "type the command again"),
    "412": CHANGED,
}
NO_CREDENTIALS = (
    "there are no credentials for it",
    "export AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=…, or write ~/.aws/credentials",
)
NO_PROFILE = ("profile not found", "check AWS_PROFILE and ~/.aws/credentials")
GOOGLE_HINT = "gcloud auth application-default login, or GOOGLE_APPLICATION_CREDENTIALS=FILE"
GOOGLE_REFUSALS = {
    401: ("the credentials are not valid", GOOGLE_HINT),
    403: ("access is denied", "ask for read and write access to it"),
    404: ("bucket not found", "make it, or correct `url:` in deployer.yaml"),
}
UNREACHABLE = ("cannot be reached", "check `endpoint_url:` or AWS_ENDPOINT_URL, and the network")
UNTRUSTED = ("its certificate is not trusted", "export AWS_CA_BUNDLE=FILE, the authority's PEM")
GONE = ("404", "NoSuchKey", "NoSuchUpload")


@contextmanager
def translating(place: str) -> Iterator[None]:
    """Log slow steps, and translate the client's errors about a location to a DataError."""
    try:
        with waiting_for(place):
            yield
    except DataError:
        raise
    except Exception as error:
        found = translate(error, place)
        if found is None:
            raise
        raise found from error


def translate(error: BaseException, place: str) -> DataError | None:
    """Translate one of the client's errors; None for errors of no object store."""
    code, status = find_code(error), find_status(error)
    if code:
        said, hint = REFUSALS.get(code, (f"refused: {code}", ASK))
        return DataError(f"{place}: {said}", hint, passing=is_passing(status or 400))
    known = _translate_client(error) or _translate_google(error)
    if known is not None:
        return DataError(f"{place}: {known[0]}", known[1], passing=known is UNREACHABLE)
    if isinstance(error, FileNotFoundError):
        return DataError(f"{place}: not found", "correct `url:` in deployer.yaml")
    if isinstance(error, PermissionError):
        return DataError(f"{place}: access is denied", "check the credentials")
    if isinstance(error, OSError) and error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return DataError(f"{place}: {error.strerror or error}", AGAIN, passing=True)
    return None


def find_code(error: BaseException) -> str:
    """Return the store's code for an error, empty if there is none."""
    for one in _causes(error):
        response = getattr(one, "response", None)
        if isinstance(response, dict) and "Error" in response:
            return str(response["Error"].get("Code", ""))
    return ""


def find_status(error: BaseException) -> int:
    for one in _causes(error):
        response = getattr(one, "response", None)
        if isinstance(response, dict):
            return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    return 0


def is_gone(error: BaseException) -> bool:
    return find_code(error) in GONE


def is_timeout(error: BaseException) -> bool:
    return any("Timeout" in type(one).__name__ for one in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__


def _translate_google(error: BaseException) -> tuple[str, str] | None:
    """Translate an error of Google's client; its refusals have the HTTP status as their code."""
    from google.auth.exceptions import GoogleAuthError

    if isinstance(error, GoogleAuthError):
        return "no credentials that Google accepts", GOOGLE_HINT
    code = getattr(error, "code", None)
    if isinstance(code, int):
        return GOOGLE_REFUSALS.get(code, (f"refused: HTTP status {code}", ASK))
    return None


def _translate_client(error: BaseException) -> tuple[str, str] | None:
    """Translate an error of the client itself, before or without an answer."""
    from aiohttp import ClientError as HttpError

    if isinstance(error, HttpError | TimeoutError):
        return UNREACHABLE
    try:
        from botocore import exceptions as client
    except ImportError:  # only Google's client is installed
        return None
    if isinstance(error, client.NoCredentialsError | client.PartialCredentialsError):
        return NO_CREDENTIALS
    if isinstance(error, client.ProfileNotFound):
        return NO_PROFILE
    if isinstance(error, client.SSLError):
        return UNTRUSTED
    if isinstance(error, client.ConnectionError | client.HTTPClientError):
        return UNREACHABLE
    if isinstance(error, client.BotoCoreError):
        return f"the client says {type(error).__name__}", "check AWS_… in the environment"
    return None
