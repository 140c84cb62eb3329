"""Why pods do not run, as a real cluster says it: each cause made, its reason and remedy read.

All pods wait at a time, in a cluster of their own with simulated nodes and a registry here. What
only a cloud does is an event as its autoscaler writes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from deployer.config.causes import Cause
from deployer.errors import Finding
from deployer.executors.kubernetes.executor import KubernetesExecutor
from deployer.kube.objects import AGENT_LABEL, POD, SWEEP_PATH_ANNOTATION, build_labels
from deployer.model import Agent
from tests.cluster.bed import build_executor, build_section, open_client, wait_for
from tests.cluster.cluster import Cluster
from tests.cluster.gpu_nodes import A100, GPU, PRODUCT, add_node
from tests.cluster.pods import build_job, build_pod
from tests.cluster.site_registry import make_pull_secret, trust_registry
from tests.cluster.tenants import make_tenant
from tests.cluster.waiting import pending_cases
from tests.cluster.waiting.pending_cases import HOST, PLACED, Case
from tests.cluster.waiting.pending_clouds import CLOUD_CASES
from tests.docs.pending_table import is_listed
from tests.images.registry import RunningRegistry, serve_registry

pytestmark = pytest.mark.full
PATH = "e/p/pending"
CASES = [*pending_cases.CASES, *CLOUD_CASES, *pending_cases.TENANT_CASES]
POLICY: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "terminal"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                }
            ]
        },
        "validations": [
            {
                "expression": "!has(object.spec.hostname) || object.spec.hostname != 'refused'",
                "message": "no terminal",
            }
        ],
    },
}
BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "terminal"},
    "spec": {"policyName": "terminal", "validationActions": ["Deny"]},
}
FAR = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "far"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "hostPath": {"path": "/tmp"},
        "nodeAffinity": {
            "required": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
                ]
            }
        },
    },
}


@dataclass(frozen=True)
class Stage:
    """The cluster on whose nodes nothing starts, and who looks at its namespaces."""

    cluster: Cluster
    executors: Mapping[str, KubernetesExecutor]

    def find(self, name: str, namespace: str = "main") -> Agent:
        """Return an agent as it is now."""
        agents = self.executors[namespace].list_agents(PATH)
        return next(agent for agent in agents if agent.name == name)


@pytest.fixture(scope="module")
def stage(
    make_cluster: Callable[..., Cluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    cluster = make_cluster()
    with serve_registry(tmp_path_factory.mktemp("registry"), cluster.host) as site:
        trust_registry(cluster, site)
        make_nodes(cluster)
        make_objects(cluster, site)
        tenant = make_tenant(cluster, "rented")
        folder = tmp_path_factory.mktemp("project")
        for case in (*CASES, PLACED):
            cluster.create(build_agent(case, site.address), case.namespace)
        write_events(cluster)
        section = build_section()
        names = sorted({case.namespace for case in CASES})
        clients = {name: open_client(cluster.kubeconfig, name) for name in names}
        clients["rented"] = open_client(tenant, "rented")
        executors = {
            name: build_executor(client, section, folder) for name, client in clients.items()
        }
        cluster.kubectl("label", "namespace", "main", "pod-security.kubernetes.io/enforce-")
        yield Stage(cluster, executors)


def make_nodes(cluster: Cluster) -> None:
    """Add nodes with one GPU each that take no pod, each for a reason of its own."""
    for name in ("busy", "tainted", "closed"):
        add_node(cluster, f"pend-{name}", {PRODUCT: A100}, {GPU: 1})
    add_node(cluster, "pend-small", {PRODUCT: A100}, {"cpu": 4, GPU: 1})
    add_node(cluster, "pend-bare", {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}, {})
    cluster.kubectl("cordon", "pend-closed")
    cluster.kubectl("taint", "node", "pend-tainted", "team=a:NoSchedule")


def make_objects(cluster: Cluster, site: RunningRegistry) -> None:
    """Make namespaces, Secrets, claims, classes, and what forbids pods."""
    names = ("main", "used", "small", "limited", "baseline", "restricted", "rented")
    for name in names:
        cluster.kubectl("create", "namespace", name)
    for level in ("baseline", "restricted"):
        enforced = f"pod-security.kubernetes.io/enforce={level}"
        cluster.kubectl("label", "namespace", level, enforced)
    cluster.create(build_pod("one", ["sleep", "1000"]), "used")
    cluster.kubectl("create", "quota", "team", "-n", "used", "--hard=pods=1")
    cluster.kubectl("create", "quota", "team", "-n", "small", "--hard=requests.cpu=10m")
    limits = {"limits": [{"type": "Container", "max": {"cpu": "10m"}}]}
    head = {"apiVersion": "v1", "metadata": {"name": "team"}}
    cluster.create({**head, "kind": "LimitRange", "spec": limits}, "limited")
    make_pull_secret(cluster, "main", site)
    make_pull_secret(cluster, "main", site, "wrong", "no-such-password")
    cluster.create(FAR)
    make_claim(cluster, "main", "far", "", volumeName="far")
    for namespace in ("main", "rented"):
        make_claim(cluster, namespace, "classless", "none")
        make_claim(cluster, namespace, "late", "late")
    cluster.wait_for("pvc/far", "jsonpath=.status.phase=Bound", "main")
    make_late_class(cluster)
    runtime = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
    cluster.create({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", **runtime})
    forbid_hostname(cluster)
    first = build_pod("first", ["true"], limits={GPU: "1"}, node_selector={HOST: "pend-busy"})
    small = build_pod("small", ["true"], limits={"cpu": "2"}, node_selector={HOST: "pend-small"})
    small["spec"]["tolerations"] = [{"key": GPU, "operator": "Exists"}]
    for pod in (first, small):
        cluster.create(pod, "main")
    for name in ("first", "small"):
        cluster.wait_for(f"pod/{name}", "jsonpath=.status.phase=Running", "main")


def make_claim(
    cluster: Cluster, namespace: str, name: str, storage_class: str, **more: str
) -> None:
    """Make a claim on a volume of a class."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec |= {"storageClassName": storage_class, **more}
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    cluster.create({**kind, "metadata": {"name": name}, "spec": spec}, namespace)


def make_late_class(cluster: Cluster) -> None:
    """Make a class once claims have been told that there is none; nobody provisions for it."""
    about = "--field-selector=reason=ProvisioningFailed,involvedObject.name=late"
    look = ("get", "events", about, "-o", "name", "-n")
    for namespace in ("main", "rented"):
        wait_for(lambda n=namespace: cluster.kubectl(*look, n), "the volume controller's word")
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    cluster.create({**kind, "metadata": {"name": "late"}, "provisioner": "example.com/nobody"})


def forbid_hostname(cluster: Cluster) -> None:
    """Have the policy refuse pods, as it does some seconds after its objects are there."""
    cluster.create(POLICY)
    cluster.create(BINDING)
    pod = build_pod("refused", ["true"])
    pod["spec"]["hostname"] = "refused"
    send = ("create", "-n", "main", "--dry-run=server", "-f", "-")

    def refuses() -> bool:
        return "no terminal" in cluster.try_kubectl(*send, stdin=json.dumps(pod)).stderr

    wait_for(refuses, "the policy")


def build_agent(case: Case, registry: str) -> dict[str, Any]:
    """Return the Job of an agent that is a case."""
    pod = build_pod(case.name, case.command, limits=case.limits)
    container, spec = pod["spec"]["containers"][0], pod["spec"]
    spec |= case.spec
    volumes = case.spec.get("volumes", ())
    container["volumeMounts"] = [{"name": one["name"], "mountPath": "/v"} for one in volumes]
    if case.image:
        container["image"] = case.image.replace("REGISTRY", registry)
        container["imagePullPolicy"] = case.job.get("imagePullPolicy", "Always")
    if case.env:
        container["env"].append(dict(case.env))
    job = build_job(case.name, pod)
    job["spec"]["suspend"] = case.job.get("suspend", False)
    job["spec"]["backoffLimit"] = case.job.get("backoffLimit", 0)
    named = {"labels": build_labels("agent", PATH, case.name)}
    named["annotations"] = {SWEEP_PATH_ANNOTATION: PATH, AGENT_LABEL: case.name}
    if case.begins:
        named["annotations"]["sim/starts-after"] = case.begins
    job["metadata"] |= named
    job["spec"]["template"]["metadata"] = named
    return job


def write_events(cluster: Cluster) -> None:
    """Write about pods what an autoscaler would."""
    client = open_client(cluster.kubeconfig, "main")
    for case in (*CASES, PLACED):
        if case.event is None:
            continue
        labels = ",".join(f"{k}={v}" for k, v in build_labels("agent", PATH, case.name).items())
        wait_for(lambda labels=labels: client.list_objects(POD, labels), f"the pod {case.name}")
        [pod] = client.list_objects(POD, labels)
        source, reason, message = case.event
        cluster.create(build_event(pod["metadata"], source, reason, message), "main")


def build_event(about: Mapping[str, Any], source: str, reason: str, message: str) -> dict[str, Any]:
    """Return an event about a pod, in the time to come so that it is the newest."""
    kind = "Warning" if reason.startswith("Failed") else "Normal"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "autoscaler-", "namespace": about["namespace"]},
        "involvedObject": {
            "kind": "Pod",
            "name": about["name"],
            "namespace": about["namespace"],
            "uid": about["uid"],
        },
        "type": kind,
        "reason": reason,
        "message": message,
        "source": {"component": source},
        "lastTimestamp": about["creationTimestamp"],
    }


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_each_cause_is_said_with_its_remedy(stage: Stage, case: Case) -> None:
    seen: list[Finding] = []

    def look() -> Finding | None:
        return stage.find(case.name, case.namespace).pending

    def is_said() -> bool:
        found = look()
        wanted = (case.cause, case.transient)
        if found is None or (found.code, found.transient) != wanted:
            return False
        if case.said not in found.message:
            return False
        seen.append(found)
        return True

    try:
        wait_for(is_said, case.name, 40.0)
    except AssertionError:
        pytest.fail(f"{case.name}: {look()}")
    [found] = seen  # a Job that tries again has a pod that begins in between
    assert case.said in found.message
    assert found.fix or found.transient is not False or found.code is Cause.OTHER
    plain = found.fix.replace("kubectl --context test ", "kubectl ")
    assert plain.count("kubectl ") == found.fix.count("kubectl --context test ")
    assert case.remedy in ("", plain)
    assert is_listed(replace(found, fix=plain)), f"docs/pending.md lacks {found}"


def test_a_pod_that_has_its_node_is_not_explained_by_the_scheduler(stage: Stage) -> None:
    node = ("get", "pods", "-n", "main", "-l", f"job-name={PLACED.name}", "-o")
    path = "jsonpath={.items[*].spec.nodeName}"
    wait_for(lambda: stage.cluster.kubectl(*node, path), "its node")
    assert stage.find(PLACED.name).state == "starting"
    wait_for(lambda: stage.find(PLACED.name).pending is None, "a look at it")
