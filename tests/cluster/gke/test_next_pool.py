"""The next GPU pool, for agents whose nodes are sold out."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

import pytest

from deployer.config.causes import Cause
from deployer.executors.gke.executor import GkeExecutor
from deployer.gke.cluster.creation import ensure_cluster
from deployer.kube.objects import AGENT_LABEL, POD, SWEEP_PATH_ANNOTATION, build_labels
from tests.cluster.bed import SECTION, open_client, wait_for
from tests.cluster.cluster import Cluster
from tests.cluster.gke.test_gke import build_refusal
from tests.cluster.pods import build_job, build_pod
from tests.gke import rooms
from tests.gke.cloud import Cloud
from tests.gke.cloud_faults import permission
from tests.project_files import build_project
from tests.sections import parse_cluster

PATH = "e/p/sold-out"


def test_a_pool_that_cannot_be_added_is_waited_for(
    cluster: Cluster,
    namespace: str,
    cloud: Cloud,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in cloud.environment().items():
        monkeypatch.setenv(name, value)
    cloud.set_operation_seconds(0.03)
    gke, spec = rooms.open_client(), rooms.read_spec(tmp_path)
    ensure_cluster(gke, spec)
    section = parse_cluster({**SECTION, "namespace": namespace})
    project = replace(build_project(os.environ), folder=tmp_path)
    executor = GkeExecutor("gke", project.with_settings(kubernetes=section))
    executor.cluster.gke, executor.cluster.spec = gke, spec
    wait_without_a_node(cluster, namespace)

    def is_sold_out() -> bool:
        [agent] = executor.list_agents(PATH)
        return agent.pending is not None and agent.pending.code is Cause.STOCKOUT

    wait_for(is_sold_out, "an agent without a node")
    cloud.fail("CreateNodePool", permission("container.clusters.update"), times=math.inf)
    [said] = [one for one in executor.heal(executor.list_agents()) if "pool" in one]
    assert "cannot add another pool now: " in said
    assert "container.clusters.update" in said
    assert not executor.heal(executor.list_agents()), "it is asked again later"


def wait_without_a_node(cluster: Cluster, namespace: str) -> None:
    """Make an agent's Job whose pod fits nowhere, and the event that its node is sold out."""
    pod = build_pod("agent", ["true"], node_selector={"disk": "none"})
    job = build_job("agent", pod)
    marks = {
        "labels": build_labels("agent", PATH, "agent"),
        "annotations": {SWEEP_PATH_ANNOTATION: PATH, AGENT_LABEL: "agent"},
    }
    job["metadata"] |= marks
    job["spec"]["template"]["metadata"] = marks
    cluster.create(job, namespace)
    kube = open_client(cluster.kubeconfig, namespace)
    wait_for(lambda: kube.list_objects(POD), "the pod")
    cluster.create(build_refusal(kube.list_objects(POD)[0]), namespace)
