"""The cloud's Compute Engine, and what a cluster leaves there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import compute_v1

from tests.gke.cloud import PROJECT, Cloud
from tests.gke.cloud_faults import api_disabled
from tests.gke.rooms import open_client


def test_disks_and_load_balancers_outlive_their_cluster(cloud: Cloud) -> None:
    """Claims' disks carry the cluster's name, rules nothing; nodes' disks go with the nodes."""
    cloud.set_operation_seconds(0)
    cloud.add_foreign_cluster("sweeps", labels={"managed-by": "deployer"})
    cloud.add_disk("pvc-1", cluster="sweeps", in_use=True)
    cloud.add_forwarding_rule("a1", cluster="sweeps")
    options = {"api_endpoint": cloud.compute_url}
    disks = compute_v1.DisksClient(client_options=options)
    labelled = {"project": PROJECT, "filter": "labels.managed-by=deployer"}
    assert sorted(list_names(disks, labelled, "disks"))[0].startswith("gke-sweeps-default-pool-")
    with pytest.raises(exceptions.BadRequest, match="already being used by"):
        disks.delete_unary(project=PROJECT, zone="us-central1-a", disk="pvc-1")
    open_client().delete_cluster("us-central1-a", "sweeps")
    assert list_names(disks, labelled, "disks") == []
    named = {**labelled, "filter": "labels.goog-k8s-cluster-name=sweeps"}
    assert list_names(disks, named, "disks") == ["pvc-1"]
    place: dict[str, Any] = {"project": PROJECT, "zone": "us-central1-a"}
    deletion = disks.delete_unary(**place, disk="pvc-1")
    operations = compute_v1.ZoneOperationsClient(client_options=options)
    while deletion.status != compute_v1.Operation.Status.DONE:
        deletion = operations.wait(**place, operation=deletion.name)
    assert cloud.inventory().disks == ()


def test_a_target_pool_lasts_as_long_as_its_rule(cloud: Cloud) -> None:
    """A rule has no label of the cluster; its description and its target's nodes tell of it."""
    cloud.add_forwarding_rule("a1", cluster="sweeps")
    options = {"api_endpoint": cloud.compute_url}
    rules = compute_v1.ForwardingRulesClient(client_options=options)
    targets = compute_v1.TargetPoolsClient(client_options=options)
    assert list_names(rules, {"project": PROJECT}, "forwarding_rules") == ["a1"]
    place: dict[str, Any] = {"project": PROJECT, "region": "us-central1"}
    assert "gke-sweeps-" in targets.get(**place, target_pool="a1").instances[0]
    with pytest.raises(exceptions.BadRequest, match="already being used by"):
        targets.delete_unary(**place, target_pool="a1")
    deletions: list[Callable[[], Any]] = [
        lambda: rules.delete_unary(**place, forwarding_rule="a1"),
        lambda: targets.delete_unary(**place, target_pool="a1"),
    ]
    for deletion in deletions:
        operation = deletion()
        waiting = compute_v1.RegionOperationsClient(client_options=options)
        while operation.status != compute_v1.Operation.Status.DONE:
            operation = waiting.wait(**place, operation=operation.name)
    assert cloud.inventory().empty


def list_names(client: Any, request: dict[str, str], kind: str) -> list[str]:
    """Return the names of an aggregated list."""
    scopes = [scope for _, scope in client.aggregated_list(request)]
    return [thing.name for scope in scopes for thing in getattr(scope, kind)]


def test_compute_errors_are_told_as_http(cloud: Cloud) -> None:
    """The reason of a disabled API comes with the answer."""
    cloud.fail("disks.aggregatedList", api_disabled("compute"))
    disks = compute_v1.DisksClient(client_options={"api_endpoint": cloud.compute_url})
    with pytest.raises(exceptions.Forbidden, match="Compute Engine API") as caught:
        list(disks.aggregated_list(project=PROJECT))
    assert caught.value.reason == "SERVICE_DISABLED"
