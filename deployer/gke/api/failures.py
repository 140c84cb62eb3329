"""Translates every failure of a call to Google Cloud to a `CloudError` with a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import requests
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.auth.exceptions import TransportError
from google.rpc import code_pb2

from deployer.errors import CloudError
from deployer.gke.api.credentials import LOGIN
from deployer.gke.specification import region_of

STOCKOUT = "GCE_STOCKOUT"
QUOTA = "GCE_QUOTA_EXCEEDED"
# Checks before the creation find these; each concerns one location and one choice of GPUs.
NOT_OFFERED = "NOT_OFFERED"
TOO_LITTLE_QUOTA = "TOO_LITTLE_QUOTA"

FIRST_WAIT_SECONDS = 2.0  # before the next pass over all locations
LONGEST_WAIT_SECONDS = 300.0  # capacity changes within minutes

_ZONE = re.compile(r"\b[a-z]+-[a-z]+[0-9]+-[a-z][a-z0-9]*\b")
# Google names zones with capacity as data (`zonesAvailable: a,b`) and in text ("Consider trying
# your request in the a, b zone(s)").
_NAMED = (
    re.compile(r"zonesAvailable\W{1,4}([a-z0-9 ,-]+)"),
    re.compile(r"[Tt]ry(?:ing)? your request in the ([a-z0-9 ,-]+?) zone"),
)
_QUOTAS = (
    re.compile(r"resource:? \\?\"([A-Z0-9_]+)"),
    re.compile(r"[Qq]uota '([A-Za-z0-9_.-]+)' exceeded"),
)
_GPUS = re.compile(r"nvidia|gpu|accelerator", re.IGNORECASE)
_EVERYWHERE = re.compile(r"ALL_REGIONS|project quota|globally")
AGAIN = "type the command again"
LATER = "wait a minute, then type the command again"
REPORT = "please report this"
EDIT = "deployer gke plan shows the request; fix the specification"
RIGHTS = (
    "you need the role {role}: https://console.cloud.google.com/iam-admin/iam?project={project}"
)
ROLES = {
    "container.googleapis.com": "Kubernetes Engine Admin (roles/container.admin)",
    "compute.googleapis.com": "Compute Admin (roles/compute.admin)",
    "cloudresourcemanager.googleapis.com": "Security Reviewer (roles/iam.securityReviewer)",
    "iam.googleapis.com": "Security Reviewer (roles/iam.securityReviewer)",
}
ACT_AS = (
    "a project owner grants you roles/iam.serviceAccountUser on the nodes' service account: "
    "https://console.cloud.google.com/iam-admin/serviceaccounts?project={project}"
)
# https://cloud.google.com/kubernetes-engine/docs/how-to/service-accounts
NODE_RIGHTS = (
    "the nodes' service account, not yours, lacks rights: gcloud projects add-iam-policy-binding "
    "{project} --role=roles/container.defaultNodeServiceAccount --member=serviceAccount:ACCOUNT"
)
LOOK = "deployer gke list"
REACH = "check HTTPS_PROXY and your network; https://status.cloud.google.com lists Google's outages"
NAMES = "this machine cannot resolve names: check your network, its DNS, and HTTPS_PROXY"
QUOTAS_PAGE = "https://console.cloud.google.com/iam-admin/quotas?project={project}"
ELSEWHERE = "name more locations or gpus in the specification, or wait: --wait-for-capacity 2h"
ENABLE = "gcloud services enable {api} --project {project}"
EMPTY_POOL = "EMPTY_POOL_REFUSED"
PROJECT = "set another project: --project, project: in the specification, GOOGLE_CLOUD_PROJECT"
UP = "deployer gke up continues, deployer gke down removes it"
DOWN = "deployer gke down tries again"
CATCHABLE: tuple[type[BaseException], ...] = (
    api.GoogleAPIError,
    auth.GoogleAuthError,
    requests.RequestException,
    OSError,
)
# Causes of a broken cluster or pool: google.container.v1.StatusCondition.Code.
CONDITIONS: dict[str, str] = {
    "UNKNOWN": UP,
    STOCKOUT: ELSEWHERE,
    "GKE_SERVICE_ACCOUNT_DELETED": ENABLE,
    QUOTA: f"ask for more {{quotas}}: {QUOTAS_PAGE}",
    "SET_BY_OPERATOR": "https://console.cloud.google.com/support?project={project}",
    "CLOUD_KMS_KEY_ERROR": RIGHTS,
    "CA_EXPIRING": "gcloud container clusters update {name} --location {location} "
    "--start-credential-rotation --project {project}",
    "NODE_SERVICE_ACCOUNT_MISSING_PERMISSIONS": NODE_RIGHTS,
    "CLOUD_KMS_KEY_DESTROYED": "deployer gke down, then deployer gke up",
}
# ErrorInfo.reason: https://cloud.google.com/apis/design/errors, google/api/error_reason.proto
REASONS = {
    "SERVICE_DISABLED": ENABLE,
    "CONSUMER_INVALID": PROJECT,  # the project does not exist or was deleted
    "USER_PROJECT_DENIED": "gcloud auth application-default set-quota-project {project}",
}
# Sentences of Google that are more specific than the class: pattern, reason, hint.
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
    # A pool that starts without nodes; it can be made after its cluster.
    (re.compile(r"initial_?node_?count", re.IGNORECASE), EMPTY_POOL, EDIT),
    (re.compile(r"Not found: projects/[^/]+$"), "NOT_FOUND", PROJECT),
    (re.compile(r"incompatible operation|operation in progress"), "FAILED_PRECONDITION", LATER),
    (re.compile(r"is already being used by|is not ready"), "RESOURCE_IN_USE", LATER),
    (
        re.compile(r"iam\.serviceAccount(User|s\.actAs)|access to service account"),
        "PERMISSION_DENIED",
        ACT_AS,
    ),
    (
        re.compile(r"CERTIFICATE_VERIFY_FAILED|certificate verify failed"),
        "CERTIFICATE",
        "the connection's certificate is not trusted: check your proxy, REQUESTS_CA_BUNDLE and "
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    ),
    # Fetching a token needs the network too; a network failure is not a login problem.
    (
        re.compile(
            r"name resolution|Failed to resolve|DNS resolution failed|Name or service not known"
            r"|nodename nor servname|No address associated|getaddrinfo"
        ),
        "UNAVAILABLE",
        NAMES,
    ),
    (
        re.compile(r"plugin failed.*(Connection refused|timed out|unreachable|Connection reset)"),
        "UNAVAILABLE",
        REACH,
    ),
    (re.compile(r"metadata from plugin failed|invalid_grant"), "UNAUTHENTICATED", LOGIN),
)
_SECRETS = re.compile(
    r"ya29\.[\w.-]+|eyJ[\w-]+\.[\w.-]+|(?<=Bearer )\S+|-----BEGIN[^-]+-----[\s\S]*?(-----END|$)"
)


@dataclass(frozen=True)
class CloudRefusal:
    """A refusal by Google: location, choice of GPUs, STOCKOUT or QUOTA, its sentence, a hint.

    Or a refusal predicted by our own checks: NOT_OFFERED, TOO_LITTLE_QUOTA.
    """

    location: str
    reason: str
    sentence: str
    hint: str = ""
    choice: int = 0

    @property
    def everywhere(self) -> bool:
        """Return True if every location would refuse, because the quota is project-wide."""
        return self.reason == QUOTA and bool(_EVERYWHERE.search(self.sentence))

    @property
    def of_gpus(self) -> bool:
        """Return True if only these GPUs are refused; the location may have others."""
        return bool(_GPUS.search(self.sentence))


def is_refusal(reason: str) -> bool:
    """Return True if the reason means that there may be capacity elsewhere or later."""
    return reason in (STOCKOUT, QUOTA)


def next_try(
    locations: Sequence[str], choices: int, refusals: Sequence[CloudRefusal]
) -> tuple[str, int] | None:
    """Return the location and the choice of GPUs to try next; None once all have refused.

    The order is the specification's: all choices that make sense in one location, then the next
    location. Zones that a refusal names as having capacity come right after the location that
    refused, and only in regions that the specification names, because data may have to stay there.
    """
    if any(refusal.everywhere for refusal in refusals):
        return None
    places = (
        (location, choice) for location in _order(locations, refusals) for choice in range(choices)
    )
    return next((one for one in places if not _is_hopeless(*one, refusals)), None)


def _is_hopeless(location: str, choice: int, refusals: Sequence[CloudRefusal]) -> bool:
    """Return True if a refusal also covers this one: a quota counts a region, not only a zone."""
    return any(
        (refusal.choice == choice or not refusal.of_gpus)
        and (
            refusal.location == location
            or (refusal.reason == QUOTA and region_of(refusal.location) == region_of(location))
        )
        for refusal in refusals
    )


def _order(locations: Sequence[str], refusals: Sequence[CloudRefusal]) -> Iterator[str]:
    regions = {region_of(one) for one in locations}
    named = {one.location: read_zones(one.sentence) for one in refusals}
    for location in locations:
        yield location
        reached = [location]
        for place in reached:
            new = [z for z in named.get(place, ()) if z not in reached and region_of(z) in regions]
            reached += new
            yield from new


def wait_seconds(passes: int, left_seconds: float) -> float | None:
    """Return how long to wait before the next pass over all locations; None if time is up."""
    if left_seconds <= 0:
        return None
    return min(FIRST_WAIT_SECONDS * 2.0 ** (passes - 1), LONGEST_WAIT_SECONDS, left_seconds)


def read_zones(sentence: str) -> tuple[str, ...]:
    """Return the zones with capacity that Google's sentence names."""
    found = [
        zone for form in _NAMED for part in form.findall(sentence) for zone in _ZONE.findall(part)
    ]
    return tuple(dict.fromkeys(found))


def read_quotas(sentence: str) -> tuple[str, ...]:
    """Return the quotas that Google's sentence calls too small."""
    return tuple(dict.fromkeys(name for form in _QUOTAS for name in form.findall(sentence)))


class FailureRow(NamedTuple):
    """Google's code for a failure, the default message, and the hint."""

    reason: str
    said: str
    hint: str


# All exceptions of the client; the nearest base class counts.
CALLS: dict[type[BaseException], FailureRow] = {
    api.GoogleAPICallError: FailureRow("UNKNOWN", "the call failed", REPORT),
    api.Redirection: FailureRow("REDIRECTED", "the address has moved", REPORT),
    api.MovedPermanently: FailureRow("REDIRECTED", "the address has moved", REPORT),
    api.NotModified: FailureRow("REDIRECTED", "nothing has changed", REPORT),
    api.TemporaryRedirect: FailureRow("REDIRECTED", "the address has moved for now", AGAIN),
    api.ResumeIncomplete: FailureRow("REDIRECTED", "the upload is not complete", AGAIN),
    api.ClientError: FailureRow("INVALID_ARGUMENT", "Google refuses the request", REPORT),
    api.BadRequest: FailureRow("INVALID_ARGUMENT", "Google cannot parse the request", EDIT),
    api.InvalidArgument: FailureRow("INVALID_ARGUMENT", "a value is invalid", EDIT),
    api.FailedPrecondition: FailureRow(
        "FAILED_PRECONDITION", "it is not possible in the current state", LOOK
    ),
    api.OutOfRange: FailureRow("OUT_OF_RANGE", "a value is out of range", EDIT),
    api.Unauthorized: FailureRow("UNAUTHENTICATED", "Google cannot identify you", LOGIN),
    api.Unauthenticated: FailureRow("UNAUTHENTICATED", "Google cannot identify you", LOGIN),
    api.Forbidden: FailureRow("PERMISSION_DENIED", "you do not have permission", RIGHTS),
    api.PermissionDenied: FailureRow("PERMISSION_DENIED", "you do not have permission", RIGHTS),
    api.NotFound: FailureRow("NOT_FOUND", "not found", LOOK),
    api.MethodNotAllowed: FailureRow("METHOD_NOT_ALLOWED", "Google does not allow this", REPORT),
    api.Conflict: FailureRow("ABORTED", "another request is changing the same resource", AGAIN),
    api.AlreadyExists: FailureRow("ALREADY_EXISTS", "it already exists", LOOK),
    api.Aborted: FailureRow("ABORTED", "another request is changing the same resource", AGAIN),
    api.LengthRequired: FailureRow("INVALID_ARGUMENT", "the request has no length", REPORT),
    api.PreconditionFailed: FailureRow(
        "FAILED_PRECONDITION", "it has changed in the meantime", AGAIN
    ),
    api.RequestRangeNotSatisfiable: FailureRow(
        "OUT_OF_RANGE", "the requested range does not exist", REPORT
    ),
    api.TooManyRequests: FailureRow("RESOURCE_EXHAUSTED", "too many requests", LATER),
    api.ResourceExhausted: FailureRow("RESOURCE_EXHAUSTED", "too many requests", LATER),
    api.Cancelled: FailureRow("CANCELLED", "the call was cancelled", AGAIN),
    api.ServerError: FailureRow("INTERNAL", "Google failed", LATER),
    api.InternalServerError: FailureRow("INTERNAL", "Google failed", LATER),
    api.Unknown: FailureRow("UNKNOWN", "Google failed and does not say why", LATER),
    api.DataLoss: FailureRow("DATA_LOSS", "Google has lost data", REPORT),
    api.MethodNotImplemented: FailureRow("UNIMPLEMENTED", "the server does not support it", REPORT),
    api.BadGateway: FailureRow("UNAVAILABLE", "a gateway on the way to Google failed", LATER),
    api.ServiceUnavailable: FailureRow("UNAVAILABLE", "Google does not answer", REACH),
    api.GatewayTimeout: FailureRow("DEADLINE_EXCEEDED", "no answer in time", AGAIN),
    api.DeadlineExceeded: FailureRow("DEADLINE_EXCEEDED", "no answer in time", AGAIN),
    api.ResumableTransferError: FailureRow("UNAVAILABLE", "the transfer stopped", AGAIN),
    api.TransferStalledError: FailureRow("UNAVAILABLE", "the transfer stopped", AGAIN),
    api.UnseekableStreamError: FailureRow("UNKNOWN", "the transfer cannot be repeated", AGAIN),
    api.UploadCancelledError: FailureRow("CANCELLED", "the transfer was cancelled", AGAIN),
    api.MissingStatusHeaderError: FailureRow("UNKNOWN", "the answer is not complete", AGAIN),
    api.RetryError: FailureRow("DEADLINE_EXCEEDED", "no answer after several retries", REACH),
    api.DuplicateCredentialArgs: FailureRow(
        "UNAUTHENTICATED", "the credentials are given twice", REPORT
    ),
    api.GoogleAPIError: FailureRow("UNKNOWN", "the client failed", REPORT),
    auth.DefaultCredentialsError: FailureRow("UNAUTHENTICATED", "there are no credentials", LOGIN),
    auth.MalformedError: FailureRow("UNAUTHENTICATED", "the credentials cannot be read", LOGIN),
    auth.InvalidResource: FailureRow(
        "UNAUTHENTICATED", "the credentials contain an invalid resource", LOGIN
    ),
    auth.InvalidOperation: FailureRow(
        "UNAUTHENTICATED", "the credentials do not support this", LOGIN
    ),
    auth.InvalidValue: FailureRow(
        "UNAUTHENTICATED", "the credentials contain an invalid value", LOGIN
    ),
    auth.InvalidType: FailureRow(
        "UNAUTHENTICATED", "the credentials contain an invalid value", LOGIN
    ),
    auth.OSError: FailureRow("UNAUTHENTICATED", "the credentials cannot be read", LOGIN),
    auth.RefreshError: FailureRow("UNAUTHENTICATED", "the credentials are no longer valid", LOGIN),
    auth.ReauthFailError: FailureRow("UNAUTHENTICATED", "Google wants you to log in again", LOGIN),
    auth.ReauthSamlChallengeFailError: FailureRow(
        "UNAUTHENTICATED", "Google wants you to log in again", LOGIN
    ),
    auth.UserAccessTokenError: FailureRow("UNAUTHENTICATED", "gcloud returned no token", LOGIN),
    auth.OAuthError: FailureRow("UNAUTHENTICATED", "the credentials were refused", LOGIN),
    auth.MutualTLSChannelError: FailureRow(
        "UNAUTHENTICATED", "the client's certificate is invalid", LOGIN
    ),
    auth.ClientCertError: FailureRow(
        "UNAUTHENTICATED", "the client's certificate is invalid", LOGIN
    ),
    auth.ResponseError: FailureRow("UNAVAILABLE", "the answer is not from Google", REACH),
    auth.TimeoutError: FailureRow("UNAVAILABLE", "no answer in time", REACH),
    auth.TransportError: FailureRow("UNAVAILABLE", "Google cannot be reached", REACH),
    auth.GoogleAuthError: FailureRow("UNAUTHENTICATED", "the credentials cannot be used", LOGIN),
    # The compute client speaks HTTP and lets these through.
    requests.RequestException: FailureRow("UNAVAILABLE", "Google cannot be reached", REACH),
    OSError: FailureRow("UNAVAILABLE", "Google cannot be reached", REACH),
}


@dataclass(frozen=True)
class CloudCall:
    """What was attempted on which resource: for the error's first line and its hint."""

    words: str
    project: str
    location: str = ""
    name: str = ""
    api: str = "container.googleapis.com"

    @property
    def waiting(self) -> str:
        return f"Google Cloud ({self.words.removeprefix('cannot ')})"

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


def translate_error(error: BaseException, attempt: CloudCall) -> CloudError:
    """Return the error to show for a failed call; Google's own sentence stays unchanged."""
    kinds = type(error).__mro__
    if getattr(error, "retryable", False):  # the token endpoint is unreachable
        kinds = (TransportError,)
    row = next(CALLS[kind] for kind in kinds if kind in CALLS)
    sentence = _read_sentence(error) or row.said
    reason, hint = _refine(sentence, _read_reason(error), row.reason, row.hint)
    return CloudError(f"{attempt.words}: {sentence}", attempt.hint(hint, sentence), reason)


def build_failure(
    attempt: CloudCall,
    code: int,
    sentence: str,
    conditions: Iterable[tuple[str, str]] = (),
    *,
    otherwise: str = UP,
) -> CloudError:
    """Return the error to show for a failed operation.

    `code` is google.rpc's, `conditions` are names of google.container.v1.StatusCondition.Code with
    their sentences. `otherwise` is the fallback hint.
    """
    known = tuple(conditions)
    said = scrub(sentence or next((text for _, text in known if text), "") or "it failed")
    # A lack of capacity comes first, because another location may help.
    name = next((one for one, _ in sorted(known, key=_is_minor) if one != "UNKNOWN"), "")
    if name:
        return CloudError(
            f"{attempt.words}: {said}", attempt.hint(CONDITIONS.get(name, otherwise), said), name
        )
    usual = code_pb2.Code.Name(code) if code in code_pb2.Code.values() else "UNKNOWN"
    if usual == "RESOURCE_EXHAUSTED":  # for an operation, unlike for a call, it means machines
        usual, fallback = STOCKOUT, ELSEWHERE
    else:
        fallback = RIGHTS if usual == "PERMISSION_DENIED" else otherwise
    reason, hint = _refine(said, "", usual, fallback)
    return CloudError(f"{attempt.words}: {said}", attempt.hint(hint, said), reason)


def scrub(text: str) -> str:
    return " ".join(_SECRETS.sub("[secret]", text).split())


def _is_minor(condition: tuple[str, str]) -> bool:
    return condition[0] not in (STOCKOUT, QUOTA)


def _refine(sentence: str, told: str, reason: str, hint: str) -> tuple[str, str]:
    if told in REASONS:
        return told, REASONS[told]
    found = next((row for row in SENTENCES if row[0].search(sentence)), None)
    return (found[1], found[2]) if found else (reason, hint)


def _read_reason(error: BaseException) -> str:
    return str(getattr(error, "reason", None) or "") if _is_answer(error) else ""


def _read_sentence(error: BaseException) -> str:
    """Return Google's sentence, plus the zones from the error's details."""
    if not _is_answer(error):
        first = error.args[0] if error.args else ""
        # A failed connection: take the cause without the address, which is Google's.
        cause = getattr(first, "reason", first)
        words = getattr(cause, "args", ())[-1:] or (cause,)
        return scrub(str(words[0]).rpartition("): ")[2])
    answer: Any = error
    sentence = scrub(str(answer.message or ""))
    zones = str((answer.metadata or {}).get("zonesAvailable") or "")
    return f"{sentence} (zonesAvailable: {zones})" if zones else sentence


def _is_answer(error: BaseException) -> bool:
    return isinstance(error, api.GoogleAPICallError)
