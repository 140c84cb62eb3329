"""The obstacles of pending pods, and the message for each; docs/pending.md is generated from it.

A rule quotes the cluster's text in `$words`, and gives the command that fixes it. "Never" is only
used if the component that decides has said so: the API server, Kueue, or the kubelet of the pod's
node. A rule with a `pattern`, whose groups are names in `says` and `fix`, is recognised by its
text; a comment names the program that writes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import Template

from deployer.config.causes import Cause
from deployer.errors import PERMANENT, TRANSIENT, Finding, edit


@dataclass(frozen=True)
class Rule:
    """One rule: `says` and `fix` with $names for variable parts; `transient` as in a Finding."""

    code: Cause
    says: str
    fix: str = ""
    transient: bool | None = None
    pattern: str = ""

    def found(self, **values: object) -> Finding:
        said, fix = (Template(text).substitute(values) for text in (self.says, self.fix))
        return Finding(self.code, "", said, fix, transient=self.transient)

    def match(self, words: str, **values: object) -> Finding | None:
        found = re.search(self.pattern, words, re.DOTALL)
        if found is None:
            return None
        return self.found(**{"words": words.strip()} | found.groupdict() | values)


def permanent(code: Cause, says: str, fix: str = "", pattern: str = "") -> Rule:
    return Rule(code, says, fix, PERMANENT, pattern)


def transient(code: Cause, says: str, fix: str = "", pattern: str = "") -> Rule:
    return Rule(code, says, fix, TRANSIENT, pattern)


def unclear(code: Cause, says: str, fix: str = "", pattern: str = "") -> Rule:
    return Rule(code, says, fix, None, pattern)


# Nodes: the scheduler's text in `$words`, and facts from the nodes if they may be listed.

_DESCRIBE_NODES = "ask an administrator: kubectl describe nodes"
_LIST_TAINTS = (
    "ask an administrator: "
    "kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints"
)
_LIST_LABELS = "ask an administrator: kubectl get nodes --show-labels"
_TOLERATE = edit("kubernetes", "tolerations: [{key: $key, operator: Exists}]")
_SET = edit("kubernetes", "$setting")
OTHER_GPU = unclear(Cause.NO_SUCH_GPU, "no node$where has $count $resource; there is $there", _SET)
NO_GPU = unclear(
    Cause.NO_SUCH_GPU,
    "no node$where has $count $resource; there is $there",
    "ask an administrator for a node with $count $resource",
)
GPUS_BUSY = unclear(Cause.GPUS_BUSY, "$words", _DESCRIBE_NODES)
GPUS_TAKEN = transient(Cause.GPUS_BUSY, "$words")
TAINT = unclear(Cause.TAINT, "taint $taint of node $node is not tolerated", _TOLERATE)
TAINT_SAID = unclear(Cause.TAINT, "$words", _TOLERATE)
TAINT_UNNAMED = unclear(Cause.TAINT, "$words", _LIST_TAINTS)
LABEL_VALUE = unclear(Cause.SELECTOR, "no node has $label; nearest: $nearest", _SET)
LABEL = unclear(Cause.SELECTOR, "no node has $label", _LIST_LABELS)
SELECTOR = unclear(Cause.SELECTOR, "$words", _LIST_LABELS)
NO_DRIVER = unclear(
    Cause.DRIVER_MISSING,
    "node $node has a GPU but reports none: it has no driver",
    "deployer drivers install",
)
NO_PLUGIN = unclear(
    Cause.DRIVER_MISSING,
    "node $node has a GPU but reports none: no device plugin runs there",
    "NVIDIA's GPU Operator, or deployer drivers install --device-plugin",
)
DRIVER_COMES = unclear(
    Cause.DRIVER_MISSING,
    "node $node has a GPU but reports none: $why",
    "deployer drivers status",
)
# NVIDIA's container toolkit and the runtimes, for a container or a sandbox that was not created.
DRIVER_BROKEN = unclear(
    Cause.DRIVER_MISSING,
    "node $node has no working NVIDIA driver or container toolkit: $words",
    "ask an administrator: kubectl describe node $node",
    "(?i)nvidia-container-cli|NVML|libnvidia-ml|could not select device driver|"
    r"nvidia\.com/gpu=|failed to inject CDI devices|no runtime for \"?[^\"\s]*nvidia",
)
# Texts of the cluster autoscaler, its cloud providers, and Karpenter, which retries sold-out offers
# after three minutes.
STOCKOUT = transient(
    Cause.STOCKOUT,
    "the cloud has no such node now: $words",
    "another zone, another GPU, or on-demand instead of spot nodes",
    "(?i)out of resources|STOCKOUT|RESOURCE_POOL_EXHAUSTED|insufficient.?capacity|"
    "ZoneResourcePoolExhausted|AllocationFailed|SkuNotAvailable|"
    "in backoff after failed scale-up|required offering|reserved offering",
)
CLOUD_QUOTA = unclear(
    Cause.STOCKOUT,
    "the cloud's quota is used up: $words",
    "ask the cloud for a larger quota",
    "(?i)QUOTA_EXCEEDED|quota exceeded|exceeded quota|LimitExceeded",
)

# Rules of the server: its refusal of a pod, in the text of the admission plugins.

# plugin/pkg/admission/resourcequota: quota controller, `checkRequest`.
QUOTA_USED = transient(Cause.QUOTA, "quota $quota of namespace $namespace is used up: $amounts")
QUOTA_NEW = transient(
    Cause.QUOTA,
    "quota $quota is new and not counted yet",
    pattern=r"status unknown for quota: (?P<quota>[^,]+)",
)
QUOTA_SMALL = permanent(
    Cause.QUOTA,
    "quota $quota of namespace $namespace is too small for a pod: $amounts",
    "ask an administrator: kubectl edit resourcequota $quota -n $namespace",
)
QUOTA_UNSAID = permanent(
    Cause.QUOTA,
    "quota $quota asks for $what",
    edit("kubernetes", "cpu: …, memory: …"),
    r"failed quota: (?P<quota>[^:]+): must specify (?P<what>.+\S)",
)
# staging/src/k8s.io/pod-security-admission, `EvaluatePod`.
POD_SECURITY = permanent(
    Cause.POD_SECURITY,
    "Pod Security $level forbids it: $why",
    "$edits",
    r'violates PodSecurity "(?P<level>[^"]+)": (?P<why>.+\S)',
)
# From policies and webhooks, limit ranges, accounts and classes: each names what it refuses.
REFUSED = permanent(
    Cause.OTHER,
    "the server refuses its pod: $words",
    pattern=r"(?: is forbidden: |(?=admission webhook .*denied))(?P<words>.+\S)",
)
NOT_MADE = unclear(Cause.OTHER, "the server refuses its pod: $words")

# Objects that the pod references.

SECRET = permanent(
    Cause.OBJECT_MISSING,
    "Secret $name is missing",
    "kubectl create secret generic $name $where $values",
)
KEY = permanent(
    Cause.OBJECT_MISSING,
    "$kind $name has no key $key",
    "kubectl patch $resource $name $where -p $patch",
)
CONFIG_MAP = permanent(
    Cause.OBJECT_MISSING,
    "ConfigMap $name is missing",
    "kubectl create configmap $name $where --from-literal=KEY=VALUE",
)
CLAIM = permanent(
    Cause.OBJECT_MISSING, "PersistentVolumeClaim $name is missing", "kubectl get pvc $where"
)
MADE = permanent(Cause.OBJECT_MISSING, "$objects", "deployer agents up $path")
UNBOUND = unclear(
    Cause.CLAIM_UNBOUND,
    "PersistentVolumeClaim $name is not bound: $words",
    "kubectl describe pvc $name $where",
)
SOME_UNBOUND = unclear(Cause.CLAIM_UNBOUND, "$words", "kubectl get pvc $where")

# Images: the kubelet's text, including the registry's answer, as a gRPC status code or in the text
# of containerd (remotes/docker) and CRI-O (containers/image).

_OTHER_IMAGE = f"{edit('kubernetes', 'image: …')}, or deployer image push"
IMAGE_NAME = permanent(Cause.IMAGE, "'$image' is not a valid image name", _OTHER_IMAGE)
NEVER_PULLED = permanent(
    Cause.IMAGE,
    "image $image is not on the node, and image_pull_policy is Never",
    edit("kubernetes", "image_pull_policy: IfNotPresent"),
)
NO_IMAGE = permanent(
    Cause.IMAGE,
    "image $image is not in its registry",
    _OTHER_IMAGE,
    r"code = NotFound|manifest unknown|manifest for \S+ not found|name unknown|: not found$",
)
NO_LOGIN = permanent(
    Cause.IMAGE,
    "$registry refuses image $image $login: $words",
    "kubectl create secret docker-registry $secret -n $namespace --docker-server=$registry "
    "--docker-username=… --docker-password=…, and "
    + edit("kubernetes", "image_pull_secrets: [$secret]"),
    r"(?i)\b(401|403)\b|pull access denied|authorization failed|unauthorized|"
    "authentication required|no basic auth credentials|access forbidden",
)
NOT_PULLED = unclear(
    Cause.IMAGE,
    "image $image cannot be pulled: $words",
    f"Kubernetes retries; to use another registry: {_OTHER_IMAGE}",
)
NO_PYTHON = permanent(
    Cause.PROGRAM_MISSING,
    "$place has no $program",
    "$section: {python: $python} in deployer.yaml",
)
NO_PROGRAM = permanent(
    Cause.PROGRAM_MISSING,
    "$place has no $program",
    "another command of container $container in your template",
)

# Queues, and other reasons that hold Jobs back. Since 0.19 the reason of Kueue's condition may say
# whether waiting helps; before, and without its feature gate, only the text does.

_LOOK_AT_WORKLOAD = "kubectl describe workload $workload -n $namespace"
_LOOK_AT_QUEUE = "kubectl describe localqueue $queue $where"
NO_QUEUE = permanent(
    Cause.QUEUE_MISSING,
    "queue $queue is not in namespace $namespace",
    "ask an administrator for LocalQueue $queue",
)
OTHER_QUEUE = permanent(
    Cause.QUEUE_MISSING,
    "queue $queue is not in namespace $namespace; there is $there",
    edit("kubernetes", "queue: $nearest"),
)
NO_CLUSTER_QUEUE = permanent(
    Cause.QUEUE_MISSING,
    "queue $queue points to ClusterQueue $behind, which is missing",
    "ask an administrator for ClusterQueue $behind",
)
MULTI_KUEUE = permanent(
    Cause.QUEUE_MISSING,
    "queue $queue sends Jobs to other clusters (MultiKueue), where deployer does not see them",
    edit("kubernetes", "queue: NAME") + ", a queue of this cluster",
)
QUEUE_STOPPED = unclear(Cause.QUEUED, "queue $queue admits nothing: $words", _LOOK_AT_QUEUE)
NEVER_ADMITTED = permanent(
    Cause.QUEUED, "queue $queue can never admit it: $words", _LOOK_AT_WORKLOAD
)
WAITS = transient(Cause.QUEUED, "it waits in queue $queue: $words", _LOOK_AT_WORKLOAD)
NOT_ADMITTED = unclear(Cause.QUEUED, "queue $queue does not admit it: $words", _LOOK_AT_WORKLOAD)
NOT_SEEN = unclear(Cause.QUEUED, "it waits in queue $queue", _LOOK_AT_QUEUE)
NO_PRIORITY = unclear(
    Cause.QUEUED,
    "Kueue has not seen it yet in queue $queue; its priority class there is $priority",
    "ask an administrator: kubectl get workloadpriorityclasses",
)
SUSPENDED = unclear(
    Cause.SUSPENDED,
    "its Job is suspended",
    """kubectl patch job $job -n $namespace -p '{"spec": {"suspend": false}}'""",
)
EVICTED = unclear(
    Cause.EVICTED,
    "its pod was evicted: $words",
    "kubectl get events -n $namespace --field-selector involvedObject.name=$pod",
)
DEACTIVATED = permanent(
    Cause.EVICTED,
    "Kueue has deactivated it: $words",
    "kubectl patch workload $workload -n $namespace --type merge "
    """-p '{"spec": {"active": true}}'""",
)
REQUEUED = transient(Cause.EVICTED, "Kueue has evicted it: $words", _LOOK_AT_WORKLOAD)
UNSEEN = unclear(
    Cause.OTHER,
    "not scheduled yet: no scheduler has handled it; its schedulerName is $scheduler",
    "ask an administrator: kubectl get pods -n kube-system",
)
OTHER = unclear(Cause.OTHER, "$words")
