"""What the API server says when it refuses a pod, told apart."""

from __future__ import annotations

import pytest

from deployer.config.causes import Cause
from deployer.errors import KubeError
from deployer.executors.kubernetes.diagnose.admission import advise
from deployer.executors.kubernetes.diagnose.refusals import (
    ALLOWED_FIELDS,
    explain_refusal,
    fix_violations,
)
from deployer.findings import PERMANENT, TRANSIENT
from deployer.kube.access import build_access
from deployer.kube.client import Kube
from tests.docs.pending_table import is_listed

START = 'Error creating: pods "abc-1-x7k2p" is forbidden: '
CASES = [
    (
        "exceeded quota: tenant, requested: requests.nvidia.com/gpu=1, used: "
        "requests.nvidia.com/gpu=4, limited: requests.nvidia.com/gpu=4",
        Cause.QUOTA_USED,
        TRANSIENT,
        "quota tenant of namespace ns is used up: 4 of 4 requests.nvidia.com/gpu",
    ),
    (
        "exceeded quota: tenant, requested: limits.memory=16Gi,pods=1, used: limits.memory=0,"
        "pods=0, limited: limits.memory=8Gi,pods=10",
        Cause.QUOTA_SMALL,
        PERMANENT,
        "quota tenant allows 8Gi limits.memory, and a pod asks for 16Gi",
    ),
    (
        "failed quota: tenant: must specify limits.cpu for: agent; requests.cpu for: agent",
        Cause.QUOTA_SMALL,
        PERMANENT,
        "quota tenant asks for limits.cpu for: agent; requests.cpu for: agent",
    ),
    (
        "status unknown for quota: tenant, resources: pods",
        Cause.QUOTA_USED,
        TRANSIENT,
        "quota tenant is new and not counted yet",
    ),
    (
        "maximum cpu usage per Container is 100m, but limit is 400m",
        Cause.LIMIT_RANGE,
        PERMANENT,
        "the limit range allows a container cpu of at most 100m, and it asks for 400m",
    ),
    (
        "minimum memory usage per Pod is 1Gi, but request is 512Mi",
        Cause.LIMIT_RANGE,
        PERMANENT,
        "the limit range allows a pod memory of at least 1Gi, and it asks for 512Mi",
    ),
    (
        'violates PodSecurity "restricted:latest": host namespaces (hostIPC=true)',
        Cause.POD_SECURITY,
        PERMANENT,
        "Pod Security restricted:latest forbids it: host namespaces (hostIPC=true)",
    ),
    (
        'error looking up service account ns/trainer: serviceaccount "trainer" not found',
        Cause.SERVICE_ACCOUNT,
        PERMANENT,
        "ServiceAccount trainer is missing in namespace ns",
    ),
    (
        "no PriorityClass with name gold was found",
        Cause.PRIORITY_CLASS,
        PERMANENT,
        "there is no PriorityClass gold",
    ),
    (
        'pod rejected: RuntimeClass "nvidia" not found',
        Cause.RUNTIME_CLASS,
        PERMANENT,
        "RuntimeClass nvidia not found",
    ),
    (
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no team label",
        Cause.REFUSED,
        PERMANENT,
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no team label",
    ),
    (
        'admission webhook "validate.kyverno.svc-fail" denied the request: no team label',
        Cause.REFUSED,
        PERMANENT,
        'admission webhook "validate.kyverno.svc-fail" denied the request: no team label',
    ),
    (
        "exceeded quota: tenant, requested: limits.ephemeral-storage=2Gi, used: "
        "limits.ephemeral-storage=0, limited: limits.ephemeral-storage=1Gi",
        Cause.QUOTA_SMALL,
        PERMANENT,
        "quota tenant allows 1Gi limits.ephemeral-storage, and a pod asks for 2Gi",
    ),
    (
        "maximum ephemeral-storage usage per Container is 1Gi, but limit is 2Gi",
        Cause.LIMIT_RANGE,
        PERMANENT,
        "the limit range allows a container ephemeral-storage of at most 1Gi, and it asks for 2Gi",
    ),
    (
        "cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000",
        Cause.LIMIT_RANGE,
        PERMANENT,
        "the limit range allows cpu limits of at most 2 requests",
    ),
    ("something new", Cause.REFUSED, PERMANENT, "the server refuses its pod: something new"),
]
# What each check of Pod Security says of a pod (`check_*.go`, as in 1.24 to 1.37), and the edit.
VIOLATIONS = {
    "host namespaces (hostIPC=true)": "kubernetes: {host_ipc: false} in deployer.yaml",
    "host namespaces (hostNetwork=true, hostPID=true)": (
        "hostNetwork: false, hostPID: false in your template"
    ),
    'hostPath volumes (volume "v")': "a claim instead of hostPath in your template",
    'restricted volume types (volume "d" uses restricted volume type "nfs")': (
        "nfs: {…, inline: false} in deployer.yaml, or ask an administrator for a claim"
    ),
    'restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "iscsi")': (
        "a claim instead of hostPath, a claim instead of iscsi in your template"
    ),
    "allowPrivilegeEscalation != false (containers "
    '"agent", "side" must set securityContext.allowPrivilegeEscalation=false)': (
        "allowPrivilegeEscalation: false in your template"
    ),
    'unrestricted capabilities (container "agent" must set securityContext.capabilities.drop='
    '["ALL"]; container "agent" must not include "SYS_PTRACE" in '
    "securityContext.capabilities.add)": ("capabilities: {drop: [ALL], add: []} in your template"),
    'non-default capabilities (container "agent" must not include "NET_ADMIN" in '
    "securityContext.capabilities.add)": "capabilities: {add: []} in your template",
    'privileged (container "agent" must not set securityContext.privileged=true)': (
        "privileged: false in your template"
    ),
    'procMount (container "agent" must not set securityContext.procMount to "Unmasked")': (
        "procMount: Default in your template"
    ),
    'runAsNonRoot != true (pod or container "agent" must set securityContext.runAsNonRoot=true)': (
        "runAsNonRoot: true in your template"
    ),
    "runAsUser=0 (pod must not set runAsUser=0)": (
        "kubernetes: {run_as_user: 1000} in deployer.yaml"
    ),
    'runAsUser=0 (container "agent" must not set runAsUser=0)': (
        "runAsUser: 1000 in your template"
    ),
    'seccompProfile (pod or container "agent" must set securityContext.seccompProfile.type to '
    '"RuntimeDefault" or "Localhost")': "seccompProfile: {type: RuntimeDefault} in your template",
    'seLinuxOptions (container "agent" set forbidden securityContext.seLinuxOptions: type "x_t")': (
        "seLinuxOptions: null in your template"
    ),
    "forbidden sysctls (kernel.msgmax)": "sysctls: [] in your template",
    'forbidden AppArmor profile (container "agent" must not set AppArmor profile type to '
    '"Unconfined")': "appArmorProfile: {type: RuntimeDefault} in your template",
    'hostPort (container "agent" uses hostPort 80)': "hostPort: null in your template",
    "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)": (
        "hostProcess: false in your template"
    ),
    'probe or lifecycle host (container "agent" uses probe or lifecycle host "1.2.3.4")': (
        "host: null of probes in your template"
    ),
    "a check of tomorrow (something)": "nothing of a check of tomorrow in your template",
}


@pytest.mark.parametrize(("said", "cause", "passes", "sentence"), CASES)
def test_each_refusal_is_told_apart(
    said: str, cause: Cause, passes: bool | None, sentence: str
) -> None:
    found = explain_refusal(START + said, "ns")
    assert (found.code, found.transient, found.message) == (cause, passes, sentence)
    assert is_listed(found)


def test_a_webhook_that_does_not_answer_may_do_so_later() -> None:
    said = "Error creating: Internal error occurred: failed calling webhook: timeout"
    assert explain_refusal(said, "ns").transient is None


def test_a_refused_dry_run_has_the_remedy_of_its_reason() -> None:
    asked = "kubectl auth can-i create pods -n ns"
    kube = Kube(build_access("https://localhost:1", b"", str, "ns", "site"))

    def advised(said: str) -> str:
        return advise(KubeError(START + said, asked, status=403), kube).hint

    assert advised("maximum memory usage per Container is 256Mi, but limit is 512Mi") == (
        'kubernetes: {memory: "256Mi"} in deployer.yaml'
    )
    forbidden = 'violates PodSecurity "baseline:latest": host namespaces (hostIPC=true)'
    assert advised(forbidden) == "kubernetes: {host_ipc: false} in deployer.yaml"
    assert advised("something new") == asked
    account = 'error looking up service account ns/a: serviceaccount "a" not found'
    assert advised(account).endswith("kubectl --context site create serviceaccount a -n ns")


@pytest.mark.parametrize("level", ["baseline:v1.24", "restricted:latest"])
@pytest.mark.parametrize("said", VIOLATIONS)
def test_each_violation_of_pod_security_names_the_edit_without_it(level: str, said: str) -> None:
    found = explain_refusal(f'{START}violates PodSecurity "{level}": {said}', "ns")
    assert (found.code, found.transient) == (Cause.POD_SECURITY, PERMANENT)
    assert found.message == f"Pod Security {level} forbids it: {said}"
    assert found.fix == VIOLATIONS[said]
    assert is_listed(found)


def test_every_field_that_may_be_advised_is_of_a_violation_above() -> None:
    remedies = " ".join(VIOLATIONS.values())
    assert [field for field in ALLOWED_FIELDS.values() if field not in remedies] == []


def test_several_violations_are_mended_at_once_and_each_edit_is_named_once() -> None:
    violations = [
        "host namespaces (hostNetwork=true, hostIPC=true)",
        'allowPrivilegeEscalation != false (container "agent" must set '
        "securityContext.allowPrivilegeEscalation=false)",
        'hostPath volumes (volumes "a", "b")',
        'restricted volume types (volumes "a", "b", "d" use restricted volume types "hostPath", '
        '"nfs")',
        'runAsUser=0 (pod and container "side" must not set runAsUser=0)',
    ]
    said = f'{START}violates PodSecurity "restricted:latest": {", ".join(violations)}'
    in_template = (
        "hostNetwork: false, allowPrivilegeEscalation: false, a claim instead of hostPath, "
        "runAsUser: 1000 in your template"
    )
    assert fix_violations(said) == (
        "kubernetes: {host_ipc: false, run_as_user: 1000} in deployer.yaml, and nfs: {…, inline: "
        f"false}} in deployer.yaml, or ask an administrator for a claim, and {in_template}"
    )
    # What deployer.yaml is known not to ask for comes from the template.
    assert fix_violations(said, claimed="", host_ipc=False) == (
        "kubernetes: {run_as_user: 1000} in deployer.yaml, and hostNetwork: false, hostIPC: false, "
        "allowPrivilegeEscalation: false, a claim instead of hostPath, a claim instead of nfs, "
        "runAsUser: 1000 in your template"
    )


def test_who_must_act_is_named_with_a_command() -> None:
    def remedy(said: str) -> str:
        return explain_refusal(START + said, "ns").fix

    policy = "ValidatingAdmissionPolicy 'gpus' with binding 'b' denied request: none left"
    assert remedy(policy) == (
        "ask an administrator: kubectl get validatingadmissionpolicy gpus -o yaml"
    )
    assert remedy('admission webhook "a.b" denied the request: no').startswith(
        "ask an administrator: kubectl get validatingwebhookconfigurations"
    )
    pods = "exceeded quota: q, requested: {0}=2, used: {0}=0, limited: {0}=1"
    assert remedy(pods.format("limits.ephemeral-storage")) == (
        "ask an administrator: kubectl edit resourcequota q -n ns"
    )
    assert remedy(pods.format("limits.cpu")) == 'kubernetes: {cpu: "1"} in deployer.yaml'


def test_no_remedy_asks_for_a_right_that_tenants_lack() -> None:
    """With infra/rbac/agents.yaml they may list quotas and limit ranges, and get none of them."""
    used = "exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4"
    assert explain_refusal(START + used, "ns").fix == "kubectl get resourcequota -n ns"
    ratio = "memory max limit to request ratio per Pod is 1, but provided ratio is 2"
    look = "ask an administrator: kubectl get limitrange -n ns -o yaml"
    assert explain_refusal(START + ratio, "ns").fix == look
