"""Access to the Kubernetes of a cluster."""

from __future__ import annotations

import math

import pytest

from deployer.errors import CloudError, KubeError
from deployer.gke.api.model import CloudCluster
from deployer.gke.cluster.access import open_kube_of
from deployer.kube.objects import POD
from tests.gke.cloud import Cloud
from tests.gke.cloud_faults import UNAVAILABLE
from tests.gke.rooms import open_client


def build_cluster(endpoint: str = "34.1.2.3", status: str = "RUNNING") -> CloudCluster:
    """Build a cluster that runs."""
    return CloudCluster(
        name="train",
        location="us-central1-a",
        status=status,
        endpoint=endpoint,
        ca_certificate=b"certificate",
        labels={},
        pools=(),
        conditions=(),
        created_at="",
        version="",
    )


def test_a_token_that_google_does_not_give_now_is_waited_for(cloud: Cloud) -> None:
    """A watcher waits where Kubernetes does not answer."""
    cloud.fail("Token", UNAVAILABLE, times=math.inf)
    kube = open_kube_of(open_client(), build_cluster(), None)
    with pytest.raises(KubeError, match="cannot get a token") as told:
        kube.list_objects(POD)
    assert told.value.passing


def test_a_cluster_without_an_address_is_not_opened(cloud: Cloud) -> None:
    assert cloud.project
    with pytest.raises(CloudError) as told:
        open_kube_of(open_client(), build_cluster("", "PROVISIONING"), None)
    said = "cluster train in us-central1-a is PROVISIONING: its Kubernetes has no address"
    assert told.value.message == said
    assert told.value.hint == "deployer gke up continues its creation"
