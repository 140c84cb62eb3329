"""How many agents a pod bears, measured by the sweep's own runs on a real cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.launch.packing.pod_packing import PodPacker
from deployer.launch.pipeline import watch_sweep
from deployer.wandb_api.server import Server
from deployer.watch.packing.levels import Place
from deployer.watch.packing.measurement import Measurement, Patience
from tests.cluster.bed import make_bed
from tests.cluster.cluster import Cluster


@pytest.mark.full
def test_a_pod_with_more_agents_takes_the_place_of_the_first(
    cluster: Cluster, namespace: str, server: Server, tmp_path: Path, told: list[str]
) -> None:
    """Nobody is killed for it: each configuration has one attempt, and pods are of the sizes."""
    bed = make_bed(cluster, namespace, cluster.kubeconfig, server, tmp_path / "project")
    bed = bed.with_section(cpu="800m", memory="1Gi", grace_period="15s")
    path = bed.create_sweep([n / 10 for n in range(1, 13)], seconds=1)
    patience = Patience(level=2.0, few_runs=10.0, longest=600.0)
    measurement = Measurement(Place(pod=True), 2, patience=patience)
    packer = PodPacker(bed.executor, str(path), measurement)
    bed.start(path, packer.agents)
    sizes = []
    for status in watch_sweep(bed.launch(path, packer)):
        pods = {agent.pod for agent in status.agents if agent.state == "running"}
        sizes.append((len(pods), sum(agent.state == "running" for agent in status.agents)))
    assert measurement.levels[0].size == 1
    assert any(said.startswith("measured 1 agent per pod: ") for said in told)
    assert {(1, 1), (1, 2)} <= set(sizes)
    assert max(count for count, _ in sizes) == 1
    rows = bed.results(path).rows
    assert [len(row.attempts) for row in rows] == [1] * 12
    assert bed.results(path).coverage.sentence().startswith("12/12 configurations finished, 0 dup")
