"""Before a GKE cluster is deleted it is emptied; and what sweeps have left in a cluster is found.

In a cluster of its own, since everything in it goes. It has no nodes, no cloud and no provisioner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deployer.errors import CloudError
from deployer.executors.gke.orphans import (
    HELD,
    HOLDS_RESULTS,
    IN_USE,
    LEFT_OVER,
    find_remains,
    remove_remains,
)
from deployer.executors.kubernetes.orphans import count_living, delete_leftovers, list_leftovers
from deployer.gke.api.operations import Waiter
from deployer.gke.cluster.creation import ensure_cluster
from deployer.gke.teardown import CLAIM, SERVICE, VOLUME, Terms, empty_cluster
from deployer.kube.access import build_access
from deployer.kube.client import Kube
from deployer.kube.objects import (
    CONFIG_MAP,
    JOB,
    SECRET,
    SWEEP_PATH_ANNOTATION,
    Kind,
    Manifest,
    build_labels,
)
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import make_namespace
from tests.cluster.pods import build_job, build_pod
from tests.gke.cloud import serve_cloud
from tests.gke.rooms import open_client, read_spec

PATH = "me/project/abcd1234"
FOREIGN = "somebodys"


@pytest.fixture(scope="module")
def own(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Start a cluster that may be emptied."""
    return make_cluster(0)


@pytest.fixture
def place(own: Cluster, request: pytest.FixtureRequest) -> str:
    """Make a namespace."""
    return make_namespace(own, request.node.name)


@pytest.fixture
def token(own: Cluster, place: str) -> Iterator[str]:
    """Give a token of somebody who may do everything."""
    own.kubectl("create", "serviceaccount", "user", "-n", place)
    who = f"--serviceaccount={place}:user"
    own.kubectl("create", "clusterrolebinding", place, "--clusterrole=cluster-admin", who)
    yield own.kubectl("create", "token", "user", "-n", place).strip()
    own.kubectl("delete", "clusterrolebinding", place)


@pytest.fixture
def kube(own: Cluster, place: str, token: str, home: Path) -> Kube:
    """Open the door as it is opened to GKE: an address, a certificate, a token each time."""
    assert home
    return Kube(build_access(own.server, read_ca(own), lambda: token, place))


def read_ca(cluster: Cluster) -> bytes:
    """Return the certificate by which the server is known."""
    return (cluster.folder.path / "pki/ca.crt").read_bytes()


def build_object(kind: Kind, name: str, component: str, **fields: object) -> Manifest:
    """Build an object of the sweep."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": name,
            "labels": build_labels(component, PATH, name if component == "agent" else ""),
            "annotations": {SWEEP_PATH_ANNOTATION: PATH},
        },
        **fields,
    }


def build_agent_job(name: str) -> Manifest:
    """Build an agent's Job; without nodes its pod waits, and so the agent lives."""
    spec = build_job(name, build_pod(name, ["sleep", "3600"]))["spec"]
    return build_object(JOB, name, "agent", spec=spec)


def build_claim(name: str) -> tuple[Manifest, Manifest]:
    """Build a claim and the volume that is deleted with it, if only anybody did it."""
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            **common,
            "capacity": {"storage": "1Gi"},
            "persistentVolumeReclaimPolicy": "Delete",
            "csi": {"driver": "pd.csi.storage.gke.io", "volumeHandle": name},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
    }
    return volume, claim


def build_service(name: str, kind: str) -> Manifest:
    """Build a Service."""
    ports = [{"port": 80}]
    metadata = {"name": name}
    spec = {"type": kind, "ports": ports, "selector": {"app": "x"}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def test_a_cluster_is_emptied_of_what_would_stay(
    own: Cluster, place: str, kube: Kube, told: list[str]
) -> None:
    """Our Jobs, load balancers and claims go from all namespaces; volumes are waited for."""
    volume, claim = build_claim(f"{place}-data")
    kube.create(build_agent_job("demo-a1"))
    kube.create(build_job(FOREIGN, build_pod(FOREIGN, ["sleep", "3600"])))
    kube.create(build_service("web", "LoadBalancer"))
    kube.create(build_service("inner", "ClusterIP"))
    kube.create(volume)
    kube.create(claim)
    own.wait_for(f"pvc/{place}-data", "jsonpath=.status.phase=Bound", place)
    empty_cluster(lambda: kube, Waiter(), patience_seconds=2.0)
    assert [job["metadata"]["name"] for job in kube.list_objects(JOB)] == [FOREIGN]
    assert [one["metadata"]["name"] for one in kube.list_objects(SERVICE)] == ["inner"]
    assert kube.list_objects(CLAIM) == []
    assert any(line.startswith("waiting for ") for line in told)
    # Nobody here deletes what is behind a volume: it is said, and it goes on.
    assert told[-1].startswith("still there after ")
    assert told[-1].endswith(f": PersistentVolume {place}-data")
    kube.delete(VOLUME, f"{place}-data")
    end(own, place)


def test_a_cluster_that_does_not_answer_is_no_obstacle(home: Path, told: list[str]) -> None:
    """Its disks and load balancers are then looked for outside of it."""
    assert home
    access = build_access("http://127.0.0.1:9", b"", lambda: "token", "default")
    empty_cluster(lambda: Kube(access, sleep=lambda _: None), Waiter())
    [line] = told
    assert line.startswith("continuing without the cluster's API server: cannot list Job")


def test_what_a_dead_sweep_left_is_found_and_deleted(own: Cluster, place: str, kube: Kube) -> None:
    """Nothing while an agent lives, then all that it had."""
    before = count_living(kube)
    kube.create(build_agent_job("demo-a1"))
    kube.create(build_object(SECRET, "demo-keys", "agent-keys"))
    kube.create(build_object(CONFIG_MAP, "demo-supervisor", "supervisor"))
    assert count_living(kube) == before + 1
    assert find(kube, place) == []

    end(own, place)
    assert find(kube, place) == ["ConfigMap demo-supervisor", "Secret demo-keys"]
    delete_leftovers(kube, [one for one in list_leftovers(kube) if one.namespace == place])
    assert find(kube, place) == []
    assert kube.get(SECRET, "demo-keys") is None


def test_a_cluster_in_use_is_no_orphan(
    own: Cluster,
    place: str,
    kube: Kube,
    token: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    told: list[str],
) -> None:
    """It is asked for living agents; once there are none, it is left over, and goes."""
    with serve_cloud(tmp_path) as cloud:
        cloud.connect_kubernetes(own.server, read_ca(own), token)
        cloud.set_operation_seconds(0.05)
        for name, value in cloud.environment().items():
            monkeypatch.setenv(name, value)
        gke = open_client()
        ensure_cluster(gke, read_spec(tmp_path))
        kube.create(build_agent_job("demo-a1"))
        [busy] = find_remains(gke, 0, ())[0]
        assert (busy.use, busy.agents) == (IN_USE, 1)
        end(own, place)
        _, claim = build_claim("results")
        kube.create({**claim, "metadata": {"name": "results", "labels": build_labels("backend")}})
        [kept] = find_remains(gke, 0, ())[0]
        assert kept.use == HOLDS_RESULTS, "down --all ends a backend and keeps its disk"
        kube.delete(CLAIM, "results")
        own.wait_for("pvc/results", "delete", place)
        kube.create(build_job(FOREIGN, build_pod(FOREIGN, ["sleep", "3600"])))
        own.kubectl("wait", f"job/{FOREIGN}", "-n", place, "--for=jsonpath=.status.active=1")
        [used] = find_remains(gke, 0, ())[0]
        assert used.use == HELD
        assert any(f"Job of others: {place}/{FOREIGN}" in one for one in used.reasons)
        with pytest.raises(CloudError, match="of others"):
            remove_remains(gke, used, Waiter(), Terms())
        assert cloud.changes == ("CreateCluster",)
        end(own, place)
        [idle] = find_remains(gke, 0, ())[0]
        assert (idle.use, idle.agents, idle.reasons) == (LEFT_OVER, 0, ())
        remove_remains(gke, idle, Waiter(), Terms())
        assert cloud.inventory().empty
        assert cloud.token not in "".join(told)


def end(own: Cluster, namespace: str) -> None:
    """Delete all Jobs of a namespace and wait until their pods are gone."""
    own.kubectl("delete", "jobs", "--all", "--cascade=foreground", "--wait", "-n", namespace)


def find(kube: Kube, namespace: str) -> list[str]:
    """Return what is left in a namespace, as kind and name."""
    found = [one for one in list_leftovers(kube) if one.namespace == namespace]
    assert {one.sweep_path for one in found} <= {PATH}
    return sorted(f"{one.kind} {one.name}" for one in found)
