"""The cloud as a fixture: an empty project for every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deployer.gke.api.model import CloudCluster
from deployer.gke.cluster.creation import ensure_cluster
from deployer.gke.specification import ClusterSpec
from tests.gke.cloud import Cloud, serve_cloud
from tests.gke.commands import Machine, Nursery
from tests.gke.rooms import Clock, open_client, read_spec, write_spec


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that speak to the cloud out of `make check`."""
    for item in items:
        if "cloud" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """Serve a cloud, and lead this process's clients and all that it starts to it."""
    folder = tmp_path / "cloud"
    folder.mkdir()
    with serve_cloud(folder) as served:
        for name, value in served.environment().items():
            monkeypatch.setenv(name, value)
        yield served


@pytest.fixture
def spec(cloud: Cloud, tmp_path: Path) -> ClusterSpec:
    """Return a specification with two locations and two choices of GPUs, in a quick cloud."""
    cloud.set_operation_seconds(0.03)
    return read_spec(tmp_path)


@pytest.fixture
def make(spec: ClusterSpec) -> Callable[[], CloudCluster]:
    """Return what `deployer gke up` calls, by a clock of its own."""

    def ensure() -> CloudCluster:
        clock = Clock()
        return ensure_cluster(open_client(), spec, now=clock.now, sleep=clock.sleep)

    return ensure


NURSERY = pytest.StashKey[Nursery]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fork the nursery of commands while no test has called Google's clients yet."""
    wanted = any("nursery" in getattr(item, "fixturenames", ()) for item in session.items)
    if wanted and not session.config.option.collectonly:
        session.config.stash[NURSERY] = Nursery()


@pytest.fixture(scope="session")
def nursery(pytestconfig: pytest.Config) -> Iterator[Nursery]:
    """Give what starts the commands of all tests."""
    started = pytestconfig.stash[NURSERY]
    yield started
    started.close()


@pytest.fixture
def make_machine(nursery: Nursery, cloud: Cloud, tmp_path: Path) -> Callable[[], Machine]:
    """Return what makes machines that know nothing, with the specification in their folder."""
    made: list[Machine] = []

    def make() -> Machine:
        folder = tmp_path / f"machine-{len(made)}"
        folder.mkdir()
        write_spec(folder)
        made.append(Machine(nursery, cloud, folder))
        return made[-1]

    return make


@pytest.fixture
def machine(make_machine: Callable[[], Machine]) -> Machine:
    """Return the one machine that most tests need."""
    return make_machine()
