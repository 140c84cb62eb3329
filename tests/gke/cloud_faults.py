"""What Google answers when something is wrong: its codes and, where they are public, its sentences.

The texts are those that users of GKE quote in public issues; a test compares what we make of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import grpc
from google.cloud.container_v1 import StatusCondition
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

Code = grpc.StatusCode
Condition: Any = StatusCondition.Code
When = Literal["before", "after", "operation"]


@dataclass(frozen=True)
class Fault(Exception):
    """An answer that is not the one hoped for.

    `when` says where it strikes: before the call has an effect, after it (the answer is lost), or
    at the end of the operation that the call began. A `hang` never answers: the client gives up.
    """

    code: grpc.StatusCode
    message: str
    reason: str = ""
    domain: str = "container.googleapis.com"
    metadata: Mapping[str, str] = field(default_factory=dict)
    condition: Any = Condition.UNKNOWN
    when: When = "before"
    hang: bool = False
    keeps_cluster: bool = False

    def __str__(self) -> str:
        """Return the sentence."""
        return self.message

    @property
    def as_status(self) -> status_pb2.Status:
        """Return it as google.rpc.Status, with the details that Google adds."""
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        if self.reason:
            info = error_details_pb2.ErrorInfo(
                reason=self.reason, domain=self.domain, metadata=dict(self.metadata)
            )
            packed = any_pb2.Any()
            packed.Pack(info)
            status.details.append(packed)
        return status

    @property
    def as_condition(self) -> StatusCondition:
        """Return it as the condition that a cluster, a pool or an operation carries."""
        return StatusCondition(code=self.condition, message=self.message)

    def in_operation(self, *, keeps_cluster: bool = False) -> Fault:
        """Let the call succeed and its operation end with this error.

        With keeps_cluster the cluster runs and only its GPU pools are in ERROR: half-way.
        """
        return replace(self, when="operation", keeps_cluster=keeps_cluster)

    def after_effect(self) -> Fault:
        """Let the call have its effect first; then this error, as when the answer is lost."""
        return replace(self, when="after")


def stockout(zone: str, available: tuple[str, ...] = (), machine: str = "n1-standard-4") -> Fault:
    """Say that a zone has no such machine, and which zones have, as Compute Engine says it."""
    elsewhere = (
        f" Consider trying your request in the {', '.join(available)} zone(s), which currently has "
        "capacity to accommodate your request."
        if available
        else ""
    )
    message = (
        "Google Compute Engine: Not all instances running in IGM after 14.691006793s. Expected 1, "
        "running 0, transitioning 1. Current errors: [GCE_STOCKOUT]: Instance 'gke-node' creation "
        f"failed: The zone 'projects/p/zones/{zone}' does not have enough resources available to "
        "fulfill the request. '(resource type:compute)'. "
        f"A {machine} VM instance is currently unavailable in the {zone} zone.{elsewhere} "
        "Alternatively, you can try your request again with a different VM hardware configuration "
        "or at a later time."
    )
    metadata = {"zone": zone, "vmType": machine, "zonesAvailable": ",".join(available)}
    return Fault(
        Code.RESOURCE_EXHAUSTED,
        message,
        "resource_availability",
        "compute.googleapis.com",
        metadata,
        Condition.GCE_STOCKOUT,
    )


def old_stockout(location: str) -> Fault:
    """Say the same in the shorter words that GKE uses before it has tried any instance."""
    message = (
        "Try a different location, or try again later: Google Compute Engine does not have "
        f"enough resources available to fulfill request: {location}."
    )
    return Fault(Code.RESOURCE_EXHAUSTED, message, condition=Condition.GCE_STOCKOUT)


def quota(metric: str = "NVIDIA_T4_GPUS", project: str = "test-project") -> Fault:
    """Refuse for a quota, at once; GKE answers PERMISSION_DENIED (403) for its own check."""
    message = (
        f'Insufficient regional quota to satisfy request: resource "{metric}": request requires '
        "'2.0' and is short '1.0'. project has a quota of '1.0' with '1.0' available. View and "
        "manage quotas at "
        f"https://console.cloud.google.com/iam-admin/quotas?usage=USED&project={project}."
    )
    return Fault(Code.PERMISSION_DENIED, message, condition=Condition.GCE_QUOTA_EXCEEDED)


def quota_in_instances(metric: str = "NVIDIA_T4_GPUS", region: str = "us-central1") -> Fault:
    """End an operation for a quota that Compute Engine found used up."""
    message = (
        "Google Compute Engine: Not all instances running in IGM after 20.1s. Expected 1, running "
        f"0, transitioning 1. Current errors: [GCE_QUOTA_EXCEEDED]: Instance 'gke-node' creation "
        f"failed: Quota '{metric}' exceeded.  Limit: 1.0 in region {region}."
    )
    fault = Fault(Code.RESOURCE_EXHAUSTED, message, condition=Condition.GCE_QUOTA_EXCEEDED)
    return fault.in_operation()


def consumer_invalid(project: str = "test-project") -> Fault:
    """Refuse a project that is not there, as to a role: google-gemini/gemini-cli issue 1808."""
    return Fault(
        Code.PERMISSION_DENIED,
        f"Permission denied on resource project {project}.",
        "CONSUMER_INVALID",
        "googleapis.com",
        {"consumer": f"projects/{project}", "containerInfo": project},
    )


def rate_limit(project: str = "123456789012") -> Fault:
    """Refuse for too many requests in a minute: no machines are meant."""
    message = (
        "Quota exceeded for quota metric 'API requests' and limit 'API requests per minute' of "
        f"service 'container.googleapis.com' for consumer 'project_number:{project}'."
    )
    return Fault(Code.RESOURCE_EXHAUSTED, message, "RATE_LIMIT_EXCEEDED", "googleapis.com")


def permission(permission: str = "container.clusters.create", on: str = "projects/p") -> Fault:
    """Refuse for a missing IAM permission."""
    message = f'Required "{permission}" permission(s) for "{on}".'
    return Fault(Code.PERMISSION_DENIED, message, "IAM_PERMISSION_DENIED")


def api_disabled(service: str = "container", project: str = "123456789012") -> Fault:
    """Refuse since the API is off in the project."""
    title = {"container": "Kubernetes Engine API", "compute": "Compute Engine API"}[service]
    address = f"https://console.developers.google.com/apis/api/{service}.googleapis.com/overview"
    message = (
        f"{title} has not been used in project {project} before or it is disabled. Enable it by "
        f"visiting {address}?project={project} then retry. If you enabled this API recently, wait "
        "a few minutes for the action to propagate to our systems and retry."
    )
    metadata = {"service": f"{service}.googleapis.com", "consumer": f"projects/{project}"}
    return Fault(Code.PERMISSION_DENIED, message, "SERVICE_DISABLED", "googleapis.com", metadata)


def busy(operation: str) -> Fault:
    """Refuse since the cluster is at something else; one operation at a time."""
    message = f"Cluster is running incompatible operation {operation}."
    return Fault(Code.FAILED_PRECONDITION, message, "CLUSTER_ALREADY_HAS_OPERATION")


def already_exists(path: str) -> Fault:
    """Refuse a name that is taken."""
    return Fault(Code.ALREADY_EXISTS, f"Already exists: {path}.")


def not_found(path: str) -> Fault:
    """Answer 404."""
    return Fault(Code.NOT_FOUND, f"Not found: {path}.")


def invalid(message: str) -> Fault:
    """Refuse a request that is wrong in itself."""
    return Fault(Code.INVALID_ARGUMENT, message)


def unauthenticated() -> Fault:
    """Refuse a token that is none."""
    message = (
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login "
        "cookie or other valid authentication credential. See "
        "https://developers.google.com/identity/sign-in/web/devconsole-project."
    )
    return Fault(Code.UNAUTHENTICATED, message, "ACCESS_TOKEN_TYPE_UNSUPPORTED", "googleapis.com")


def may_not_act_as(account: str = "default") -> Fault:
    """Refuse nodes that would act as an account that the caller may not act as."""
    return invalid(
        f'The user does not have access to service account "{account}". Ask a project owner to '
        "grant you the iam.serviceAccountUser role on the service account."
    )


def internal() -> Fault:
    """Fail as a server does that has no better word."""
    return Fault(Code.INTERNAL, "Internal error encountered.")


# The service is away for a moment; nothing has happened.
UNAVAILABLE = Fault(Code.UNAVAILABLE, "The service is currently unavailable.")
# The call took effect, and then the connection broke.
LOST = Fault(Code.UNAVAILABLE, "recvmsg:Connection reset by peer", when="after")
# The server gave up, with or without an effect.
DEADLINE = Fault(Code.DEADLINE_EXCEEDED, "Deadline Exceeded")
# Nobody answers: the client's own deadline ends it.
SILENCE = Fault(Code.DEADLINE_EXCEEDED, "Deadline Exceeded", hang=True)
