"""Why the API server refuses a pod, from its own sentences; pure.

A refusal is a Status with reason Forbidden whoever refuses, so that the words are all that tells
a quota from a policy. They are those of the admission plugins of Kubernetes 1.24 to 1.34: each has
its source, and `tests/executors/waiting/test_refusals.py` a sentence of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from deployer.executors.reason import EDIT, Cause, Passes, Reason, edit
from deployer.kube.quantities import read_quantity, rewrite_quantity

SETTINGS = ("cpu", "memory")
# plugin/pkg/admission/resourcequota: quota controller, `checkRequest`.
QUOTA = re.compile(
    r"exceeded quota: (?P<name>\S+), requested: (?P<requested>\S+), "
    r"used: (?P<used>\S+), limited: (?P<limited>[^\s;]+)"
)
UNSAID = re.compile(r"failed quota: (?P<name>[^:]+): must specify (?P<what>.+)")
UNCOUNTED = re.compile(r"status unknown for quota: (?P<name>[^,]+)")
# plugin/pkg/admission/limitranger: `maxConstraint`, `minConstraint`, `limitRequestRatioConstraint`.
LIMITED = re.compile(
    r"(?P<bound>maximum|minimum) (?P<what>\S+) usage per (?P<of>\w+) is (?P<limit>[^\s,]+)"
    r"(?:, but (?:limit|request) is (?P<asked>[^\s,]+)|\.\s+No (?:limit|request) is specified)?"
)
RATIO = re.compile(r"(?P<what>\S+) max limit to request ratio per \w+ is (?P<limit>[^\s,]+)")
# staging/src/k8s.io/pod-security-admission, `EvaluatePod`.
POD_SECURITY = re.compile(r'violates PodSecurity "(?P<level>[^"]+)": (?P<why>.+)', re.DOTALL)
# What it calls a violation, in parentheses who violates it and how (each `check_*.go` of policy/).
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
# plugin/pkg/admission/serviceaccount.
ACCOUNT = re.compile(r'error looking up service account \S+: serviceaccount "(?P<name>[^"]+)"')
# plugin/pkg/admission/priority.
PRIORITY = re.compile(r"no PriorityClass with name (?P<name>\S+) was found")
# plugin/pkg/admission/runtimeclass.
RUNTIME = re.compile(r'RuntimeClass "?(?P<name>[^"\s]+)"? not found')
# A ValidatingAdmissionPolicy, and a webhook; both end in words of whoever wrote them.
POLICY = re.compile(
    r"(?P<who>(?:ValidatingAdmissionPolicy '(?P<name>[^']+)'|admission webhook) .+)", re.DOTALL
)


def explain_refusal(message: str, namespace: str) -> Reason:
    """Return why the server refuses a pod, from the sentence of its refusal."""
    reason = (
        _quota(message, namespace)
        or _limits(message, namespace)
        or _policies(message)
        or _objects(message, namespace)
    )
    if reason:
        return reason
    forbidden = "is forbidden: " in message
    passes = Passes.NEVER if forbidden else Passes.UNKNOWN
    return Reason(Cause.REFUSED, f"the server refuses its pod: {shorten(message)}", passes)


def is_for_good(message: str) -> bool:
    """Tell whether the server would refuse the same pod tomorrow."""
    return explain_refusal(message, "").passes is Passes.NEVER


def shorten(message: str) -> str:
    """Return a refusal without the name of the pod, which differs each time."""
    _, forbidden, rest = message.partition(" is forbidden: ")
    return (rest if forbidden else message).strip()


def ask_for(resource: str, amount: str) -> str:
    """Return the edit after which a pod takes so much of what a quota limits; empty if none."""
    kind, _, name = resource.partition(".")
    name = name if kind in ("requests", "limits") else resource
    if name in SETTINGS and read_quantity(amount):
        return edit("kubernetes", f'{name}: "{amount}"')
    if "/" in name and not name.startswith("count/"):
        return edit("kubernetes", f"gpu: {{count: {int(read_quantity(amount))}}}")
    return ""


def _quota(message: str, namespace: str) -> Reason | None:
    if unsaid := UNSAID.search(message):
        said = f"quota {unsaid['name']} asks for {unsaid['what'].strip()}"
        remedy = edit("kubernetes", "cpu: …, memory: …")
        return Reason(Cause.QUOTA_SMALL, said, Passes.NEVER, remedy)
    if uncounted := UNCOUNTED.search(message):
        said = f"quota {uncounted['name']} is new and not counted yet"
        return Reason(Cause.QUOTA_USED, said, Passes.WITH_TIME)
    found = QUOTA.search(message)
    if not found:
        return None
    asked, used, limited = (
        _parse_amounts(found[part]) for part in ("requested", "used", "limited")
    )
    for name, amount in asked.items():
        if read_quantity(amount) > read_quantity(limited.get(name, amount)):
            most, wanted = rewrite_quantity(limited[name]), rewrite_quantity(amount)
            said = f"quota {found['name']} allows {most} {name}, and a pod asks for {wanted}"
            remedy = ask_for(name, limited[name]) or (
                f"ask an administrator: kubectl edit resourcequota {found['name']} -n {namespace}"
            )
            return Reason(Cause.QUOTA_SMALL, said, Passes.NEVER, remedy)
    full = {
        n: (rewrite_quantity(used.get(n, "0")), rewrite_quantity(limited.get(n))) for n in asked
    }
    return explain_full(found["name"], namespace, full)


def explain_full(name: str, namespace: str, full: Mapping[str, tuple[str, str]]) -> Reason:
    """Say that a quota is used up; `full` has what is used and allowed of each resource."""
    amounts = ", ".join(f"{used} of {hard} {what}" for what, (used, hard) in full.items())
    said = f"quota {name} of namespace {namespace} is used up: {amounts}"
    # Tenants may list quotas; `kubectl describe` gets each.
    look = f"kubectl get resourcequota -n {namespace}"
    return Reason(Cause.QUOTA_USED, said, Passes.WITH_TIME, look)


def _limits(message: str, namespace: str) -> Reason | None:
    look = f"kubectl get limitrange -n {namespace} -o yaml"
    if found := LIMITED.search(message):
        asked = f", and it asks for {rewrite_quantity(found['asked'])}" if found["asked"] else ""
        bound = "at most" if found["bound"] == "maximum" else "at least"
        limit = rewrite_quantity(found["limit"])
        of = f"a {found['of'].lower()} {found['what']}"
        said = f"the limit range allows {of} of {bound} {limit}{asked}"
        remedy = edit("kubernetes", f"{found['what']}: {found['limit']}")
        known = found["what"] in ("cpu", "memory")
        return Reason(Cause.LIMIT_RANGE, said, Passes.NEVER, remedy if known else look)
    if found := RATIO.search(message):
        said = f"the limit range allows {found['what']} limits of at most {found['limit']} requests"
        return Reason(Cause.LIMIT_RANGE, said, Passes.NEVER, look)
    return None


def _policies(message: str) -> Reason | None:
    if found := POD_SECURITY.search(message):
        said = f"Pod Security {found['level']} forbids it: {found['why'].strip()}"
        return Reason(Cause.POD_SECURITY, said, Passes.NEVER, mend_violations(message))
    if found := POLICY.search(message):
        # A webhook that cannot be called is an internal error, which comes without `denied`.
        denied = "denied" in message
        passes = Passes.NEVER if denied else Passes.UNKNOWN
        what = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
        if found["name"]:
            what = f"validatingadmissionpolicy {found['name']} -o yaml"
        remedy = f"ask an administrator: kubectl get {what}" if denied else ""
        return Reason(Cause.REFUSED, found["who"].strip(), passes, remedy)
    return None


def mend_violations(message: str, claimed: str = CLAIMED, host_ipc: bool = True) -> str:
    """Return the edits after which Pod Security allows a pod that it has refused.

    `claimed` is the edit for NFS folders of deployer.yaml; empty if it mounts none. `host_ipc`
    tells whether deployer.yaml sets it; what deployer.yaml does not set comes from a template.
    """
    found = POD_SECURITY.search(message)
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


def _objects(message: str, namespace: str) -> Reason | None:
    if found := ACCOUNT.search(message):
        name = found["name"]
        said = f"ServiceAccount {name} is missing in namespace {namespace}"
        remedy = f"ask an administrator: kubectl create serviceaccount {name} -n {namespace}"
        return Reason(Cause.SERVICE_ACCOUNT, said, Passes.NEVER, remedy)
    if found := PRIORITY.search(message):
        said = f"there is no PriorityClass {found['name']}"
        remedy = edit("kubernetes", "priority_class: null")
        return Reason(Cause.PRIORITY_CLASS, said, Passes.NEVER, remedy)
    if found := RUNTIME.search(message):
        said = f"there is no RuntimeClass {found['name']}"
        remedy = edit("kubernetes", "runtime_class: null")
        return Reason(Cause.RUNTIME_CLASS, said, Passes.NEVER, remedy)
    return None


def _parse_amounts(text: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name: amount for name, _, amount in pairs}
