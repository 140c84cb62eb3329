"""Recipe 003 as a tenant of a real Kueue: its README's commands, on real images in a claim.

The node has one GPU by name, a slice of an A100 by its label; the queue has quota for one agent.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.kube.objects import CLAIM, CONFIG_MAP, JOB, POD, SECRET, build_selector
from tests.cluster.agents.test_audit import list_writes
from tests.cluster.bed import SECTION, open_client, serve_for_pods, wait_for
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane.kueue import build_queues, start_kueue
from tests.cluster.shell import enter_shell
from tests.cluster.tenants import load_rules, make_tenant
from tests.cluster.volumes import offer_volume
from tests.real_data import DATA
from tests.recipes.idx import write_mnist_part
from tests.recipes.readme import Recipe, copy_recipe

QUEUE = "kueue.x-k8s.io/queue-name"
SLICE = "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"
QUOTA = {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}


def check_plan(recipe: Recipe) -> None:
    """Check that the recipe's own settings are what the service asks for."""
    planned = yaml.safe_load_all(recipe.run("deployer plan sweep.yaml -o yaml 2>/dev/null"))
    jobs = [one for one in planned if one["kind"] == "Job"]
    assert len(jobs) == 3
    for job in jobs:
        assert job["metadata"]["generateName"]
        assert job["metadata"]["labels"][QUEUE] == "project-ns-user-queue"
        assert job["spec"]["ttlSecondsAfterFinished"] == 3600
        pod = job["spec"]["template"]["spec"]
        assert pod["nodeSelector"] == {"nvidia.com/gpu.product": SLICE}
        [container] = pod["containers"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
        mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
        assert mounts["/mnt/ceph"]["readOnly"]


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Return a cluster of our own: Kueue's webhooks see every Job."""
    cluster = make_cluster()
    start_kueue(cluster)
    node = cluster.nodes[0].name
    cluster.set_gpus(node, 1)
    label = f"nvidia.com/gpu.product={SLICE}"
    cluster.kubectl("label", "node", node, label, "--overwrite")
    return cluster


def shrink(recipe: Recipe, namespace: str) -> None:
    """Make the recipe fit into the test cluster: its image, two cores, one epoch."""
    config: dict[str, Any] = recipe.read_yaml("deployer.yaml")
    config["data"]["storage_class"] = namespace
    small = {**SECTION, "memory": "1200Mi", "cpu": "1", "namespace": namespace}
    del small["gpu"]
    config["kubernetes"] |= small
    recipe.write_yaml("deployer.yaml", {**config, "replicas": 2})
    sweep = recipe.read_yaml("sweep.yaml")
    sweep["parameters"]["epochs"] = {"value": 1}
    recipe.write_yaml("sweep.yaml", sweep)


def evaluate(model: Path, script: Path, images: Path) -> float:
    """Return the accuracy of a model that was brought back, by the script's network alone."""
    # Imported here: it takes seconds, in each worker that only collects this file.
    import torch
    from torchvision import datasets
    from torchvision.transforms import ToTensor

    network = runpy.run_path(str(script))["build_network"]()
    network.load_state_dict(torch.load(model))
    network.eval()
    tests = datasets.FashionMNIST(images, train=False, transform=ToTensor())
    inputs = torch.stack([image for image, _ in tests])
    with torch.no_grad():
        return float((network(inputs).argmax(1) == tests.targets).float().mean())


@pytest.mark.full
@pytest.mark.data
def test_three_seeds_as_a_tenant(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    recipe = copy_recipe("003-eidf", tmp_path)
    write_mnist_part(DATA / "fashion_mnist", tmp_path / "images", "FashionMNIST")
    check_plan(recipe)
    shrink(recipe, namespace)
    for manifest in build_queues(namespace, QUOTA, product=SLICE):
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    offer_volume(cluster, namespace, tmp_path / "volume")
    rules = (*load_rules("agents"), *load_rules("data"))
    tenant = make_tenant(cluster, namespace, rules=rules)
    with serve_for_pods(cluster, tmp_path / "backend") as server:
        shell = enter_shell(recipe.folder, tenant, server)
        said = recipe.run_blocks(**shell.environment)
        best = json.loads(shell.deployer("results", "-o", "json").stdout)["best"]["value"]
    assert "3/3 configurations finished, 0 duplicates, 0 lost" in said
    # One of two is admitted; the other is told its place, and starts once the first has ended.
    assert f"it is number 1 of 1 in queue {namespace}-user-queue" in said
    sent = list_writes(cluster, f"tenant-{namespace}")
    made = [
        one for one in sent if one["verb"] == "create" and one["objectRef"]["resource"] == "jobs"
    ]
    queues = {one["requestObject"]["metadata"]["labels"][QUEUE] for one in made}
    assert queues == {f"{namespace}-user-queue"}
    [model] = (recipe.folder / "model").rglob("model.pth")
    accuracy = evaluate(model, recipe.folder / "example_pytorch_code.py", tmp_path / "images")
    assert accuracy == pytest.approx(best, abs=1e-6)
    kube = open_client(cluster.kubeconfig, namespace)
    for kind in (JOB, POD, CONFIG_MAP, SECRET, CLAIM):
        wait_for(lambda kind=kind: not kube.list_objects(kind, build_selector()), kind.kind)
