"""How many agents are wanted, in a ConfigMap of a real server."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deployer.errors import KubeError
from deployer.executors.kubernetes.agents.wanted import WantedMaps
from deployer.kube.objects import CONFIG_MAP, WANTED, build_selector
from deployer.model import Wanted
from tests.cluster.bed import open_client
from tests.cluster.cluster import Cluster
from tests.cluster.tenants import make_account


@pytest.fixture
def path() -> str:
    return f"me/project/{uuid.uuid4().hex[:8]}"


@pytest.fixture
def alice(cluster: Cluster, namespace: str, tmp_path: Path) -> WantedMaps:
    kube = open_client(make_account(cluster, namespace, "alice", tmp_path), namespace)
    return WantedMaps(lambda: kube)


@pytest.fixture
def bob(cluster: Cluster, namespace: str, tmp_path: Path) -> WantedMaps:
    kube = open_client(make_account(cluster, namespace, "bob", tmp_path), namespace)
    return WantedMaps(lambda: kube)


def test_each_owner_has_a_number_of_their_own(
    alice: WantedMaps, bob: WantedMaps, path: str
) -> None:
    alice.change(path, lambda old: old and old.without("a"))  # taken down stays so
    assert alice.get(path) is None
    alice.change(path, lambda _: Wanted(4))
    bob.change(path, lambda _: Wanted(2, frozenset({"x-a5"})))
    alice.change(path, lambda old: old and old.without(["x-a1"]))
    assert alice.get(path) == Wanted(3, frozenset({"x-a1"}))
    alice.change(path, lambda _: Wanted(3))
    assert (alice.get(path), bob.get(path)) == (
        Wanted(3),
        Wanted(2, frozenset({"x-a5"})),
    )
    alice.withdraw(path)
    alice.withdraw(None)
    assert (alice.get(path), bob.get(path) is None) == (None, False)
    alice.withdraw(path, everyone=True)
    assert bob.get(path) is None


def test_of_commands_at_the_same_time_each_counts(alice: WantedMaps, path: str) -> None:
    """The first of them meet while there is no ConfigMap yet."""

    def start(number: int) -> None:
        alice.change(path, lambda old: Wanted((old or Wanted(0)).number + number))

    with ThreadPoolExecutor() as pool:
        list(pool.map(start, (1, 2, 3, 4)))
    assert alice.get(path) == Wanted(10)
    names = [f"x-a{number}" for number in range(4)]

    def drain(name: str) -> None:
        alice.change(path, lambda old: old and old.without([name]))

    with ThreadPoolExecutor() as pool:
        list(pool.map(drain, names))
    assert alice.get(path) == Wanted(6, frozenset(names))


@pytest.mark.parametrize("number", ["many", "٣", "1001", "99999999999999999999"])
def test_one_that_holds_no_number_is_named_and_replaced_by_the_next(
    cluster: Cluster, namespace: str, tmp_path: Path, path: str, number: str
) -> None:
    kube = open_client(make_account(cluster, namespace, "alice", tmp_path), namespace)
    alice = WantedMaps(lambda: kube)
    alice.change(path, lambda _: Wanted(2))
    [made] = kube.list_objects(CONFIG_MAP, build_selector(path, WANTED))
    name = made["metadata"]["name"]
    kube.patch(CONFIG_MAP, name, {"data": {"number": number}})
    with pytest.raises(
        KubeError, match=f"ConfigMap {name} .* does not contain a number of agents: '{number}'"
    ):
        alice.get(path)
    alice.change(path, lambda old: Wanted(3 if old is None else 0))
    assert alice.get(path) == Wanted(3)
