"""A run of two processes in a pod with two GPUs: pushed off its node, it goes on as a whole.

The GPUs are counted on the node and are none; the processes talk over gloo.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from deployer.launch.scaling import end_agents
from deployer.wandb_api.operations import create_sweep, list_runs
from deployer.wandb_api.server import Server
from tests.agent.trainers import PARALLEL, PARALLEL_SWEEP
from tests.cluster.bed import Bed, make_bed
from tests.cluster.cluster import Cluster
from tests.cluster.gpu_nodes import GPU
from tests.cluster.pods import build_pod, python
from tests.cluster.tenants import make_tenant
from tests.cluster.volumes import make_volume
from tests.faults.proof import RecordReader

pytestmark = pytest.mark.usefixtures("real_gpus")
STEPS = 6
# The first attempt never passes a step after which there is a checkpoint.
TRAINER = PARALLEL.replace('not pathlib.Path("go").exists()', "first == 0")
SECTION = {
    "gpu": 2,
    "cpu": "1",
    "memory": "1500Mi",
    "volumes": [{"name": "checkpoints", "pvc": "checkpoints"}],
}


@pytest.fixture
def bed(cluster: Cluster, namespace: str, server: Server, tmp_path: Path) -> Bed:
    disk = tmp_path / "checkpoints"
    disk.mkdir()
    disk.chmod(0o777)
    for parent in disk.parents:  # pytest's folders are its own user's alone
        if parent.name.startswith(("pytest-", "test_")):
            parent.chmod(0o755)
    make_volume(cluster, namespace, "checkpoints", disk)
    tenant = make_tenant(cluster, namespace)
    bed = make_bed(cluster, namespace, tenant, server, tmp_path / "project")
    (bed.folder / "train.py").write_text(TRAINER)
    return bed.with_section(**SECTION)


@pytest.mark.full
def test_a_pod_of_two_ranks_is_preempted_and_loses_nothing(cluster: Cluster, bed: Bed) -> None:
    assert TRAINER != PARALLEL
    name, entity = f"torchrun-{uuid.uuid4().hex[:8]}", bed.server.viewer.entity
    text = PARALLEL_SWEEP.format(lrs="[0.01]", steps=STEPS)
    path, _ = create_sweep(bed.server.client, text, entity, name, uuid.uuid4().hex)
    cluster.set_gpus("node-0", 2)
    priority = ("create", "priorityclass", bed.namespace, "--value=1000")
    try:
        bed.start(path, 1)
        reader = RecordReader(bed.server.url, bed.server.client.key)

        def has_a_checkpoint() -> bool:
            return any(STEPS // 2 in run.steps for run in reader.read_runs(str(path)))

        bed.wait_for(has_a_checkpoint, "a run with a checkpoint")
        cluster.kubectl(*priority)
        urgent = build_pod("urgent", python("import time; time.sleep(1)"), limits={GPU: "2"})
        urgent["spec"]["priorityClassName"] = bed.namespace
        cluster.create(urgent, bed.namespace)
        cluster.wait_for("pod/urgent", "jsonpath=.status.phase=Succeeded", bed.namespace)
        bed.wait_for(lambda: bed.results(path).coverage.finished == 1, "the run")
    finally:
        cluster.try_kubectl("delete", "priorityclass", bed.namespace)
        cluster.set_gpus("node-0", 0)
    [record] = reader.read_runs(str(path))
    assert record.steps == tuple(range(STEPS))
    [run] = list_runs(bed.server.client, path)
    assert len(run.attempts) == 2
    assert run.summary["ranks"] == 2
    assert bed.results(path).coverage.sentence().startswith("1/1 configurations finished, 0 dupl")
    end_agents(bed.executor, str(path))
