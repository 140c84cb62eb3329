"""Why the API server refuses a pod, from its own sentences; pure.

Every plugin refuses with reason Forbidden: only the message distinguishes a quota from a policy.
The messages are those of the admission plugins of Kubernetes 1.24 to 1.37:
`tests/executors/diagnose/test_refusals.py` has a sentence of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from deployer.errors import KubeError
from deployer.executors.kubernetes.diagnose import rules
from deployer.findings import EDIT, Finding, edit
from deployer.kube.client import Kube
from deployer.kube.quantities import read_quantity, rewrite_quantity

# plugin/pkg/admission/resourcequota: quota controller, `checkRequest`.
QUOTA = re.compile(
    r"exceeded quota: (?P<quota>\S+), requested: (?P<requested>\S+), "
    r"used: (?P<used>\S+), limited: (?P<limited>[^\s;]+)"
)
# plugin/pkg/admission/limitranger: `maxConstraint`, `minConstraint`.
LIMIT = re.compile(
    r"(?P<bound>maximum|minimum) (?P<what>\S+) usage per (?P<of>\w+) is (?P<limit>[^\s,]+)"
    r"(?:, but (?:limit|request) is (?P<asked>[^\s,]+)|\.\s+No (?:limit|request) is specified)?"
)
# What Pod Security calls a violation, in parentheses who violates it and how (each `check_*.go` of
# its policy/).
VIOLATION = re.compile(r"(?P<what>[^,(]+?)(?: \((?P<detail>[^)]*)\))?(?:, |$)")
# The field of a pod without the violation; k8s/agent.yaml has none that is here.
ALLOWED_FIELDS = {
    "allowPrivilegeEscalation": "allowPrivilegeEscalation: false",
    "unrestricted capabilities": "capabilities: {drop: [ALL], add: []}",
    "non-default capabilities": "capabilities: {add: []}",
    "privileged": "privileged: false",
    "procMount": "procMount: Default",
    "runAsNonRoot": "runAsNonRoot: true",
    "runAsUser": "runAsUser: 1000",
    "seccompProfile": "seccompProfile: {type: RuntimeDefault}",
    "seLinuxOptions": "seLinuxOptions: null",
    "forbidden sysctls": "sysctls: []",
    "forbidden AppArmor profile": "appArmorProfile: {type: RuntimeDefault}",
    "hostPort": "hostPort: null",
    "hostProcess": "hostProcess: false",
    "probe or lifecycle host": "host: null of probes",
}
NFS = "a claim instead of nfs"
CLAIMED = f"nfs: {{…, inline: false}} {EDIT}, or ask an administrator for a claim"
# Each says all there is to say in its pattern.
MATCHED = (
    rules.QUOTA_UNSAID,
    rules.QUOTA_NEW,
    rules.LIMIT_RATIO,
    rules.POLICY,
    rules.WEBHOOK,
    rules.ACCOUNT,
    rules.PRIORITY_CLASS,
    rules.RUNTIME_CLASS,
)


def explain_refusal(message: str, namespace: str) -> Finding:
    """Return why the server refuses a pod, from the sentence of its refusal."""
    return (
        _explain_quota(message, namespace)
        or _explain_limit(message, namespace)
        or rules.POD_SECURITY.match(message, edits=fix_violations(message))
        or rules.match_first(MATCHED, message, namespace=namespace)
        or rules.REFUSED.match(message)
        or rules.NOT_MADE.found(words=message.strip())
    )


def advise(error: KubeError, kube: Kube) -> KubeError:
    """Return a refusal with the sentence and the fix of its cause.

    What no rule of Kubernetes refuses is left as the server says it.
    """
    found = explain_refusal(error.message, kube.namespace)
    said = error.message if found.code == rules.REFUSED.code else found.message
    fix = kube.with_context(found.fix) or error.hint
    return KubeError(said, fix, status=error.status, reason=error.reason)


def ask_for(resource: str, amount: str) -> str:
    """Return the setting with which a pod takes so much of what a quota limits; empty if none."""
    kind, _, name = resource.partition(".")
    name = name if kind in ("requests", "limits") else resource
    if name in ("cpu", "memory") and read_quantity(amount):
        return f'{name}: "{amount}"'
    if "/" in name and not name.startswith("count/"):
        return f"gpu: {{count: {int(read_quantity(amount))}}}"
    return ""


def explain_small(quota: str, where: str, resource: str, most: str, asked: str) -> Finding:
    """Return that a quota never has room for a pod; `where` is kubectl's flags."""
    setting = ask_for(resource, most)
    rule = rules.QUOTA_SMALL if setting else rules.QUOTA_FIXED
    values = {"quota": quota, "where": where, "resource": resource, "setting": setting}
    return rule.found(**values, most=rewrite_quantity(most), asked=rewrite_quantity(asked))


def explain_full(quota: str, namespace: str, full: Mapping[str, tuple[str, str]]) -> Finding:
    """Return that a quota is used up; `full` has what is used and allowed of each resource."""
    amounts = ", ".join(f"{used} of {hard} {what}" for what, (used, hard) in full.items())
    return rules.QUOTA_FULL.found(quota=quota, namespace=namespace, amounts=amounts)


def _explain_quota(message: str, namespace: str) -> Finding | None:
    found = QUOTA.search(message)
    if not found:
        return None
    asked, used, limited = (
        dict(re.findall("([^,=]+)=([^,]+)", found[part]))
        for part in ("requested", "used", "limited")
    )
    for name, amount in asked.items():
        if read_quantity(amount) > read_quantity(limited.get(name, amount)):
            return explain_small(found["quota"], f"-n {namespace}", name, limited[name], amount)
    full = {
        n: (rewrite_quantity(used.get(n, "0")), rewrite_quantity(limited.get(n))) for n in asked
    }
    return explain_full(found["quota"], namespace, full)


def _explain_limit(message: str, namespace: str) -> Finding | None:
    found = LIMIT.search(message)
    if not found:
        return None
    asked = f", and it asks for {rewrite_quantity(found['asked'])}" if found["asked"] else ""
    bound = "at most" if found["bound"] == "maximum" else "at least"
    setting = ask_for(found["what"], found["limit"])
    return (rules.LIMIT if setting else rules.LIMIT_FIXED).found(
        part=found["of"].lower(),
        resource=found["what"],
        bound=f"{bound} {rewrite_quantity(found['limit'])}{asked}",
        setting=setting,
        namespace=namespace,
    )


def fix_violations(message: str, claimed: str = CLAIMED, host_ipc: bool = True) -> str:
    """Return the edits after which Pod Security allows a pod that it has refused.

    `claimed` is the edit for NFS folders of deployer.yaml; empty if it mounts none. `host_ipc`
    tells whether deployer.yaml sets it; what deployer.yaml does not set comes from a template.
    """
    found = re.search(rules.POD_SECURITY.pattern, message, re.DOTALL)
    violations = VIOLATION.finditer(found["why"].strip()) if found else ()
    fields = [f for one in violations for f in _list_fields(one["what"], one["detail"] or "")]
    settings = {"runAsUser: 1000 of the pod": "run_as_user: 1000"}
    if host_ipc:
        settings["hostIPC: false"] = "host_ipc: false"
    set_here = [settings[one] for one in fields if one in settings]
    edits = [edit("kubernetes", ", ".join(set_here))] if set_here else []
    if NFS in fields and claimed:
        edits.append(claimed)
        fields = [one for one in fields if one != NFS]
    if others := dict.fromkeys(one for one in fields if one not in settings):
        edits.append(f"{', '.join(others)} in your template")
    return ", and ".join(edits)


def _list_fields(what: str, detail: str) -> Iterator[str]:
    """Yield the fields of a pod without a violation."""
    if what == "host namespaces":
        yield from (f"{name}: false" for name in re.findall(r"(\w+)=true", detail))
    elif what in ("hostPath volumes", "restricted volume types"):
        kinds = re.findall(r'"([^"]+)"', detail.partition(" volume type")[2]) or ["hostPath"]
        yield from (f"a claim instead of {kind}" for kind in kinds)
    elif what == "runAsUser=0" and detail.startswith("pod"):
        yield "runAsUser: 1000 of the pod"
        if "container" in detail:
            yield ALLOWED_FIELDS["runAsUser"]
    else:
        known = (field for name, field in ALLOWED_FIELDS.items() if what.startswith(name))
        yield next(known, f"nothing of {what}")
