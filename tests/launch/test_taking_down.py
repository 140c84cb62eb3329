"""A cluster goes only once its results are proven to be here; then they are read without it."""

from __future__ import annotations

import io
import logging
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from deployer.backend.server.daemon import stop_backend
from deployer.backend.storage.backup import adopt_copy
from deployer.config.paths import copies_folder, list_copies
from deployer.config.project import Project
from deployer.errors import BackendError, DeployerError, KubeError
from deployer.executors.base import (
    BackendHost,
    Held,
    HostedBackend,
    PaidCluster,
    Removal,
    Saved,
)
from deployer.executors.local.executor import LocalExecutor
from deployer.launch.provision import describe_bill, reporting_remains, take_down_cluster
from deployer.launch.resolution import choose_sweep, open_sweep, resolve_executor
from deployer.model import Agent
from deployer.sweeps.records import Records, SweepRecord
from deployer.wandb_api.operations import get_sweep
from tests.backend.client import Client, grid
from tests.backend.storage.test_copying import fetch_copy
from tests.conftest import ServedBackend
from tests.project_files import read_project

LOG = logging.getLogger("deployer.tests")

URL = "http://sweep-backend.default.svc:8080"
BILL = "the cluster costs $1 an hour: deployer down --cluster"


class ServedHost(BackendHost):
    """A backend that is served here, in place of one in a cluster."""

    url = URL
    kube = None  # type: ignore[assignment]  # nothing asks a cluster

    def __init__(self, content: bytes, failure: DeployerError | None) -> None:
        self.content, self.failure = content, failure

    def prepare(self) -> None:
        raise NotImplementedError

    def open(self, *, make: bool = True) -> HostedBackend:
        raise NotImplementedError

    def save_results(self) -> Saved | None:
        if self.failure:
            raise self.failure
        adopt_copy(io.BytesIO(self.content), copies_folder() / "gke-1")
        LOG.info("copied")
        return Saved(copies_folder() / "gke-1", URL, "uid-1")


class Bill(PaidCluster):
    """A cluster without agents."""

    def __init__(self) -> None:
        self.removed, self.removal = False, Removal()

    @property
    def name(self) -> str:
        raise NotImplementedError

    def select(self, name: str, sweep_path: str) -> None:
        raise NotImplementedError

    def find(self) -> str:
        raise NotImplementedError

    def get_usd_per_hour(self, agents: Sequence[Agent]) -> float | None:
        raise NotImplementedError

    def list_held(self, *, copied: bool) -> Sequence[Held]:
        raise NotImplementedError

    def list_results(self) -> Sequence[str]:
        raise NotImplementedError

    def describe_bill(self) -> Sequence[str]:
        return [BILL]

    def remove(self, removal: Removal) -> None:
        self.removed, self.removal = True, removal
        LOG.info("removed")


class Paid(LocalExecutor):
    """The cluster with the backend that is served here."""

    cluster: Bill

    def __init__(self, project: Project, content: bytes, failure: DeployerError | None) -> None:
        super().__init__("gke", project)
        self.backend, self.cluster = ServedHost(content, failure), Bill()


def read_gke(folder: Path) -> Project:
    return replace(read_project(folder), on="gke", explicit_on=False)


def remember(
    path: str, folder: Path, cluster: str = "uid-1", created_at: float = 1.0
) -> SweepRecord:
    words = (path.replace("/", "-"), path, "embedded", URL, str(folder), "grid.yaml", "hash")
    record = SweepRecord(*words, created_at, on="gke", backend_on="gke", cluster=cluster)
    Records.load().add(record)
    return record


@pytest.mark.slow
def test_results_are_read_here_once_the_cluster_is_gone(
    tmp_path: Path, backend: ServedBackend, told: list[str]
) -> None:
    client = Client.of(backend, "taken")
    sweep = client.create_sweep(grid(lr=[1]))
    client.work_once(client.create_agent(sweep), loss=0.5)
    path = f"{backend.entity}/taken/{sweep}"
    remember(path, tmp_path)
    elsewhere = remember("e/p/elsewhere", tmp_path, "uid-2", created_at=0.5)
    executor = Paid(read_gke(tmp_path), fetch_copy(backend, backend.key), None)
    take_down_cluster(executor, None, everything=False)
    removal = executor.cluster.removal
    assert removal == Removal(copied=True), "what is copied may go, and nothing else"
    assert told == ["copied", "removed"]

    record, other = sorted(Records.load(), key=lambda one: one.cluster)
    assert other == elsewhere, "a backend has the same address in every cluster"
    assert (record.on, record.backend_on, record.data) == ("", "", str(copies_folder() / "gke-1"))
    assert list_copies() == (copies_folder() / "gke-1",)
    for text in (None, sweep, path):
        config = read_project(tmp_path)
        assert resolve_executor(text, config).on == "local"
        server, found = open_sweep(choose_sweep(text, config))
        info = get_sweep(server.client, found)
        assert (str(info.path), info.state) == (path, "FINISHED")
        assert server.url != backend.url
    page = f"{server.url}/{backend.entity}/taken/sweeps/{sweep}"
    assert choose_sweep(page, config).config.known_data == copies_folder() / "gke-1"
    stop_backend(copies_folder() / "gke-1")
    shutil.rmtree(copies_folder())
    with pytest.raises(BackendError, match=r"the copy of its backend was not found: .*gke-1"):
        open_sweep(choose_sweep(sweep, config))


@pytest.mark.parametrize(
    "failure",
    [BackendError("the copy was cut off", "again"), KubeError("no answer", status=0)],
)
def test_a_cluster_whose_results_are_not_copied_stays(
    tmp_path: Path, failure: DeployerError, told: list[str]
) -> None:
    record = remember("e/p/s", tmp_path)
    executor = Paid(read_gke(tmp_path), b"", failure)
    telling = reporting_remains(lambda failure: describe_bill(executor, failure))
    with pytest.raises(BackendError) as raised, telling:
        take_down_cluster(executor, None, everything=False)
    assert not executor.cluster.removed
    assert raised.value.message == (
        f"the cluster stays, because copying its results failed: {failure.message}"
    )
    given_up = "deployer down --all --cluster --delete-data --on gke gives the results up"
    assert given_up in raised.value.hint
    assert told == [BILL]
    assert tuple(Records.load()) == (record,)
    removal = Removal(delete_data=True)
    take_down_cluster(executor, None, everything=True, removal=removal)
    assert executor.cluster.removed


class Busy(Paid):
    """A cluster one of whose agents does not go."""

    def forget(self, sweep_path: str | None = None, *, everyone: bool = False) -> bool:
        if everyone:
            return super().forget(sweep_path, everyone=True)
        raise KubeError("agent s-a1 does not go")


def test_a_cluster_whose_agents_do_not_go_stays(tmp_path: Path) -> None:
    executor = Busy(read_gke(tmp_path), b"", None)
    with pytest.raises(KubeError, match="agent s-a1 does not go"):
        take_down_cluster(executor, None, everything=True)
    assert not executor.cluster.removed


def test_with_another_server_a_cluster_that_does_not_answer_goes(
    tmp_path: Path, told: list[str]
) -> None:
    (tmp_path / "deployer.yaml").write_text("wandb: http://w.example\n")
    executor = Paid(read_gke(tmp_path), b"", KubeError("no answer", status=0))
    take_down_cluster(executor, None, everything=False)
    assert executor.cluster.removed
    assert told == ["whether the cluster holds results is unknown: no answer", "removed"]
