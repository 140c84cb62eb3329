"""The kube and the manifests on an older Kubernetes; no node, so what pods do is tried on one only.

The tests are those of the newest version: here `cluster` is another one.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from deployer.errors import KubeError
from deployer.executors.kubernetes.diagnose.admission import check_admission
from tests.cluster.bed import open_client
from tests.cluster.client.test_client import (
    kube,
    proxy,
    test_apply_list_patch_delete,
    test_dry_run_makes_nothing,
    test_fields_that_the_server_refuses_are_named,
    test_generated_name_is_made_once,
    test_passing_trouble_passes,
    test_tenant_is_told_what_it_may_not,
)
from tests.cluster.client.test_manifests import (
    test_a_field_that_does_not_exist_would_be_noticed,
    test_kubectl_takes_what_plan_prints,
    test_restricted_namespace_with_a_quota_takes_the_pods,
    test_server_takes_every_profile,
    test_server_takes_the_templates_as_they_stand,
)
from tests.cluster.cluster import Cluster
from tests.cluster.tenants import make_tenant
from tests.executors.profiles import build_profile

__all__ = [
    "kube",
    "proxy",
    "test_a_field_that_does_not_exist_would_be_noticed",
    "test_apply_list_patch_delete",
    "test_dry_run_makes_nothing",
    "test_fields_that_the_server_refuses_are_named",
    "test_generated_name_is_made_once",
    "test_kubectl_takes_what_plan_prints",
    "test_passing_trouble_passes",
    "test_restricted_namespace_with_a_quota_takes_the_pods",
    "test_server_takes_every_profile",
    "test_server_takes_the_templates_as_they_stand",
    "test_tenant_is_told_what_it_may_not",
]

OLDER = "kubernetes-1.31"
pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Start the older servers."""
    return make_cluster(0, version=OLDER)


def test_it_is_older(cluster: Cluster) -> None:
    told = json.loads(cluster.kubectl("version", "-o", "json"))["serverVersion"]
    assert (told["major"], told["minor"]) == ("1", "31")


def test_quota_is_said_before_anything_is_made(cluster: Cluster, namespace: str) -> None:
    kube = open_client(make_tenant(cluster, namespace), namespace)
    job = build_profile("gpus", namespace)[-1]
    check_admission(kube, job)
    container = job["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["limits"]["nvidia.com/gpu"] = "5"
    with pytest.raises(KubeError) as caught:
        check_admission(kube, job)
    assert "requests.nvidia.com/gpu: 5 asked for, 0 of 4 used" in caught.value.message
