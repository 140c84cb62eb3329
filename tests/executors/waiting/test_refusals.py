"""What the API server says when it refuses a pod, told apart."""

from __future__ import annotations

import pytest

from deployer.errors import KubeError
from deployer.executors.kubernetes.waiting.admission import advise
from deployer.executors.kubernetes.waiting.refusals import explain_refusal
from deployer.executors.reason import Cause, Passes
from tests.docs.pending_table import is_listed

START = 'Error creating: pods "abc-1-x7k2p" is forbidden: '
CASES = [
    (
        "exceeded quota: tenant, requested: requests.nvidia.com/gpu=1, used: "
        "requests.nvidia.com/gpu=4, limited: requests.nvidia.com/gpu=4",
        Cause.QUOTA_USED,
        Passes.WITH_TIME,
        "quota tenant of namespace ns is used up: 4 of 4 requests.nvidia.com/gpu",
    ),
    (
        "exceeded quota: tenant, requested: limits.memory=16Gi,pods=1, used: limits.memory=0,"
        "pods=0, limited: limits.memory=8Gi,pods=10",
        Cause.QUOTA_SMALL,
        Passes.NEVER,
        "quota tenant allows 8Gi limits.memory, and a pod asks for 16Gi",
    ),
    (
        "failed quota: tenant: must specify limits.cpu for: agent; requests.cpu for: agent",
        Cause.QUOTA_SMALL,
        Passes.NEVER,
        "quota tenant asks for limits.cpu for: agent; requests.cpu for: agent",
    ),
    (
        "status unknown for quota: tenant, resources: pods",
        Cause.QUOTA_USED,
        Passes.WITH_TIME,
        "quota tenant is new and not counted yet",
    ),
    (
        "maximum cpu usage per Container is 100m, but limit is 400m",
        Cause.LIMIT_RANGE,
        Passes.NEVER,
        "the limit range allows a container cpu of at most 100m, and it asks for 400m",
    ),
    (
        "minimum memory usage per Pod is 1Gi, but request is 512Mi",
        Cause.LIMIT_RANGE,
        Passes.NEVER,
        "the limit range allows a pod memory of at least 1Gi, and it asks for 512Mi",
    ),
    (
        'violates PodSecurity "restricted:latest": host namespaces (hostIPC=true)',
        Cause.POD_SECURITY,
        Passes.NEVER,
        "Pod Security restricted:latest forbids it: host namespaces (hostIPC=true)",
    ),
    (
        'error looking up service account ns/trainer: serviceaccount "trainer" not found',
        Cause.SERVICE_ACCOUNT,
        Passes.NEVER,
        "ServiceAccount trainer is missing in namespace ns",
    ),
    (
        "no PriorityClass with name gold was found",
        Cause.PRIORITY_CLASS,
        Passes.NEVER,
        "there is no PriorityClass gold",
    ),
    (
        'pod rejected: RuntimeClass "nvidia" not found',
        Cause.RUNTIME_CLASS,
        Passes.NEVER,
        "there is no RuntimeClass nvidia",
    ),
    (
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no team label",
        Cause.REFUSED,
        Passes.NEVER,
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no team label",
    ),
    ("something new", Cause.REFUSED, Passes.NEVER, "the server refuses its pod: something new"),
]


@pytest.mark.parametrize(("said", "cause", "passes", "sentence"), CASES)
def test_each_refusal_is_told_apart(said: str, cause: Cause, passes: Passes, sentence: str) -> None:
    found = explain_refusal(START + said, "ns")
    assert (found.cause, found.passes, found.sentence) == (cause, passes, sentence)
    assert is_listed(found.finding())


def test_a_webhook_that_does_not_answer_may_do_so_later() -> None:
    said = "Error creating: Internal error occurred: failed calling webhook: timeout"
    assert explain_refusal(said, "ns").passes is Passes.UNKNOWN


def test_a_refused_dry_run_has_the_remedy_of_its_reason() -> None:
    asked = "kubectl auth can-i create pods -n ns"

    def advised(said: str) -> str:
        return advise(KubeError(START + said, asked, status=403), "ns").hint

    assert advised("maximum memory usage per Container is 256Mi, but limit is 512Mi") == (
        "kubernetes: {memory: 256Mi} in deployer.yaml"
    )
    assert advised('violates PodSecurity "restricted:latest": host namespaces').startswith(
        "leave that out in deployer.yaml"
    )
    assert advised("something new") == asked
