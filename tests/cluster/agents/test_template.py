"""A user's own template runs: an init container, a sidecar, affinity, a volume they share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.kube.objects import POD
from deployer.wandb_api.server import Server
from tests.cluster.bed import TRAINER, Bed, make_bed
from tests.cluster.cluster import Cluster
from tests.cluster.pods import build_pod, python
from tests.cluster.tenants import make_tenant

SHARED = {"name": "shared", "mountPath": "/shared"}
PREPARE = "open('/shared/prepared', 'w').close()"
LINGER = "import os, time\nwhile not os.path.exists('/shared/trained'): time.sleep(0.2)"
HOSTS = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-0"]}


def build_container(name: str, code: str) -> dict[str, Any]:
    [container] = build_pod(name, python(code))["spec"]["containers"]
    return {**container, "name": name, "volumeMounts": [SHARED]}


@pytest.mark.full
def test_a_template_with_several_containers_runs_a_sweep(
    cluster: Cluster, namespace: str, server: Server, tmp_path: Path
) -> None:
    bed = make_bed(
        cluster, namespace, make_tenant(cluster, namespace), server, tmp_path / "project"
    )
    pod = build_pod("any", [])["spec"]
    required = {"nodeSelectorTerms": [{"matchExpressions": [HOSTS]}]}
    pod |= {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "initContainers": [build_container("prepare", PREPARE)],
        "containers": [build_container("sidecar", LINGER), build_container("agent", "")],
        "volumes": [{"name": "shared", "emptyDir": {}}],
    }
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": pod}}}
    (bed.folder / "job.yaml").write_text(yaml.safe_dump(job))
    seen = "\nassert open('/shared/prepared').read() == ''\nopen('/shared/trained', 'w').close()\n"
    (bed.folder / "train.py").write_text(f"{TRAINER}{seen}")
    bed = bed.with_section(template="job.yaml")
    path = bed.create_sweep([0.1])
    bed.start(path, 1)
    bed.wait_for(lambda: bed.states(path) == ["ended"], "the agent's end")
    assert bed.results(path).coverage.sentence().startswith("1/1")
    assert list_exit_codes(bed) == {"prepare": 0, "sidecar": 0, "agent": 0}


def list_exit_codes(bed: Bed) -> dict[str, int]:
    [pod] = bed.kube.list_objects(POD)
    status = pod["status"]
    return {
        one["name"]: one["state"]["terminated"]["exitCode"]
        for one in (*status["initContainerStatuses"], *status["containerStatuses"])
    }
