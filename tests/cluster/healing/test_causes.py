"""Why runs in pods ended, as the server is told: their own supervisor or the next one knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.kube.objects import POD, build_selector
from deployer.model import SweepPath
from tests.cluster.bed import Bed, make_bed, serve_for_pods
from tests.cluster.cluster import Cluster
from tests.cluster.faults import SUPERVISOR, TRAINER, exhaust_memory
from tests.cluster.volumes import make_volume

CLAIM = {"name": "checkpoints", "pvc": "checkpoints"}


def read_causes(bed: Bed, path: SweepPath) -> list[str | None]:
    """Return why the attempts of a sweep's only run ended."""
    return [a.cause for row in bed.results(path).rows for a in row.attempts]


def pod_at_work(bed: Bed, path: SweepPath, attempt: int) -> str:
    """Wait until an attempt has logged something; return its pod."""

    def works() -> bool:
        rows = bed.results(path).rows
        return any(r.state == "running" and len(r.attempts) == attempt for r in rows)

    bed.wait_for(works, f"attempt {attempt}")
    pods = bed.kube.list_objects(POD, build_selector(str(path)))
    [name] = [p["metadata"]["name"] for p in pods if p["status"]["phase"] == "Running"]
    return str(name)


@pytest.mark.full
def test_out_of_memory_is_told_from_other_deaths(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    folder.chmod(0o777)
    for parent in list(folder.parents)[:-2]:
        parent.chmod(0o755)
    make_volume(cluster, namespace, "checkpoints", folder)
    with serve_for_pods(cluster, tmp_path / "data") as server:
        bed = make_bed(cluster, namespace, cluster.kubeconfig, server, tmp_path / "project")
        bed = bed.with_section(volumes=[CLAIM])
        path = bed.create_sweep([0.1], seconds=10)
        bed.start(path, 1)
        # The supervisor sees its trainer killed; killed itself, it leaves that to its successor.
        exhaust_memory(cluster, namespace, pod_at_work(bed, path, 1), TRAINER)
        exhaust_memory(cluster, namespace, pod_at_work(bed, path, 2), SUPERVISOR)
        bed.wait_for(lambda: set(bed.states(path)) == {"ended"}, "the end")
        assert read_causes(bed, path) == ["OOM", "OOM", "finished"]
