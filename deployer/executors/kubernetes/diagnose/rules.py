"""What may keep a pod from running, and what to say of each; docs/pending.md is made of it.

Only their messages tell many causes apart. A rule that reads one has a `pattern`, whose groups are
names in `says` and `fix`, and a comment on the program that writes the message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import Template

from deployer.config.causes import Cause
from deployer.findings import PERMANENT, TRANSIENT, Finding, edit


@dataclass(frozen=True)
class Rule:
    """One row: `says` and `fix` with $names for what differs; `transient` as a Finding has it."""

    code: Cause
    says: str
    fix: str = ""
    transient: bool | None = None
    pattern: str = ""

    def found(self, **values: object) -> Finding:
        """Return the finding with these values for the names."""
        said, fix = (Template(text).substitute(values) for text in (self.says, self.fix))
        return Finding(self.code, "", said, fix, transient=self.transient)

    def match(self, words: str, **values: object) -> Finding | None:
        """Return the finding if the pattern is in somebody's words, which are `$words`."""
        found = re.search(self.pattern, words, re.DOTALL)
        if found is None:
            return None
        return self.found(**{"words": words.strip()} | found.groupdict() | values)


def match_first(rules: tuple[Rule, ...], words: str, **values: object) -> Finding | None:
    """Return the finding of the first rule whose pattern is in somebody's words."""
    return next((one for rule in rules if (one := rule.match(words, **values))), None)


def permanent(code: Cause, says: str, fix: str = "", pattern: str = "") -> Rule:
    """Return the rule of what no waiting mends."""
    return Rule(code, says, fix, PERMANENT, pattern)


def transient(code: Cause, says: str, fix: str = "", pattern: str = "") -> Rule:
    """Return the rule of what passes with time."""
    return Rule(code, says, fix, TRANSIENT, pattern)


def unclear(code: Cause, says: str, fix: str = "", pattern: str = "") -> Rule:
    """Return the rule of what may pass."""
    return Rule(code, says, fix, None, pattern)


LIST_TAINTS = (
    "ask an administrator: "
    "kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints"
)
DESCRIBE_NODES = "ask an administrator: kubectl describe nodes"
DESCRIBE_NODE = "ask an administrator: kubectl describe node $node"
TOLERATE = edit("kubernetes", "tolerations: [{key: $key, operator: Exists}]")
SET = edit("kubernetes", "$setting")

# Nodes: where they may be listed, else by the scheduler's message.

NO_GPU_NODE = permanent(
    Cause.NO_SUCH_RESOURCE,
    "no node with a GPU exists now",
    f"{edit('kubernetes', 'gpu: 0')}, where a CPU will do",
)
NO_NODE = permanent(Cause.NO_SUCH_RESOURCE, "no node exists now", "ask an administrator for nodes")
TOO_LARGE = permanent(
    Cause.NO_SUCH_RESOURCE, "it asks for $count $resource, and no node has more than $most", SET
)
OTHER_RESOURCE = permanent(Cause.NO_SUCH_RESOURCE, "no node has $resource; there is $there", SET)
NO_RESOURCE = permanent(
    Cause.NO_SUCH_RESOURCE, "no node has $resource", "ask an administrator for nodes with $resource"
)
GPUS_IN_USE = transient(Cause.GPUS_BUSY, "all $count $resource on $nodes are in use")
GPUS_SPLIT = transient(
    Cause.GPUS_BUSY, "it asks for $count $resource, and no node has more than $free free"
)
_TOO_LITTLE = "$count of $nodes nodes have too little $resource free"
_OR_NONE = f"{_TOO_LITTLE}, or none at all: you may not list nodes"
_OR_LESS = f"{_TOO_LITTLE}, or too little in all: you may not list nodes"
GPUS_TAKEN = transient(Cause.GPUS_BUSY, _TOO_LITTLE)
GPUS_HIDDEN = unclear(Cause.GPUS_BUSY, _OR_NONE, DESCRIBE_NODES)
DEVICES_TAKEN = unclear(
    Cause.GPUS_BUSY, "$count of $nodes nodes have no device left for it (DRA)", DESCRIBE_NODES
)
NODES_FULL = transient(Cause.NODES_FULL, _TOO_LITTLE)
NODES_HIDDEN = unclear(Cause.NODES_FULL, _OR_LESS, DESCRIBE_NODES)
PREEMPTS = transient(Cause.NODES_FULL, "it waits until others have left node $node for it")
_POLITE = "$reason, and its priority class $name preempts no other pod"
PRIORITY = transient(Cause.PRIORITY, _POLITE)
PRIORITY_HIDDEN = unclear(Cause.PRIORITY, _POLITE, DESCRIBE_NODES)
_TAINT = "taint $taint of node $node is not tolerated"
TAINT = permanent(Cause.TAINT, _TAINT, TOLERATE)
TAINT_STARTING = transient(Cause.TAINT, _TAINT)
_TAINTS = "$count of $nodes nodes have a taint that is not tolerated"
TAINTS = unclear(Cause.TAINT, f"{_TAINTS}: $taint", TOLERATE)
TAINTS_UNNAMED = unclear(Cause.TAINT, _TAINTS, LIST_TAINTS)
_UNKNOWN_TAINT = f"{_TAINTS}: which one is not known, since you may not list nodes"
TAINTS_HIDDEN = unclear(Cause.TAINT, _UNKNOWN_TAINT, LIST_TAINTS)
LABEL_VALUE = permanent(Cause.SELECTOR, "no $what has $label; nearest: $nearest", SET)
LABEL = permanent(Cause.SELECTOR, "no $what has a label $label", "leave it out in deployer.yaml")
SELECTOR = permanent(
    Cause.SELECTOR,
    "no $what is allowed by the pod's node selector and affinity",
    "ask an administrator: kubectl get nodes --show-labels",
)
SELECTORS = unclear(Cause.SELECTOR, "none of $nodes nodes fits its selector: $selector")
CORDONED = unclear(
    Cause.NODES_CLOSED, "node $node is cordoned", "ask an administrator: kubectl uncordon $node"
)
ALL_CORDONED = unclear(Cause.NODES_CLOSED, "$count of $nodes nodes are cordoned")
PRESSURE = transient(Cause.NODE_PRESSURE, "node $node is short of $resource", DESCRIBE_NODE)
ALL_PRESSED = transient(
    Cause.NODE_PRESSURE, "$count of $nodes nodes are under pressure ($resource)"
)
NOT_READY = unclear(Cause.NODE_LOST, "node $node is not ready", DESCRIBE_NODE)
ALL_NOT_READY = unclear(Cause.NODE_LOST, "$count of $nodes nodes are not ready")
NO_ANSWER = transient(
    Cause.NODE_LOST,
    "node $node does not answer: its agent starts elsewhere once the pod is given up",
    "kubectl describe node $node",
)
NO_DRIVER = permanent(
    Cause.DRIVER_MISSING, "the driver is missing on node $node", "deployer drivers install"
)
DRIVER_COMES = transient(Cause.DRIVER_MISSING, "the driver is being installed on node $node")
GKE_DRIVER_COMES = transient(Cause.DRIVER_MISSING, "GKE is installing the driver on node $node")
NO_GKE_PLUGIN = unclear(Cause.DRIVER_MISSING, "GKE's device plugin has not come yet on node $node")
NO_PLUGIN = unclear(
    Cause.DRIVER_MISSING,
    "the device plugin is missing on node $node",
    "NVIDIA's GPU Operator, or deployer drivers install --device-plugin",
)
NO_PLUGIN_OR_DRIVER = unclear(
    Cause.DRIVER_MISSING,
    "the device plugin is missing on node $node, and whether there is a driver cannot be told",
    "NVIDIA's GPU Operator, or deployer drivers install --device-plugin",
)
PLUGIN_STARTS = transient(
    Cause.DRIVER_MISSING, "the device plugin has counted no GPU yet on node $node"
)
DRIVER_TROUBLE = unclear(Cause.DRIVER_MISSING, "$trouble on node $node")
# NVIDIA's container toolkit and the runtimes, of a container that was not created.
DRIVER_BROKEN = unclear(
    Cause.DRIVER_MISSING,
    "node $node has no working NVIDIA driver: $words",
    DESCRIBE_NODE,
    "(?i)nvidia-container-cli|NVML|libnvidia-ml|could not select device driver|"
    r"nvidia\.com/gpu=|failed to inject CDI devices",
)

# Rules of the server: its refusal of a pod, in the words of the admission plugins.

# plugin/pkg/admission/resourcequota: quota controller, `checkRequest`.
QUOTA_FULL = transient(
    Cause.QUOTA_USED,
    "quota $quota of namespace $namespace is used up: $amounts",
    "kubectl get resourcequota -n $namespace",  # tenants may list; `describe` gets each
)
QUOTA_NEW = transient(
    Cause.QUOTA_USED,
    "quota $quota is new and not counted yet",
    pattern=r"status unknown for quota: (?P<quota>[^,]+)",
)
QUOTA_SMALL = permanent(
    Cause.QUOTA_SMALL, "quota $quota allows $most $resource, and a pod asks for $asked", SET
)
QUOTA_FIXED = permanent(
    Cause.QUOTA_SMALL,
    "quota $quota allows $most $resource, and a pod asks for $asked",
    "ask an administrator: kubectl edit resourcequota $quota $where",
)
QUOTA_UNSAID = permanent(
    Cause.QUOTA_SMALL,
    "quota $quota asks for $what",
    edit("kubernetes", "cpu: …, memory: …"),
    r"failed quota: (?P<quota>[^:]+): must specify (?P<what>.+\S)",
)
# plugin/pkg/admission/limitranger: `maxConstraint`, `minConstraint`, `limitRequestRatioConstraint`.
_LIMIT = "the limit range allows a $part $resource of $bound"
_SHOW_LIMITS = "ask an administrator: kubectl get limitrange -n $namespace -o yaml"
LIMIT = permanent(Cause.LIMIT_RANGE, _LIMIT, SET)
LIMIT_FIXED = permanent(Cause.LIMIT_RANGE, _LIMIT, _SHOW_LIMITS)
LIMIT_RATIO = permanent(
    Cause.LIMIT_RANGE,
    "the limit range allows $resource limits of at most $ratio requests",
    _SHOW_LIMITS,
    r"(?P<resource>\S+) max limit to request ratio per \w+ is (?P<ratio>[^\s,]+)",
)
# staging/src/k8s.io/pod-security-admission, `EvaluatePod`.
POD_SECURITY = permanent(
    Cause.POD_SECURITY,
    "Pod Security $level forbids it: $why",
    "$edits",
    r'violates PodSecurity "(?P<level>[^"]+)": (?P<why>.+\S)',
)
# plugin/pkg/admission/serviceaccount.
ACCOUNT = permanent(
    Cause.SERVICE_ACCOUNT,
    "ServiceAccount $name is missing in namespace $namespace",
    "ask an administrator: kubectl create serviceaccount $name -n $namespace",
    r'error looking up service account \S+: serviceaccount "(?P<name>[^"]+)"',
)
# plugin/pkg/admission/priority.
PRIORITY_CLASS = permanent(
    Cause.PRIORITY_CLASS,
    "there is no PriorityClass $name",
    edit("kubernetes", "priority_class: null"),
    r"no PriorityClass with name (?P<name>\S+) was found",
)
QUEUE_PRIORITY = permanent(
    Cause.PRIORITY_CLASS,
    "there is no WorkloadPriorityClass $name",
    edit("kubernetes", "queue_priority: $nearest"),
)
# plugin/pkg/admission/runtimeclass.
RUNTIME_CLASS = permanent(
    Cause.RUNTIME_CLASS,
    "RuntimeClass $name not found",
    edit("kubernetes", "runtime_class: null"),
    r'RuntimeClass "?(?P<name>[^"\s]+)"? not found',
)
# pkg/kubelet/kuberuntime: "Failed to create pod sandbox: … no runtime for "nvidia" is configured".
NVIDIA_RUNTIME = unclear(
    Cause.RUNTIME_CLASS,
    "the node has no container runtime $name",
    "ask an administrator to install NVIDIA's container toolkit on node $node",
    r'no runtime for "?(?P<name>[^"\s]*nvidia[^"\s]*)"? is configured',
)
RUNTIME = unclear(
    Cause.RUNTIME_CLASS,
    "the node has no container runtime $name",
    edit("kubernetes", "runtime_class: null"),
    r'no runtime for "?(?P<name>[^"\s]+)"? is configured',
)
# Both end in words of whoever wrote them. A webhook that cannot be called is none of these.
POLICY = permanent(
    Cause.REFUSED,
    "ValidatingAdmissionPolicy '$name' $words",
    "ask an administrator: kubectl get validatingadmissionpolicy $name -o yaml",
    r"ValidatingAdmissionPolicy '(?P<name>[^']+)' (?P<words>.*denied.*\S)",
)
WEBHOOK = permanent(
    Cause.REFUSED,
    "admission webhook $words",
    "ask an administrator: "
    "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
    r"admission webhook (?P<words>.*denied.*\S)",
)
REFUSED = permanent(
    Cause.REFUSED, "the server refuses its pod: $words", pattern=r" is forbidden: (?P<words>.+\S)"
)
NOT_MADE = unclear(Cause.REFUSED, "the server refuses its pod: $words")

# What the pod names.

SECRET = permanent(
    Cause.SECRET_MISSING,
    "Secret $name is missing",
    "kubectl create secret generic $name $where $values",
)
KEY = permanent(
    Cause.KEY_MISSING,
    "$kind $name has no key $key",
    "kubectl patch $resource $name $where -p $patch",
)
CONFIG_MAP = permanent(
    Cause.CONFIG_MAP_MISSING,
    "ConfigMap $name is missing",
    "kubectl create configmap $name $where --from-literal=KEY=VALUE",
)
CLAIM = permanent(
    Cause.CLAIM_MISSING,
    "PersistentVolumeClaim $name is missing",
    "kubectl get pvc $where",
)
MADE = permanent(Cause.MADE_MISSING, "$objects", "deployer agents up $path")
NO_CLASS = permanent(
    Cause.CLAIM_UNBOUND,
    "PersistentVolumeClaim $name is not bound: StorageClass $missing not found",
    "ask an administrator for StorageClass $missing",
)
UNBOUND = unclear(
    Cause.CLAIM_UNBOUND,
    "PersistentVolumeClaim $name is not bound$why",
    "kubectl describe pvc $name $where",
)
LOST = permanent(
    Cause.CLAIM_UNBOUND,
    "PersistentVolumeClaim $name has lost its volume",
    "kubectl describe pvc $name $where",
)
SOME_UNBOUND = unclear(Cause.CLAIM_UNBOUND, "a PersistentVolumeClaim of it is not bound")
_ELSEWHERE = (
    "PersistentVolumeClaim $name is bound to a volume that only nodes$where reach, "
    "and the pod cannot go there"
)
ELSEWHERE = permanent(
    Cause.CLAIM_ELSEWHERE, _ELSEWHERE, edit("kubernetes", "node_selector: {$selector}")
)
ELSEWHERE_WITHOUT_NODE = permanent(
    Cause.CLAIM_ELSEWHERE, _ELSEWHERE, "ask an administrator for a node$where"
)
ELSEWHERE_UNKNOWN = permanent(
    Cause.CLAIM_ELSEWHERE, _ELSEWHERE, "ask an administrator: kubectl describe pv $volume"
)
ELSEWHERE_REACHED = unclear(Cause.CLAIM_ELSEWHERE, _ELSEWHERE)
# The kubelet's events about volumes.
_NOT_MOUNTED = "a volume cannot be mounted: $words"
_DESCRIBE_POD = "kubectl describe pod $pod -n $namespace"
VOLUME_BUSY = transient(Cause.VOLUME, _NOT_MOUNTED, _DESCRIBE_POD, "Multi-Attach")
VOLUME = unclear(Cause.VOLUME, _NOT_MOUNTED, _DESCRIBE_POD)

# Images: what the kubelet says, and in its message what the registry answered, as the code of a
# gRPC status or in the words of containerd (remotes/docker) and CRI-O (containers/image).

_OTHER_IMAGE = f"{edit('kubernetes', 'image: …')}, or deployer image push"
_LOGIN = (
    "kubectl create secret docker-registry $secret -n $namespace "
    "--docker-server=$registry --docker-username=… --docker-password=…"
)
IMAGE_NAME = permanent(Cause.IMAGE_NAME, "'$image' is not the name of an image", _OTHER_IMAGE)
NEVER_PULLED = permanent(
    Cause.IMAGE_NOT_FOUND,
    "image $image is not on the node, and image_pull_policy is Never",
    edit("kubernetes", "image_pull_policy: IfNotPresent"),
)
NO_IMAGE = permanent(
    Cause.IMAGE_NOT_FOUND,
    "image $image is not in its registry",
    _OTHER_IMAGE,
    r"code = NotFound|manifest unknown|manifest for \S+ not found|name unknown|: not found$",
)
NO_PULL_SECRET = permanent(
    Cause.PULL_SECRET_MISSING,
    "the pull Secret $secret is missing, and $registry asks for a login",
    _LOGIN,
)
LOGIN_REFUSED = permanent(
    Cause.IMAGE_REFUSED,
    "$registry refuses the login of Secret $secrets for image $image",
    f"{_LOGIN}, and {edit('kubernetes', 'image_pull_secrets: [$secret]')}",
)
NO_LOGIN = permanent(
    Cause.IMAGE_REFUSED,
    "$registry requires a login for image $image, or does not have it",
    f"{_LOGIN}, and {edit('kubernetes', 'image_pull_secrets: [NAME]')}",
)
NOT_PULLED = unclear(
    Cause.IMAGE_UNREACHABLE,
    "image $image cannot be pulled: $words",
    f"it is tried again; from another registry: {_OTHER_IMAGE}",
)
_OTHER_PYTHON = "$section: {python: $python} in deployer.yaml"
NO_PYTHON = permanent(Cause.PROGRAM_MISSING, "the image $image has no $program", _OTHER_PYTHON)
NO_PYTHON_IN_VOLUME = unclear(
    Cause.PROGRAM_MISSING, "volume $volume has no $program", _OTHER_PYTHON
)
_OTHER_COMMAND = "another command of container $container in your template"
NO_PROGRAM = permanent(Cause.PROGRAM_MISSING, "the image $image has no $program", _OTHER_COMMAND)
NO_PROGRAM_IN_VOLUME = unclear(
    Cause.PROGRAM_MISSING, "volume $volume has no $program", _OTHER_COMMAND
)

# Autoscalers and clouds: events of the cluster autoscaler (kubernetes/autoscaler, its
# core/scaleup/orchestrator/skippedreasons.go and processors/status/eventing_scale_up_processor.go),
# of GKE's own (cloud.google.com/kubernetes-engine/docs/how-to/cluster-autoscaler-visibility) and of
# Karpenter (kubernetes-sigs/karpenter, pkg/controllers/provisioning/scheduling).

NODE_COMES = transient(Cause.SCALING_UP, "a node is being added for it")
NODES_AT_MOST = transient(
    Cause.AUTOSCALER_LIMIT,
    "the autoscaler has reached its maximum: $words",
    "wait until others end, or ask for a larger maximum of the node group",
    r"(?i)max node group size reached|max cluster \S+ limit reached|max limit reached|"
    r"exceeds? limits? for nodepool|limits have been exhausted for nodepool",
)
BACKOFF = transient(
    Cause.STOCKOUT,
    "the autoscaler tries again after a while: $words",
    pattern="(?i)in backoff after failed scale-up|not ready for scale-up",
)
NO_GROUP = permanent(
    Cause.AUTOSCALER_REFUSED,
    "the autoscaler has no kind of node for it: $words",
    "deployer doctor",
)
SOLD_OUT = transient(
    Cause.STOCKOUT,
    "the cloud has no such node now: $words",
    "another zone, another GPU, or on-demand instead of spot nodes",
    "(?i)out of resources|STOCKOUT|RESOURCE_POOL_EXHAUSTED|insufficient.?capacity|"
    "ZoneResourcePoolExhausted|AllocationFailed|SkuNotAvailable|"
    # Karpenter: offers that were sold out come back after three minutes.
    "required offering|reserved offering",
)
CLOUD_QUOTA = unclear(
    Cause.CLOUD_QUOTA,
    "the cloud's quota is used up: $words",
    "ask the cloud for a larger quota",
    "(?i)QUOTA_EXCEEDED|quota exceeded|exceeded quota|LimitExceeded",
)

# Queues, and what else holds Jobs back. Kueue says in a condition's message alone whether a quota
# is used up or too small (0.9 to 0.19, pkg/scheduler/flavorassigner/flavorassigner.go).

PLACE = transient(Cause.QUEUED, "it is number $number of $count in queue $queue$more")
QUEUE_HAS_ROOM = transient(Cause.QUEUED, "queue $queue has room for it; it waits for its pod")
ADMISSION_CHECKS = transient(
    Cause.QUEUED,
    "queue $queue has room for it; it waits for $checks",
    "kubectl describe workload $workload -n $namespace",
)
NOT_ADMITTED = unclear(
    Cause.QUEUED,
    "queue $queue does not admit it: $words",
    "kubectl describe workload $workload -n $namespace",
)
QUEUE_HIDDEN = unclear(
    Cause.QUEUED, "it waits in queue $queue", "kubectl describe localqueue $queue -n $namespace"
)
NOT_SEEN = unclear(
    Cause.QUEUED,
    "Kueue has not seen it yet in queue $queue",
    "kubectl describe localqueue $queue -n $namespace",
)
PRIORITY_UNKNOWN = unclear(
    Cause.QUEUED,
    "Kueue has not seen it yet in queue $queue",
    "an administrator sees whether it is there: kubectl get workloadpriorityclasses $priority",
)
NO_QUEUE = permanent(
    Cause.QUEUE_MISSING,
    "queue $queue is not in namespace $namespace",
    edit("kubernetes", "$setting"),
)
_LEADS_NOWHERE = "queue $queue leads to ClusterQueue $behind, which is missing"
NO_CLUSTER_QUEUE = permanent(
    Cause.QUEUE_MISSING, _LEADS_NOWHERE, "ask an administrator for ClusterQueue $behind"
)
OTHER_QUEUE = permanent(Cause.QUEUE_MISSING, _LEADS_NOWHERE, edit("kubernetes", "queue: $nearest"))
QUEUE_STOPPED = unclear(
    Cause.QUEUE_STOPPED,
    "queue $queue admits nothing: $why",
    "kubectl describe localqueue $queue $where",
)
GIVEN_UP = permanent(
    Cause.QUEUE_STOPPED,
    "Kueue has given it up",
    "kubectl patch workload $workload -n $namespace --type merge "
    """-p '{"spec": {"active": true}}'""",
)
NEVER_ADMITTED = permanent(
    Cause.QUEUE_QUOTA,
    "queue $queue can never admit it: $words",
    "kubectl describe workload $workload -n $namespace",
)
MULTI_KUEUE = permanent(
    Cause.QUEUE_MISSING,
    "queue $queue sends Jobs to other clusters (MultiKueue), where deployer does not see them",
    edit("kubernetes", "queue: NAME") + ", one of this cluster",
)
QUEUE_SMALL = permanent(
    Cause.QUEUE_QUOTA,
    "queue $queue has $most $resource of $flavor in all, and it asks for more",
    "$fix",
    # Until 0.14 the amount that is asked for stands before the maximum: (5 > 4).
    r"insufficient quota for (?P<resource>\S+) in flavor (?P<flavor>\S+), "
    r".*?maximum capacity \((?:\S+ > )?(?P<most>\S+)\)",
)
QUEUE_WITHOUT = permanent(
    Cause.QUEUE_QUOTA,
    "queue $queue has no $resource at all",
    f"{edit('kubernetes', 'gpu: {resource: NAME}')}, or another queue",
    r"resource (?P<resource>\S+) unavailable in ClusterQueue",
)
NO_FLAVOR = permanent(
    Cause.SELECTOR,
    "queue $queue has no nodes that fit its selector: its flavor is $flavor",
    f"{edit('kubernetes', 'gpu: {product: NAME}')}, or another queue",
    r"flavor (?P<flavor>\S+) doesn't match node affinity",
)
SUSPENDED = unclear(
    Cause.SUSPENDED,
    "its Job is suspended",
    """kubectl patch job $job -n $namespace -p '{"spec": {"suspend": false}}'""",
)
GATED = unclear(Cause.GATED, "it is held back by scheduling gates: $gates")
UNSEEN = unclear(
    Cause.OTHER,
    "not scheduled yet: no scheduler has looked at it",
    "ask an administrator: kubectl get pods -n kube-system",
)
UNSEEN_BY = unclear(
    Cause.OTHER,
    "not scheduled yet: no scheduler has looked at it; it names $scheduler",
    "schedulerName: default-scheduler in your template",
)
OTHER = unclear(Cause.OTHER, "$words")
