"""What the API server says when it refuses a pod, told apart."""

from __future__ import annotations

import pytest

from deployer.config.causes import Cause
from deployer.errors import PERMANENT, TRANSIENT, KubeError
from deployer.executors.kubernetes.diagnose.admission import (
    advise,
    explain_refusal,
    fix_violations,
)
from deployer.kube.access import build_access
from deployer.kube.client import Kube
from tests.docs.pending_table import is_listed

START = 'Error creating: pods "abc-1-x7k2p" is forbidden: '
CASES = [
    (
        "exceeded quota: tenant, requested: requests.nvidia.com/gpu=1, used: "
        "requests.nvidia.com/gpu=4, limited: requests.nvidia.com/gpu=4",
        Cause.QUOTA,
        TRANSIENT,
        "quota tenant of namespace ns is used up: requests.nvidia.com/gpu: 1 asked for, "
        "4 of 4 used",
    ),
    (
        "exceeded quota: tenant, requested: limits.memory=16Gi,pods=1, used: limits.memory=0,"
        "pods=0, limited: limits.memory=8Gi,pods=10",
        Cause.QUOTA,
        PERMANENT,
        "quota tenant of namespace ns is too small for a pod: limits.memory: 16Gi asked for, "
        "0 of 8Gi used",
    ),
    (
        "failed quota: tenant: must specify limits.cpu for: agent; requests.cpu for: agent",
        Cause.QUOTA,
        PERMANENT,
        "quota tenant asks for limits.cpu for: agent; requests.cpu for: agent",
    ),
    (
        "status unknown for quota: tenant, resources: pods",
        Cause.QUOTA,
        TRANSIENT,
        "quota tenant is new and not counted yet",
    ),
    (
        'violates PodSecurity "restricted:latest": host namespaces (hostIPC=true)',
        Cause.POD_SECURITY,
        PERMANENT,
        "Pod Security restricted:latest forbids it: host namespaces (hostIPC=true)",
    ),
]
# Who refuses these names all there is to know.
OTHERS = [
    "maximum cpu usage per Container is 100m, but limit is 400m",
    "cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000",
    'error looking up service account ns/trainer: serviceaccount "trainer" not found',
    "no PriorityClass with name gold was found",
    'pod rejected: RuntimeClass "nvidia" not found',
    "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no team label",
    "something new",
]
WEBHOOK = 'admission webhook "validate.kyverno.svc-fail" denied the request: no team label'
TEMPLATE = "change the fields that it names in your template"
# What each check of Pod Security says of a pod (`check_*.go`, as in 1.24 to 1.37), and the edit.
VIOLATIONS = {
    "host namespaces (hostIPC=true)": "kubernetes: {host_ipc: false} in deployer.yaml",
    "host namespaces (hostNetwork=true, hostPID=true)": TEMPLATE,
    'hostPath volumes (volume "v")': TEMPLATE,
    'restricted volume types (volume "d" uses restricted volume type "nfs")': (
        "nfs: {…, inline: false} in deployer.yaml, or ask an administrator for a claim"
    ),
    'restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "iscsi")': (
        TEMPLATE
    ),
    "allowPrivilegeEscalation != false (containers "
    '"agent", "side" must set securityContext.allowPrivilegeEscalation=false)': TEMPLATE,
    'unrestricted capabilities (container "agent" must set securityContext.capabilities.drop='
    '["ALL"]; container "agent" must not include "SYS_PTRACE" in '
    "securityContext.capabilities.add)": TEMPLATE,
    "runAsUser=0 (pod must not set runAsUser=0)": (
        "kubernetes: {run_as_user: 1000} in deployer.yaml"
    ),
    'runAsUser=0 (container "agent" must not set runAsUser=0)': TEMPLATE,
    "forbidden sysctls (kernel.msgmax)": TEMPLATE,
    "a check of tomorrow (something)": TEMPLATE,
}


@pytest.mark.parametrize(("said", "cause", "passes", "sentence"), CASES)
def test_each_refusal_is_told_apart(
    said: str, cause: Cause, passes: bool | None, sentence: str
) -> None:
    found = explain_refusal(START + said, "ns")
    assert (found.code, found.transient, found.message) == (cause, passes, sentence)
    assert is_listed(found)


@pytest.mark.parametrize("said", OTHERS)
def test_any_other_refusal_is_told_in_the_servers_words(said: str) -> None:
    found = explain_refusal(START + said, "ns")
    assert found.line == f"the server refuses its pod: {said} (permanent)"
    assert is_listed(found)


def test_a_webhook_refuses_for_good_and_one_that_does_not_answer_may_do_so_later() -> None:
    found = explain_refusal(f"Error creating: {WEBHOOK}", "ns")
    assert found.line == f"the server refuses its pod: {WEBHOOK} (permanent)"
    said = "Error creating: Internal error occurred: failed calling webhook: timeout"
    assert explain_refusal(said, "ns").transient is None


def test_a_refused_dry_run_has_the_remedy_of_its_reason() -> None:
    asked = "kubectl auth can-i create pods -n ns"
    kube = Kube(build_access("https://localhost:1", b"", str, "ns", "site"))

    def advised(said: str) -> KubeError:
        return advise(KubeError(START + said, asked, status=403), kube)

    forbidden = 'violates PodSecurity "baseline:latest": host namespaces (hostIPC=true)'
    assert advised(forbidden).hint == "kubernetes: {host_ipc: false} in deployer.yaml"
    small = "exceeded quota: q, requested: limits.cpu=2, used: limits.cpu=0, limited: limits.cpu=1"
    assert advised(small).hint == (
        "ask an administrator: kubectl --context site edit resourcequota q -n ns"
    )
    other = advised("something new")
    assert (other.message, other.hint) == (f"{START}something new", asked)


@pytest.mark.parametrize("level", ["baseline:v1.24", "restricted:latest"])
@pytest.mark.parametrize("said", VIOLATIONS)
def test_each_violation_of_pod_security_names_the_edit_without_it(level: str, said: str) -> None:
    found = explain_refusal(f'{START}violates PodSecurity "{level}": {said}', "ns")
    assert (found.code, found.transient) == (Cause.POD_SECURITY, PERMANENT)
    assert found.message == f"Pod Security {level} forbids it: {said}"
    assert found.fix == VIOLATIONS[said]
    assert is_listed(found)


def test_several_violations_are_mended_at_once_and_each_edit_is_named_once() -> None:
    violations = [
        "host namespaces (hostNetwork=true, hostIPC=true)",
        'allowPrivilegeEscalation != false (container "agent" must set '
        "securityContext.allowPrivilegeEscalation=false)",
        'restricted volume types (volumes "a", "d" use restricted volume types "hostPath", "nfs")',
        'runAsUser=0 (pod and container "side" must not set runAsUser=0)',
    ]
    said = f'{START}violates PodSecurity "restricted:latest": {", ".join(violations)}'
    settings = [
        "kubernetes: {host_ipc: false} in deployer.yaml",
        "nfs: {…, inline: false} in deployer.yaml, or ask an administrator for a claim",
        "kubernetes: {run_as_user: 1000} in deployer.yaml",
        TEMPLATE,
    ]
    assert fix_violations(said) == ", and ".join(settings)
    # What deployer.yaml is known not to ask for comes from the template.
    assert fix_violations(said, host_ipc=False) == ", and ".join(settings[1:])
    assert fix_violations(f'{START}violates PodSecurity "x": {violations[0]}', False) == TEMPLATE


def test_no_remedy_asks_to_give_up_what_was_requested() -> None:
    """The server names the most that it allows; whether less will do is the user's to say."""
    refusals = [START + said for said, *_ in CASES] + [START + said for said in OTHERS]
    fixes = [explain_refusal(said, "ns").fix for said in refusals]
    assert not any("gpu" in fix or 'memory: "' in fix for fix in fixes)
