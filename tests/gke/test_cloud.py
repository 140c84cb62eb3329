"""The cloud of the tests answers Google's unmodified clients as Google does."""

from __future__ import annotations

import time

import google.auth
import google.auth.transport.requests
import pytest
from google.api_core import exceptions
from google.cloud import container_v1 as container

from tests.gke.cloud import PROJECT, Cloud

ZONE = f"projects/{PROJECT}/locations/us-central1-a"


@pytest.fixture
def client(cloud: Cloud) -> container.ClusterManagerClient:
    """Return Google's own client, led here by its options alone."""
    address = f"localhost:{cloud.container_port}"
    return container.ClusterManagerClient(client_options={"api_endpoint": address})


def create(client: container.ClusterManagerClient, name: str = "sweeps") -> container.Operation:
    """Ask for a cluster with two pools."""
    pools = [
        container.NodePool(name="system", initial_node_count=1),
        container.NodePool(
            name="gpu-1",
            autoscaling={"enabled": True, "total_max_node_count": 2},
            config={"accelerators": [{"accelerator_type": "nvidia-tesla-t4"}]},
        ),
    ]
    cluster = container.Cluster(
        name=name, node_pools=pools, resource_labels={"managed-by": "deployer"}
    )
    return client.create_cluster(parent=ZONE, cluster=cluster)


def wait(client: container.ClusterManagerClient, name: str) -> container.Operation:
    """Wait for an operation to be over."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        operation = client.get_operation(name=f"{ZONE}/operations/{name}")
        if operation.status == container.Operation.Status.DONE:
            return operation
        time.sleep(0.02)
    raise AssertionError(f"{name} goes on")


def test_a_cluster_lives_from_its_creation_to_its_end(
    cloud: Cloud, client: container.ClusterManagerClient
) -> None:
    """PROVISIONING, RUNNING, STOPPING, gone; the operation tells its stages."""
    operation = create(client)
    assert operation.status == container.Operation.Status.PENDING
    assert [s.name for s in operation.progress.stages][:1] == ["CLUSTER_CONFIGURING"]
    listed = client.list_clusters(parent=f"projects/{PROJECT}/locations/-").clusters
    assert [c.status.name for c in listed] == ["PROVISIONING"]
    assert not wait(client, operation.name).error.message
    made = client.get_cluster(name=f"{ZONE}/clusters/sweeps")
    assert (made.status.name, made.endpoint) == ("RUNNING", "127.0.0.1:9")
    assert [p.status.name for p in made.node_pools] == ["RUNNING", "RUNNING"]
    deletion = client.delete_cluster(name=made.self_link)
    assert client.get_cluster(name=f"{ZONE}/clusters/sweeps").status.name == "STOPPING"
    wait(client, deletion.name)
    with pytest.raises(exceptions.NotFound, match="Not found: projects/test-project/zones/"):
        client.get_cluster(name=f"{ZONE}/clusters/sweeps")
    assert cloud.inventory().empty
    assert cloud.changes == ("CreateCluster", "DeleteCluster")


def test_the_token_endpoint_hands_out_the_settable_token(cloud: Cloud) -> None:
    """Default credentials with a scope get the token that opens Kubernetes too."""
    cloud.connect_kubernetes("https://10.0.0.1:6443", b"certificate", "bearer-of-both")
    scopes = ["https://www.googleapis.com/auth/cloud-platform"]
    credentials, project = google.auth.default(scopes=scopes)
    credentials.refresh(google.auth.transport.requests.Request())
    assert (credentials.token, project) == ("bearer-of-both", PROJECT)
