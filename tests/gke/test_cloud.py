"""The cloud of the tests answers Google's unmodified clients as Google does."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import Literal

import google.auth
import google.auth.transport.requests
import google.oauth2.credentials
import pytest
import requests
from google.api_core import exceptions
from google.cloud import container_v1 as container

from tests.gke.cloud import PROJECT, Cloud
from tests.gke.cloud_faults import (
    DEADLINE,
    LOST,
    SILENCE,
    UNAVAILABLE,
    Fault,
    api_disabled,
    internal,
    permission,
    quota,
    stockout,
)

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
    credentials.refresh(google.auth.transport.requests.Request())  # type: ignore[no-untyped-call]
    assert (credentials.token, project) == ("bearer-of-both", PROJECT)


def test_the_credentials_are_checked(cloud: Cloud) -> None:
    """A token of somebody else opens nothing, and the endpoint takes only the account's key."""
    address = f"localhost:{cloud.container_port}"
    stranger = google.oauth2.credentials.Credentials(token="stolen")  # type: ignore[no-untyped-call]
    client = container.ClusterManagerClient(
        credentials=stranger, client_options={"api_endpoint": address}
    )
    with pytest.raises(exceptions.Unauthenticated, match="invalid authentication credentials"):
        client.get_server_config(name=ZONE)
    answer = requests.post(f"{cloud.compute_url}/token", data={"assertion": "a.b.c"}, timeout=5)
    assert answer.json()["error"] == "invalid_grant"
    assert cloud.calls == ()


def test_one_operation_at_a_time(cloud: Cloud, client: container.ClusterManagerClient) -> None:
    """A second operation on a cluster, and a second cluster of a name, are refused."""
    operation = create(client)
    with pytest.raises(exceptions.FailedPrecondition) as busy:
        client.delete_cluster(name=f"{ZONE}/clusters/sweeps")
    assert busy.value.message == f"Cluster is running incompatible operation {operation.name}."
    assert busy.value.reason == "CLUSTER_ALREADY_HAS_OPERATION"
    with pytest.raises(exceptions.AlreadyExists, match="Already exists: projects/"):
        create(client)
    assert [o.name for o in client.list_operations(parent=ZONE).operations] == [operation.name]
    wait(client, operation.name)
    pool = container.NodePool(name="gpu-2", initial_node_count=1)
    added = client.create_node_pool(parent=f"{ZONE}/clusters/sweeps", node_pool=pool)
    assert cloud.get_cluster("sweeps").status.name == "RECONCILING"
    wait(client, added.name)
    pools = client.list_node_pools(parent=f"{ZONE}/clusters/sweeps").node_pools
    assert [(p.name, p.status.name) for p in pools][2:] == [("gpu-2", "RUNNING")]
    wait(client, client.delete_node_pool(name=pools[2].self_link).name)
    assert len(cloud.inventory().pools) == 2


def test_a_creation_that_fails_leaves_a_cluster_in_error(
    cloud: Cloud, client: container.ClusterManagerClient
) -> None:
    """The operation's error and the conditions tell of the stockout, and where there is room."""
    fault = stockout("us-central1-a", ("us-central1-b", "us-central1-f"))
    cloud.fail("CreateCluster", fault.in_operation())
    operation = wait(client, create(client).name)
    assert "us-central1-b, us-central1-f zone(s)" in operation.error.message
    assert operation.cluster_conditions[0].code == container.StatusCondition.Code.GCE_STOCKOUT
    left = client.get_cluster(name=f"{ZONE}/clusters/sweeps")
    assert (left.status.name, left.conditions[0].message) == ("ERROR", fault.message)
    assert cloud.inventory().clusters == ("us-central1-a/sweeps",)


def test_a_creation_may_fail_half_way(cloud: Cloud, client: container.ClusterManagerClient) -> None:
    """The cluster runs and its GPU pool is in ERROR."""
    cloud.fail("CreateCluster", stockout("us-central1-a").in_operation(keeps_cluster=True))
    assert wait(client, create(client).name).nodepool_conditions
    left = client.get_cluster(name=f"{ZONE}/clusters/sweeps")
    assert left.status.name == "RUNNING"
    assert [p.status.name for p in left.node_pools] == ["RUNNING", "ERROR"]


@pytest.mark.parametrize(
    ("fault", "kind", "text"),
    [
        (stockout("us-central1-a"), exceptions.ResourceExhausted, "GCE_STOCKOUT"),
        (quota(), exceptions.PermissionDenied, 'resource "NVIDIA_T4_GPUS"'),
        (permission(), exceptions.PermissionDenied, "container.clusters.create"),
        (api_disabled(), exceptions.PermissionDenied, "Kubernetes Engine API has not been used"),
        (UNAVAILABLE, exceptions.ServiceUnavailable, "currently unavailable"),
        (DEADLINE, exceptions.DeadlineExceeded, "Deadline Exceeded"),
        (internal(), exceptions.InternalServerError, "Internal error"),
    ],
    ids=lambda value: value.code.name if isinstance(value, Fault) else "",
)
def test_errors_reach_the_client_as_its_own_exceptions(
    cloud: Cloud,
    client: container.ClusterManagerClient,
    fault: Fault,
    kind: type[exceptions.GoogleAPICallError],
    text: str,
) -> None:
    """The second call fails, with nothing done; the others succeed."""
    cloud.fail("CreateCluster", fault, nth=2)
    create(client, "first")
    with pytest.raises(kind, match=text):
        create(client, "second")
    create(client, "third")
    assert cloud.inventory().clusters == ("us-central1-a/first", "us-central1-a/third")


def test_an_answer_may_be_lost_before_or_after_the_effect(
    cloud: Cloud, client: container.ClusterManagerClient
) -> None:
    """Both look the same to the client."""
    cloud.fail("CreateCluster", LOST, at="lost-after")
    cloud.fail("CreateCluster", SILENCE, at="lost-before")
    with pytest.raises(exceptions.ServiceUnavailable):
        create(client, "lost-after")
    request = container.CreateClusterRequest(
        parent=ZONE, cluster={"name": "lost-before", "initial_node_count": 1}
    )
    with pytest.raises(exceptions.DeadlineExceeded):
        client.create_cluster(request, timeout=0.2)
    assert cloud.inventory().clusters == ("us-central1-a/lost-after",)


@pytest.mark.parametrize(("when", "left"), [("before", ()), ("after", ("us-central1-a/c",))])
def test_a_client_is_killed_at_its_call(
    cloud: Cloud, when: Literal["before", "after"], left: tuple[str, ...]
) -> None:
    """The process dies by SIGKILL at the second call, whose effect is there or not."""
    killing = cloud.kill_client_at(2, when)
    process = subprocess.run([sys.executable, "-c", CLIENT], check=False)
    assert process.returncode == -signal.SIGKILL
    assert killing.call is not None
    assert killing.call.name == "CreateCluster"
    assert cloud.inventory().clusters == left


CLIENT = f"""
import os
from google.cloud.container_v1 import ClusterManagerClient
address = os.environ["CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER"].split("/")[2]
client = ClusterManagerClient(client_options={{"api_endpoint": address}})
client.get_server_config(name="{ZONE}")
client.create_cluster(parent="{ZONE}", cluster={{"name": "c", "initial_node_count": 1}})
"""


def test_lists_tell_which_zones_they_miss(
    cloud: Cloud, client: container.ClusterManagerClient
) -> None:
    """A cluster in a zone that does not answer is not listed, and the zone is named."""
    cloud.add_foreign_cluster("theirs", "us-central1-a")
    cloud.add_foreign_cluster("others", "europe-west4")
    cloud.set_missing_zones("us-central1-a")
    answer = client.list_clusters(parent=f"projects/{PROJECT}/locations/-")
    assert [c.name for c in answer.clusters] == ["others"]
    assert list(answer.missing_zones) == ["us-central1-a"]
