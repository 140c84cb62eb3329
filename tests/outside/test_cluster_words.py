"""What clusters and clouds say and send today, and what we make of it."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from deployer.config.causes import Cause
from deployer.errors import PERMANENT, TRANSIENT
from deployer.executors.kubernetes.diagnose.facts import ClusterNodes, PodFacts, Queue
from deployer.executors.kubernetes.diagnose.pending import WITHOUT_WARNING, explain
from deployer.executors.kubernetes.diagnose.placement import find_taint
from deployer.executors.kubernetes.diagnose.queue import explain_queue
from deployer.executors.kubernetes.gpu_drivers import DEVICE_PLUGIN, load_manifest
from deployer.executors.kubernetes.gpu_nodes import has_gpus, summarise_nodes
from tests.docs.pending_table import is_listed
from tests.executors.diagnose.bench import FULL, GPU, find, say, unscheduled
from tests.executors.gpu_drivers.objects import build_node
from tests.outside.files import LIFE_DAYS, list_files, load

KUEUE, GPU_NODES, SENTENCES = load("kueue"), load("gpu-nodes"), load("scheduler")["messages"]
EVENTS = [one for name in ("karpenter", "cluster-autoscaler") for one in load(name)["events"]]
PASSES = {True: TRANSIENT, False: PERMANENT, None: None}


def test_every_file_says_where_it_comes_from_and_when() -> None:
    files = list(list_files())
    assert len(files) > 20
    for one in files:
        assert one.source, one.name
        assert one.version, one.name
        assert not one.is_old(one.date + timedelta(days=LIFE_DAYS)), one.name
        assert one.is_old(one.date + timedelta(days=LIFE_DAYS + 1)), one.name
        assert one.date > date(2026, 1, 1), one.name


@pytest.mark.parametrize("event", EVENTS, ids=lambda one: one["message"][:70])
def test_an_autoscaler_is_heard_whatever_its_name(event: dict[str, Any]) -> None:
    said = say(event["reason"], event["message"], event["source"])
    found = find(unscheduled(FULL), said)
    assert found
    assert (found.code, found.transient) == (event["cause"], PASSES[event["passes"]])
    assert event["message"] in found.message
    assert is_listed(found)
    # What is no warning is asked for by its reason.
    assert event["type"] == "Warning" or event["reason"] in WITHOUT_WARNING


@pytest.mark.parametrize(
    "said", load("karpenter")["refusals"], ids=lambda one: one["message"][-40:]
)
def test_nothing_that_an_autoscaler_refuses_is_permanent(said: dict[str, Any]) -> None:
    event = say("FailedScheduling", said["message"], said["source"])
    found = find(unscheduled("nothing that is known"), event)
    assert found
    assert (found.code, found.transient) == (Cause.OTHER, None)
    assert found.message.endswith(f"; {said['source']}: {said['message']}")
    ours = say("FailedScheduling", FULL, "default-scheduler")
    found = find(unscheduled("nothing that is known"), ours)
    assert found
    assert found.message == "Unschedulable: nothing that is known"


@pytest.mark.parametrize("said", SENTENCES.values(), ids=list(SENTENCES))
def test_the_schedulers_sentence_tells_a_tenant_the_cause(said: dict[str, Any]) -> None:
    found = find(unscheduled(said["message"]))
    assert found
    assert (found.code, found.transient) == (said["cause"], None)
    sentence, _, _ = said["message"].partition(" preemption:")
    words = sentence.removesuffix(" no new claims to deallocate,").rstrip(".")
    assert words in found.message
    assert is_listed(found)


def is_selected(labels: dict[str, str], pod: dict[str, Any]) -> bool:
    """Return True if the required affinity of a DaemonSet's pod allows a node of these labels."""
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return any(
        all(
            one["key"] in labels
            if one["operator"] == "Exists"
            else labels.get(one["key"]) in one["values"]
            for one in term["matchExpressions"]
        )
        for term in required["nodeSelectorTerms"]
    )


@pytest.mark.parametrize("name", GPU_NODES["nodes"])
def test_a_gpu_node_of_a_cloud_gets_the_device_plugin(name: str) -> None:
    one = GPU_NODES["nodes"][name]
    node = build_node(name, one["labels"], taints=one["taints"])
    [found] = summarise_nodes([node], [])
    said, _, value = found.label.partition("=")
    assert one["labels"][said] == value
    pod = load_manifest(DEVICE_PLUGIN)["spec"]["template"]["spec"]
    assert is_selected(one["labels"], pod)
    assert find_taint(node, pod) is None


@pytest.mark.parametrize("name", GPU_NODES["others"])
def test_another_node_of_a_cloud_gets_none(name: str) -> None:
    one = GPU_NODES["others"][name]
    assert not has_gpus(build_node(name, one["labels"]))
    pod = load_manifest(DEVICE_PLUGIN)["spec"]["template"]["spec"]
    assert not is_selected(one["labels"], pod)


@pytest.mark.parametrize("served", [{GPU: "gpu.nvidia.com"}, None], ids=["classes", "hidden"])
def test_gpus_by_dra_are_not_looked_for_in_nodes(served: dict[str, str] | None) -> None:
    cpu = build_node("cpu", {})
    found = find(unscheduled(FULL), nodes=ClusterNodes((cpu,), (), served=served))
    assert found
    assert found.code is Cause.GPUS_BUSY
    assert found.transient is None
    assert "no node" not in found.line
    found = find(unscheduled(FULL), nodes=ClusterNodes((cpu,), ()))
    assert found
    assert found.code is Cause.NO_SUCH_GPU
    taken = find(unscheduled(SENTENCES["1.37 GPUs by DRA"]["message"]))
    assert taken
    assert taken.message.startswith("0/2 nodes are available: 1 cannot allocate all claims")


def build_workload(reason: str, message: str, **status: Any) -> dict[str, Any]:
    waiting = {"type": "QuotaReserved", "status": "False", "reason": reason, "message": message}
    return {
        "metadata": {"name": "w", "ownerReferences": [{"uid": "u"}]},
        "spec": {"queueName": "q"},
        "status": {"conditions": [waiting], **status},
    }


@pytest.mark.parametrize("said", KUEUE["waiting"], ids=lambda one: one["reason"])
def test_kueues_reason_counts_before_its_message(said: dict[str, Any]) -> None:
    queue = Queue("q", {"status": {}}, (build_workload(said["reason"], said["message"]),))
    found = explain_queue({"metadata": {"uid": "u"}}, queue, "ns")
    assert (found.code, found.transient) == (said["cause"], PASSES[said["passes"]])
    assert found.message.endswith(said["message"])
    assert is_listed(found)


def test_multikueue_is_named_once_for_a_job_and_its_workload() -> None:
    """The Job is suspended or not, as Kueue copies it; here it never has a pod."""
    outside = KUEUE["multi_kueue"]
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    queue = Queue("q", {"status": {}}, (build_workload("Pending", "", **outside["status"]),))
    by_workload = explain_queue({"metadata": {"uid": "u"}}, queue, "ns")
    for suspended in (True, False):
        job = {
            "metadata": {"name": "a", "labels": labels},
            "spec": {"managedBy": outside["managedBy"], "suspend": suspended},
        }
        assert explain(PodFacts(job, None, "ns")) == by_workload
    assert by_workload.is_permanent
    assert by_workload.message.startswith("queue q sends Jobs to other clusters (MultiKueue)")
    assert is_listed(by_workload)
