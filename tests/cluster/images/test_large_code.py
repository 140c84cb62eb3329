"""Code that no ConfigMap holds alone comes to the pod in parts, and stays the sweep's code."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from deployer.kube.objects import CONFIG_MAP, build_selector
from deployer.launch.planning import plan_agents
from deployer.model import SweepPath
from tests.cluster.bed import Bed, make_bed, serve_for_pods
from tests.cluster.cluster import Cluster
from tests.cluster.tenants import make_tenant

TRAINER = """
import hashlib, sys
import wandb

with open("weights.bin", "rb") as file:
    read = hashlib.sha256(file.read()).hexdigest()
with wandb.init() as run:
    run.log({"loss": 1.0})
print("the weights are", read, flush=True)
"""


def write_weights(bed: Bed) -> str:
    """Write 1.5 MB that nothing packs, and return their hash."""
    weights = os.urandom(1_500_000)
    (bed.folder / "weights.bin").write_bytes(weights)
    return hashlib.sha256(weights).hexdigest()


def list_planned(bed: Bed, path: SweepPath) -> list[dict[str, object]]:
    """Return the ConfigMaps of code that the next agent would get."""
    plan = plan_agents(bed.server, bed.executor, path, 1, bed.code)
    manifests = bed.executor.preview(plan, {agent.name: "key" for agent in plan.agents})
    return [one for one in manifests if "-code-" in one["metadata"]["name"]]


def test_large_code_comes_in_parts(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    with serve_for_pods(cluster, tmp_path / "backend") as server:
        tenant = make_tenant(cluster, namespace)
        bed = make_bed(cluster, namespace, tenant, server, tmp_path / "project")
        (bed.folder / "train.py").write_text(TRAINER)
        path = bed.create_sweep([0.1])

        write_weights(bed)
        bed.kube.apply(list_planned(bed, path)[0])  # and then a first try failed
        expected = write_weights(bed)
        bed.start(path, 1)
        begun_with = list_planned(bed, path)
        bed.wait_for(lambda: bed.states(path) == ["ended"], "the end of the sweep")
        lines = [line for _, line in bed.executor.log_lines([f"{path.sweep_id}-a1"], follow=False)]
        assert f"the weights are {expected}" in lines, lines
        assert bed.results(path).coverage.finished == 1

        write_weights(bed)
        assert list_planned(bed, path) == begun_with
        assert len(begun_with) == 2
        assert len(bed.kube.list_objects(CONFIG_MAP, build_selector(str(path), "code"))) == 3
        bed.executor.forget(str(path))
        assert bed.kube.list_objects(CONFIG_MAP, build_selector()) == []
