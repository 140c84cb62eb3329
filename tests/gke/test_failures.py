"""Every error of Google's, and what the user is told: its own sentence, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.api_core import exceptions as api
from google.auth import exceptions as auth

from deployer.errors import CloudError
from deployer.gke.api.failures import CALLS, CONDITIONS, CloudCall, build_failure, translate_error
from deployer.gke.api.messages import build_cluster
from deployer.gke.api.operations import Waiter, explain_operation, wait_for_operation
from tests.gke import cloud_faults as faults
from tests.gke.cloud import PROJECT, Cloud
from tests.gke.cloud_faults import Condition, Fault
from tests.gke.rooms import FIRST, NAME, open_client, read_spec

ROLES = f"https://console.cloud.google.com/iam-admin/iam?project={PROJECT}"
QUOTAS = f"https://console.cloud.google.com/iam-admin/quotas?project={PROJECT}"
ELSEWHERE = "name more locations or gpus in the specification, or wait: --wait-for-capacity 2h"
LOGIN = "gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS to a key file"
LATER = "wait a minute, then type the command again"
ENABLE = f"gcloud services enable {{}}.googleapis.com --project {PROJECT}"

# What Google answers to CreateCluster: our word for it, and what the hint says.
TABLE: list[tuple[Fault, str, str]] = [
    (faults.stockout(FIRST), "GCE_STOCKOUT", ELSEWHERE),
    (faults.old_stockout(FIRST), "GCE_STOCKOUT", ELSEWHERE),
    (faults.quota(), "GCE_QUOTA_EXCEEDED", f"NVIDIA_T4_GPUS in us-central1: {QUOTAS}"),
    (faults.quota("GPUS_ALL_REGIONS"), "GCE_QUOTA_EXCEEDED", f"GPUS_ALL_REGIONS: {QUOTAS}"),
    (faults.permission(), "PERMISSION_DENIED", ROLES),
    (faults.api_disabled(), "SERVICE_DISABLED", ENABLE.format("container")),
    (faults.consumer_invalid(), "CONSUMER_INVALID", "set another project: --project"),
    (faults.busy("operation-1"), "FAILED_PRECONDITION", LATER),
    (faults.already_exists("projects/p/zones/z/clusters/c"), "ALREADY_EXISTS", "deployer gke list"),
    (faults.not_found("projects/p"), "NOT_FOUND", "GOOGLE_CLOUD_PROJECT"),
    (faults.invalid("Bad disk size."), "INVALID_ARGUMENT", "fix the specification"),
    (faults.unauthenticated(), "UNAUTHENTICATED", LOGIN),
    (faults.may_not_act_as(), "PERMISSION_DENIED", "roles/iam.serviceAccountUser"),
    (faults.internal(), "INTERNAL", LATER),
    (faults.UNAVAILABLE, "UNAVAILABLE", "https://status.cloud.google.com"),
    (faults.LOST, "UNAVAILABLE", "https://status.cloud.google.com"),
    (faults.DEADLINE, "DEADLINE_EXCEEDED", "type the command again"),
    (faults.SILENCE, "DEADLINE_EXCEEDED", "type the command again"),
]
# The same of an operation that has begun well.
OPERATIONS: list[tuple[Fault, str, str]] = [
    (faults.stockout(FIRST).in_operation(), "GCE_STOCKOUT", ELSEWHERE),
    (faults.quota_in_instances(), "GCE_QUOTA_EXCEEDED", f"NVIDIA_T4_GPUS in us-central1: {QUOTAS}"),
    (faults.permission().in_operation(), "PERMISSION_DENIED", ROLES),
    (faults.internal().in_operation(), "INTERNAL", "deployer gke down removes it"),
]


@pytest.mark.parametrize(("fault", "reason", "hint"), TABLE, ids=lambda value: str(value)[:40])
def test_a_refused_call_is_told_in_googles_words(
    cloud: Cloud, tmp_path: Path, fault: Fault, reason: str, hint: str
) -> None:
    """The first line says what failed, where, and Google's sentence; the second what to do."""
    gke, spec = open_client(), read_spec(tmp_path)
    cloud.fail("CreateCluster", fault)
    with pytest.raises(CloudError) as told:
        gke.create_cluster(FIRST, build_cluster(spec, FIRST, gke.project, gke.owner))
    assert told.value.message.startswith(f"cannot create cluster {NAME} in {FIRST}: ")
    assert " ".join(fault.message.split()) in told.value.message
    assert told.value.reason == reason
    assert hint in told.value.hint


@pytest.mark.parametrize(("fault", "reason", "hint"), OPERATIONS, ids=lambda v: str(v)[:40])
def test_a_failed_operation_is_told_in_googles_words(
    cloud: Cloud, tmp_path: Path, fault: Fault, reason: str, hint: str
) -> None:
    """So is what goes wrong minutes after the call."""
    gke, spec = open_client(), read_spec(tmp_path)
    cloud.set_operation_seconds(0.01)
    cloud.fail("CreateCluster", fault)
    begun = gke.create_cluster(FIRST, build_cluster(spec, FIRST, gke.project, gke.owner))
    ended = wait_for_operation(gke, begun, Waiter())
    told = explain_operation(gke, ended)
    assert told.message.startswith(f"creating cluster {NAME} in {FIRST} failed: ")
    assert " ".join(fault.message.split()) in told.message
    assert told.reason == reason
    assert hint in told.hint


def test_a_refused_login_is_told(cloud: Cloud) -> None:
    """An account that is deleted gets no token."""
    gone = Fault(faults.Code.INVALID_ARGUMENT, "Invalid grant: account not found", "invalid_grant")
    cloud.fail("Token", gone)
    with pytest.raises(CloudError, match="account not found") as told:
        open_client().get_token()
    assert (told.value.reason, told.value.hint) == ("UNAUTHENTICATED", LOGIN)


@pytest.mark.parametrize(
    ("sentence", "reason", "hint"),
    [
        (
            "Getting metadata from plugin failed with error: HTTPSConnectionPool(host="
            "'oauth2.googleapis.com', port=443): Max retries exceeded with url: /token (Caused by "
            "NameResolutionError(\"Failed to resolve 'oauth2.googleapis.com'\"))",
            "UNAVAILABLE",
            "DNS",
        ),
        (
            "DNS resolution failed for container.googleapis.com:443: C-ares status is not "
            "ARES_SUCCESS qtype=A name=container.googleapis.com: Domain name not found",
            "UNAVAILABLE",
            "DNS",
        ),
        (
            "Getting metadata from plugin failed with error: HTTPSConnectionPool(host="
            "'oauth2.googleapis.com', port=443): Max retries exceeded (Caused by "
            "NewConnectionError('[Errno 111] Connection refused'))",
            "UNAVAILABLE",
            "HTTPS_PROXY",
        ),
        (
            "Getting metadata from plugin failed with error: [SSL: CERTIFICATE_VERIFY_FAILED]",
            "CERTIFICATE",
            "REQUESTS_CA_BUNDLE",
        ),
        (
            "Getting metadata from plugin failed with error: ('invalid_grant: Bad Request', {})",
            "UNAUTHENTICATED",
            LOGIN,
        ),
    ],
)
def test_only_a_refused_login_says_log_in(sentence: str, reason: str, hint: str) -> None:
    """A token is fetched over the network, and what goes wrong there is told by the same call."""
    told = translate_error(api.ServiceUnavailable(sentence), CloudCall("cannot list clusters", "p"))
    assert (told.reason, hint in told.hint) == (reason, True)


def test_the_rights_that_nodes_lack_are_not_yours() -> None:
    condition = ("NODE_SERVICE_ACCOUNT_MISSING_PERMISSIONS", "…")
    told = build_failure(CloudCall("creating cluster c failed", "p"), 0, "", [condition])
    assert "roles/container.defaultNodeServiceAccount" in told.hint
    assert "container.admin" not in told.hint


def test_every_exception_of_the_clients_is_in_the_table() -> None:
    """A new class of Google's breaks this test instead of a user's evening."""
    known: set[type] = {api.GoogleAPIError, auth.GoogleAuthError}
    todo = list(known)
    while todo:
        found: list[type] = todo.pop().__subclasses__()
        todo += found
        known |= {one for one in found if one.__module__ in (api.__name__, auth.__name__)}
    assert {one.__name__ for one in known - set(CALLS)} == set()


def test_every_condition_has_a_remedy() -> None:
    """All that a cluster or a pool can complain of, as the package lists it."""
    assert {one.name for one in Condition} == set(CONDITIONS)
