"""What no waiting mends, as a real cluster says it: images, objects, limits, priorities."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deployer.errors import KubeError
from deployer.executors.reason import Cause
from deployer.launch.scaling import end_agents
from deployer.wandb_api.server import Server
from tests.cluster.bed import Bed, make_bed, serve_for_pods
from tests.cluster.cluster import Cluster
from tests.cluster.tenants import make_tenant

LIMITS = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "small"},
    "spec": {"limits": [{"type": "Container", "max": {"cpu": "100m"}}]},
}


@pytest.fixture(scope="module")
def server(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve_for_pods(cluster, tmp_path_factory.mktemp("backend") / "data") as serving:
        yield serving


@pytest.fixture
def bed(cluster: Cluster, namespace: str, server: Server, tmp_path: Path) -> Bed:
    tenant = make_tenant(cluster, namespace)
    return make_bed(cluster, namespace, tenant, server, tmp_path / "project")


@pytest.mark.parametrize(
    ("section", "cause", "said"),
    [
        (
            {"image": "registry.invalid/none:1", "image_pull_policy": "Never"},
            Cause.IMAGE_NOT_FOUND,
            "image_pull_policy is Never",
        ),
        (
            {"volumes": [{"name": "checkpoints", "pvc": "nowhere"}]},
            Cause.CLAIM_MISSING,
            "PersistentVolumeClaim nowhere is missing",
        ),
        (
            {"secrets": {"TOKEN": {"name": "nothing", "key": "t"}}},
            Cause.SECRET_MISSING,
            "Secret nothing is missing",
        ),
    ],
    ids=["image", "claim", "secret"],
)
def test_what_blocks_an_agent_is_said(
    bed: Bed, section: dict[str, object], cause: Cause, said: str
) -> None:
    bed = bed.with_section(**section)
    path = bed.create_sweep([0.1])
    bed.start(path, 1)

    def is_blocked() -> object:
        [agent] = bed.executor.list_agents(str(path))
        return agent.pending and agent.pending.cause is cause and said in agent.reason

    bed.wait_for(is_blocked, f"{cause}: {said}")
    end_agents(bed.executor, str(path))


def test_what_the_server_forbids_is_said_before_anything_is_made(bed: Bed) -> None:
    path = bed.create_sweep([0.1])
    with pytest.raises(KubeError, match="no PriorityClass with name gold was found"):
        bed.with_section(priority_class="gold").start(path, 1)
    bed.cluster.create(LIMITS, bed.namespace)
    with pytest.raises(KubeError, match="maximum cpu usage per Container is 100m"):
        bed.start(path, 1)
    assert bed.list_left() == []
