"""Every way in which a call to Google's cloud can fail, as a `CloudError` with a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import requests
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.rpc import code_pb2

from deployer.errors import CloudError
from deployer.gke.capacity import QUOTA, STOCKOUT, read_quotas
from deployer.gke.spec_parts import region_of

AGAIN = "type the command again"
LATER = "wait a minute, then type the command again"
REPORT = "please report this"
EDIT = "deployer cluster plan shows what is sent; mend the specification"
LOGIN = (
    "gcloud auth application-default login, or name a key's file in GOOGLE_APPLICATION_CREDENTIALS"
)
RIGHTS = (
    "you need the role {role}: https://console.cloud.google.com/iam-admin/iam?project={project}"
)
ROLES = {
    "container.googleapis.com": "Kubernetes Engine Admin (roles/container.admin)",
    "compute.googleapis.com": "Compute Admin (roles/compute.admin)",
}
LOOK = "deployer cluster list"
REACH = (
    "see HTTPS_PROXY and your network; https://status.cloud.google.com tells of Google's troubles"
)
QUOTAS_PAGE = "https://console.cloud.google.com/iam-admin/quotas?project={project}"
ELSEWHERE = "name more locations or gpus in the specification, or wait: --wait-for-capacity 2h"
ENABLE = "gcloud services enable {api} --project {project}"
UP = "deployer cluster up goes on, deployer cluster down removes it"


class Row(NamedTuple):
    """Google's word for a failure, what is said if Google says nothing, and what to do."""

    reason: str
    said: str
    hint: str


# Every class of the client's exceptions; the nearest one counts.
CALLS: dict[type[BaseException], Row] = {
    api.GoogleAPICallError: Row("UNKNOWN", "the call failed", REPORT),
    api.Redirection: Row("REDIRECTED", "the address has moved", REPORT),
    api.MovedPermanently: Row("REDIRECTED", "the address has moved", REPORT),
    api.NotModified: Row("REDIRECTED", "nothing has changed", REPORT),
    api.TemporaryRedirect: Row("REDIRECTED", "the address has moved for now", AGAIN),
    api.ResumeIncomplete: Row("REDIRECTED", "the upload is not complete", AGAIN),
    api.ClientError: Row("INVALID_ARGUMENT", "Google refuses the request", REPORT),
    api.BadRequest: Row("INVALID_ARGUMENT", "Google cannot read what was sent", EDIT),
    api.InvalidArgument: Row("INVALID_ARGUMENT", "a value is wrong", EDIT),
    api.FailedPrecondition: Row("FAILED_PRECONDITION", "it cannot be done now", LOOK),
    api.OutOfRange: Row("OUT_OF_RANGE", "a value is out of its range", EDIT),
    api.Unauthorized: Row("UNAUTHENTICATED", "Google does not know who you are", LOGIN),
    api.Unauthenticated: Row("UNAUTHENTICATED", "Google does not know who you are", LOGIN),
    api.Forbidden: Row("PERMISSION_DENIED", "you may not", RIGHTS),
    api.PermissionDenied: Row("PERMISSION_DENIED", "you may not", RIGHTS),
    api.NotFound: Row("NOT_FOUND", "there is no such thing", LOOK),
    api.MethodNotAllowed: Row("METHOD_NOT_ALLOWED", "Google does not allow this", REPORT),
    api.Conflict: Row("ABORTED", "somebody else changes the same thing", AGAIN),
    api.AlreadyExists: Row("ALREADY_EXISTS", "it is there already", LOOK),
    api.Aborted: Row("ABORTED", "somebody else changes the same thing", AGAIN),
    api.LengthRequired: Row("INVALID_ARGUMENT", "the request's length is missing", REPORT),
    api.PreconditionFailed: Row("FAILED_PRECONDITION", "it has changed in between", AGAIN),
    api.RequestRangeNotSatisfiable: Row("OUT_OF_RANGE", "there is no such part", REPORT),
    api.TooManyRequests: Row("RESOURCE_EXHAUSTED", "too many requests", LATER),
    api.ResourceExhausted: Row("RESOURCE_EXHAUSTED", "too many requests", LATER),
    api.Cancelled: Row("CANCELLED", "the call was cancelled", AGAIN),
    api.ServerError: Row("INTERNAL", "Google failed", LATER),
    api.InternalServerError: Row("INTERNAL", "Google failed", LATER),
    api.Unknown: Row("UNKNOWN", "Google failed and does not say why", LATER),
    api.DataLoss: Row("DATA_LOSS", "Google has lost data", REPORT),
    api.MethodNotImplemented: Row("UNIMPLEMENTED", "this server cannot do it", REPORT),
    api.BadGateway: Row("UNAVAILABLE", "something between here and Google failed", LATER),
    api.ServiceUnavailable: Row("UNAVAILABLE", "Google does not answer", REACH),
    api.GatewayTimeout: Row("DEADLINE_EXCEEDED", "no answer in time", AGAIN),
    api.DeadlineExceeded: Row("DEADLINE_EXCEEDED", "no answer in time", AGAIN),
    api.ResumableTransferError: Row("UNAVAILABLE", "the transfer stopped", AGAIN),
    api.TransferStalledError: Row("UNAVAILABLE", "the transfer stopped", AGAIN),
    api.UnseekableStreamError: Row("UNKNOWN", "the transfer cannot be repeated", AGAIN),
    api.UploadCancelledError: Row("CANCELLED", "the transfer was cancelled", AGAIN),
    api.MissingStatusHeaderError: Row("UNKNOWN", "the answer is not complete", AGAIN),
    api.RetryError: Row("DEADLINE_EXCEEDED", "no answer, although asked several times", REACH),
    api.DuplicateCredentialArgs: Row("UNAUTHENTICATED", "credentials are named twice", REPORT),
    api.GoogleAPIError: Row("UNKNOWN", "the client failed", REPORT),
    auth.DefaultCredentialsError: Row("UNAUTHENTICATED", "there are no credentials", LOGIN),
    auth.MalformedError: Row("UNAUTHENTICATED", "the credentials cannot be read", LOGIN),
    auth.InvalidResource: Row("UNAUTHENTICATED", "the credentials name a wrong resource", LOGIN),
    auth.InvalidOperation: Row("UNAUTHENTICATED", "the credentials cannot do this", LOGIN),
    auth.InvalidValue: Row("UNAUTHENTICATED", "the credentials hold a wrong value", LOGIN),
    auth.InvalidType: Row("UNAUTHENTICATED", "the credentials hold a wrong value", LOGIN),
    auth.OSError: Row("UNAUTHENTICATED", "the credentials cannot be read", LOGIN),
    auth.RefreshError: Row("UNAUTHENTICATED", "the credentials are no longer good", LOGIN),
    auth.ReauthFailError: Row("UNAUTHENTICATED", "Google wants you to log in again", LOGIN),
    auth.ReauthSamlChallengeFailError: Row(
        "UNAUTHENTICATED", "Google wants you to log in again", LOGIN
    ),
    auth.UserAccessTokenError: Row("UNAUTHENTICATED", "gcloud gives no token", LOGIN),
    auth.OAuthError: Row("UNAUTHENTICATED", "the credentials were refused", LOGIN),
    auth.MutualTLSChannelError: Row("UNAUTHENTICATED", "the client's certificate is wrong", LOGIN),
    auth.ClientCertError: Row("UNAUTHENTICATED", "the client's certificate is wrong", LOGIN),
    auth.ResponseError: Row("UNAVAILABLE", "the answer is not Google's", REACH),
    auth.TimeoutError: Row("UNAVAILABLE", "no answer in time", REACH),
    auth.TransportError: Row("UNAVAILABLE", "Google cannot be reached", REACH),
    auth.GoogleAuthError: Row("UNAUTHENTICATED", "the credentials cannot be used", LOGIN),
    # What the compute client lets through: it speaks HTTP.
    requests.RequestException: Row("UNAVAILABLE", "Google cannot be reached", REACH),
    OSError: Row("UNAVAILABLE", "Google cannot be reached", REACH),
}
CATCHABLE: tuple[type[BaseException], ...] = (
    api.GoogleAPIError,
    auth.GoogleAuthError,
    requests.RequestException,
    OSError,
)
# Why a cluster or a pool is in trouble: google.container.v1.StatusCondition.Code.
CONDITIONS: dict[str, str] = {
    "UNKNOWN": UP,
    STOCKOUT: ELSEWHERE,
    "GKE_SERVICE_ACCOUNT_DELETED": ENABLE,
    QUOTA: f"ask for more {{quotas}}: {QUOTAS_PAGE}",
    "SET_BY_OPERATOR": "https://console.cloud.google.com/support?project={project}",
    "CLOUD_KMS_KEY_ERROR": RIGHTS,
    "CA_EXPIRING": "gcloud container clusters update {name} --location {location} "
    "--start-credential-rotation --project {project}",
    "NODE_SERVICE_ACCOUNT_MISSING_PERMISSIONS": RIGHTS,
    "CLOUD_KMS_KEY_DESTROYED": "deployer cluster down, then deployer cluster up",
}
# Google's words that tell more than the class does: pattern, reason, hint.
SENTENCES: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(
            r"not have enough resources available|ZONE_RESOURCE_POOL_EXHAUSTED|GCE_STOCKOUT"
            r"|currently unavailable in the"
        ),
        STOCKOUT,
        CONDITIONS[STOCKOUT],
    ),
    (re.compile(r"Quota exceeded for quota metric"), "RESOURCE_EXHAUSTED", LATER),
    (
        re.compile(r"nsufficient (\w+ )?quota|[Qq]uota '[\w.-]+' exceeded|QUOTA_EXCEEDED"),
        QUOTA,
        CONDITIONS[QUOTA],
    ),
    (re.compile(r"has not been used in project|it is disabled"), "SERVICE_DISABLED", ENABLE),
    (
        re.compile(r"[Bb]illing"),
        "BILLING_DISABLED",
        "https://console.cloud.google.com/billing/linkedaccount?project={project}",
    ),
    (re.compile(r"incompatible operation|operation in progress"), "FAILED_PRECONDITION", LATER),
    (re.compile(r"is already being used by|is not ready"), "RESOURCE_IN_USE", LATER),
    (re.compile(r"metadata from plugin failed|invalid_grant"), "UNAUTHENTICATED", LOGIN),
    (
        re.compile(r"CERTIFICATE_VERIFY_FAILED|certificate verify failed"),
        "CERTIFICATE",
        "the connection's certificate is not trusted: see your proxy, REQUESTS_CA_BUNDLE and "
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    ),
)
# No answer came, or none that tells what happened: what was asked may have been done.
UNCERTAIN = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN", "CANCELLED"})
PASSING = UNCERTAIN | {"RESOURCE_EXHAUSTED", "ABORTED"}

_SECRETS = re.compile(
    r"ya29\.[\w.-]+|eyJ[\w-]+\.[\w.-]+|(?<=Bearer )\S+|-----BEGIN[^-]+-----[\s\S]*?(-----END|$)"
)


@dataclass(frozen=True)
class Attempt:
    """What was tried on what: for an error's first line and the words of its hint."""

    words: str
    project: str
    location: str = ""
    name: str = ""
    api: str = "container.googleapis.com"

    def hint(self, template: str, sentence: str) -> str:
        """Fill in a hint: a command, an address or an edit."""
        quotas = " and ".join(read_quotas(sentence)) or "quota"
        if self.location and "ALL_REGIONS" not in quotas:
            quotas = f"{quotas} in {region_of(self.location)}"
        return template.format(
            project=self.project or "PROJECT",
            location=self.location or "LOCATION",
            name=self.name,
            api=self.api,
            role=ROLES[self.api],
            quotas=quotas,
        )


def translate_error(error: BaseException, attempt: Attempt) -> CloudError:
    """Return what the user is told of a failed call; Google's own sentence stays as it is."""
    row = next(CALLS[kind] for kind in type(error).__mro__ if kind in CALLS)
    sentence = _read_sentence(error) or row.said
    reason, hint = _refine(sentence, _read_reason(error), row.reason, row.hint)
    return CloudError(f"{attempt.words}: {sentence}", attempt.hint(hint, sentence), reason)


def build_failure(
    attempt: Attempt, code: int, sentence: str, conditions: Iterable[tuple[str, str]] = ()
) -> CloudError:
    """Return what the user is told of an operation that failed.

    `code` is google.rpc's, `conditions` are names of google.container.v1.StatusCondition.Code with
    their sentences.
    """
    known = tuple(conditions)
    said = scrub(sentence or next((text for _, text in known if text), "") or "it failed")
    # Capacity is what can be tried elsewhere, so it counts before what else is said.
    name = next((one for one, _ in sorted(known, key=_is_minor) if one != "UNKNOWN"), "")
    if name:
        return CloudError(
            f"{attempt.words}: {said}", attempt.hint(CONDITIONS.get(name, UP), said), name
        )
    usual = code_pb2.Code.Name(code) if code in code_pb2.Code.values() else "UNKNOWN"
    if usual == "RESOURCE_EXHAUSTED":  # of an operation, unlike of a call, it is machines
        usual, fallback = STOCKOUT, ELSEWHERE
    else:
        fallback = RIGHTS if usual == "PERMISSION_DENIED" else UP
    reason, hint = _refine(said, "", usual, fallback)
    return CloudError(f"{attempt.words}: {said}", attempt.hint(hint, said), reason)


def is_uncertain(error: CloudError) -> bool:
    """Tell whether what was asked may have been done all the same."""
    return error.reason in UNCERTAIN


def is_passing(error: CloudError) -> bool:
    """Tell whether it may go away by itself."""
    return error.reason in PASSING


def scrub(text: str) -> str:
    """Return a text without tokens and keys, in one line."""
    return " ".join(_SECRETS.sub("[secret]", text).split())


def _is_minor(condition: tuple[str, str]) -> bool:
    return condition[0] not in (STOCKOUT, QUOTA)


def _refine(sentence: str, told: str, reason: str, hint: str) -> tuple[str, str]:
    """Return reason and hint by Google's words, else as they are."""
    if told == "SERVICE_DISABLED":
        return told, ENABLE
    found = next((row for row in SENTENCES if row[0].search(sentence)), None)
    return (found[1], found[2]) if found else (reason, hint)


def _read_reason(error: BaseException) -> str:
    return str(getattr(error, "reason", None) or "") if _is_answer(error) else ""


def _read_sentence(error: BaseException) -> str:
    """Return Google's sentence, with the zones that it names beside it."""
    if not _is_answer(error):
        first = error.args[0] if error.args else ""
        return scrub(str(first))
    answer: Any = error
    sentence = scrub(str(answer.message or ""))
    zones = str((answer.metadata or {}).get("zonesAvailable") or "")
    return f"{sentence} (zonesAvailable: {zones})" if zones else sentence


def _is_answer(error: BaseException) -> bool:
    return isinstance(error, api.GoogleAPICallError)
