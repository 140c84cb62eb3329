"""Fixtures of the tests on Kubernetes: a cluster per run, a namespace per test, a report."""

from __future__ import annotations

import fcntl
import os
import re
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.cluster import Cluster, join_cluster, start_cluster
from tests.cluster.describe import describe_namespace

if TYPE_CHECKING:
    from deployer.wandb_api.server import Server
    from tests.gke.cloud import Cloud

CLUSTERS = {"cluster", "make_cluster"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that need a cluster for `make test-kubernetes`."""
    for item in items:
        if CLUSTERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kube)
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run one cluster with one real node for the whole run; pytest-xdist's workers share it."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    joined = _join_or_start(shared)
    yield joined
    joined.folder.release()


def _join_or_start(shared: Path) -> Cluster:
    pointer = shared / "cluster"
    with open(shared / "cluster.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = join_cluster(Path(pointer.read_text())) if pointer.exists() else None
        if found is None:
            found = start_cluster()
            pointer.write_text(str(found.folder.path))
    return found


@pytest.fixture(scope="module")
def make_cluster() -> Iterator[Callable[..., Cluster]]:
    """Start clusters for tests that break them: `start_cluster`, until the end of the module."""
    made: list[Cluster] = []

    def make(nodes: int = 1, **options: bool | str) -> Cluster:
        made.append(start_cluster(nodes, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.folder.release()


@pytest.fixture(scope="module")
def server(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve a backend that the pods of a module's cluster reach."""
    from tests.cluster.bed import serve_for_pods

    with serve_for_pods(cluster, tmp_path_factory.mktemp("backend") / "data") as serving:
        yield serving


@pytest.fixture
def real_gpus(cluster: Cluster) -> Iterator[None]:
    """Let one test at a time change how many GPUs the real node has."""
    with open(cluster.folder.path / "gpus.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """Make a namespace for one test; its pods end with it, without the grace of theirs."""
    name = make_namespace(cluster, request.node.name)
    yield name
    delete_namespace(cluster, name)


@pytest.fixture
def cloud(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Cloud]:
    """Serve a cloud whose clusters are the test cluster, to which its token is good, too."""
    from tests.gke.cloud import serve_cloud  # Google's clients take seconds to import

    folder = tmp_path / "cloud"
    folder.mkdir()
    cluster.kubectl("create", "serviceaccount", "user", "-n", namespace)
    who = f"--serviceaccount={namespace}:user"
    cluster.kubectl("create", "clusterrolebinding", namespace, "--clusterrole=cluster-admin", who)
    token = cluster.kubectl("create", "token", "user", "-n", namespace).strip()
    ca = (cluster.folder.path / "pki/ca.crt").read_bytes()
    with serve_cloud(folder) as served:
        served.connect_kubernetes(cluster.server, ca, token)
        yield served
    cluster.kubectl("delete", "clusterrolebinding", namespace)


def make_namespace(cluster: Cluster, test: str) -> str:
    """Make a namespace named after a test."""
    slug = re.sub(r"[^a-z0-9]+", "-", test.lower()).strip("-")[:40]
    name = f"{slug}-{uuid.uuid4().hex[:6]}"
    cluster.kubectl("create", "namespace", name)
    return name


def delete_namespace(cluster: Cluster, name: str) -> None:
    """Kill the pods of a namespace and have it deleted; nobody waits for the end."""
    look = ("-n", name, "--wait=false", "--ignore-not-found")
    cluster.kubectl("delete", "jobs", "--all", *look)
    cluster.kubectl("delete", "pods", "--all", *look, "--grace-period=0", "--force")
    cluster.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the cluster knows about the namespace of a failed test to its report."""
    report = yield
    arguments = getattr(item, "funcargs", {})
    if report.failed and "namespace" in arguments and "cluster" in arguments:
        told = describe_namespace(arguments["cluster"], arguments["namespace"])
        report.sections.append((f"namespace {arguments['namespace']}", told))
    return report
