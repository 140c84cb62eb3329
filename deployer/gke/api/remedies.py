"""The table of Google Cloud's failures: our reason and remedy for each."""

from __future__ import annotations

import re
from typing import NamedTuple

import requests
from google.api_core import exceptions as api
from google.auth import exceptions as auth

from deployer.gke.api.capacity import QUOTA, STOCKOUT
from deployer.gke.api.token import LOGIN

AGAIN = "type the command again"
LATER = "wait a minute, then type the command again"
REPORT = "please report this"
EDIT = "deployer gke plan shows what is sent; mend the specification"
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
    "the nodes' service account lacks rights, not you: gcloud projects add-iam-policy-binding "
    "{project} --role=roles/container.defaultNodeServiceAccount --member=serviceAccount:ACCOUNT"
)
LOOK = "deployer gke list"
REACH = (
    "see HTTPS_PROXY and your network; https://status.cloud.google.com tells of Google's troubles"
)
NAMES = "this machine resolves no names now: see your network, its DNS, and HTTPS_PROXY"
QUOTAS_PAGE = "https://console.cloud.google.com/iam-admin/quotas?project={project}"
ELSEWHERE = "name more locations or gpus in the specification, or wait: --wait-for-capacity 2h"
ENABLE = "gcloud services enable {api} --project {project}"
EMPTY_POOL = "EMPTY_POOL_REFUSED"
PROJECT = "name the right project: --project, project: in the specification, GOOGLE_CLOUD_PROJECT"
UP = "deployer gke up goes on, deployer gke down removes it"
DOWN = "deployer gke down tries again"


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
    "NODE_SERVICE_ACCOUNT_MISSING_PERMISSIONS": NODE_RIGHTS,
    "CLOUD_KMS_KEY_DESTROYED": "deployer gke down, then deployer gke up",
}
# ErrorInfo.reason: https://cloud.google.com/apis/design/errors, google/api/error_reason.proto
REASONS = {
    "SERVICE_DISABLED": ENABLE,
    "CONSUMER_INVALID": PROJECT,  # no such project, or it has been deleted
    "USER_PROJECT_DENIED": "gcloud auth application-default set-quota-project {project}",
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
    # Of a pool that is to begin without nodes: it can be made after its cluster.
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
        "the connection's certificate is not trusted: see your proxy, REQUESTS_CA_BUNDLE and "
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    ),
    # A token is fetched over the network, too: what hinders that is no matter of a login.
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
