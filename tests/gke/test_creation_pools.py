"""A cluster's pools: what is not as the specification says, and what cannot be mended, is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from google.cloud.container_v1 import NodePool, StatusCondition

from deployer.errors import CloudError
from deployer.gke.cluster.creation import add_next_pool, ensure_cluster
from tests.gke.cloud import Cloud
from tests.gke.rooms import NAME, open_client, read_spec


def test_a_changed_specification_is_said_and_changes_nothing(
    cloud: Cloud, tmp_path: Path, told: list[str]
) -> None:
    cloud.set_operation_seconds(0.03)
    gke, spec = open_client(), read_spec(tmp_path)
    ensure_cluster(gke, spec)
    before = cloud.changes
    told.clear()
    ensure_cluster(gke, spec)
    assert told == []
    larger = replace(spec, gpus=(replace(spec.gpus[0], max_nodes=99), *spec.gpus[1:]))
    ensure_cluster(gke, larger)
    [line] = told
    assert line.startswith("pool gpu-1 differs from the specification and stays unchanged")
    told.clear()
    ensure_cluster(gke, spec.limit_nodes(7200))
    assert told == [
        "nodes of pool gpu-1 have no time limit, as set at its creation; "
        "deployer gke down, then up, recreates it"
    ]
    assert cloud.changes == before


def test_the_next_choice_is_added_until_all_are_there(cloud: Cloud, tmp_path: Path) -> None:
    cloud.set_operation_seconds(0.03)
    gke, spec = open_client(), read_spec(tmp_path)
    cluster = ensure_cluster(gke, spec)
    for index in range(1, len(spec.gpus)):
        pool = add_next_pool(gke, spec, cluster)
        assert pool is not None
        assert pool.name == spec.pool_names[index]
    assert add_next_pool(gke, spec, cluster) is None
    assert cloud.changes.count("CreateNodePool") == len(spec.gpus) - 1


def test_a_cluster_that_broke_later_is_not_deleted(cloud: Cloud, tmp_path: Path) -> None:
    """There may be work in it, so only `down` may do that."""
    cloud.set_operation_seconds(0.03)
    gke, spec = open_client(), read_spec(tmp_path)
    ensure_cluster(gke, spec)
    before = cloud.changes
    system = cloud.get_cluster(NAME).node_pools[0]
    system.status = NodePool.Status.ERROR
    system.conditions = [
        StatusCondition(code=StatusCondition.Code.CA_EXPIRING, message="The CA expires.")
    ]
    with pytest.raises(CloudError) as told:
        ensure_cluster(gke, spec)
    assert told.value.message.endswith("is RUNNING, but its system pool is not: The CA expires.")
    assert told.value.reason == "CA_EXPIRING"
    assert told.value.hint == "deployer gke down, then deployer gke up"
    assert cloud.changes == before
