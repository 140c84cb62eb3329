"""Rights that are missing are named at once; what one may not delete is not left in silence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from deployer.errors import KubeError, Refusals
from deployer.executors.base import run_checks
from deployer.executors.kubernetes.backend.removal import remove_backend
from deployer.executors.kubernetes.keys import name_secret
from deployer.kube.objects import (
    BACKEND,
    CONFIG_MAP,
    JOB,
    SECRET,
    STATEFUL_SET,
    Manifest,
    build_labels,
    build_selector,
)
from deployer.launch.planning import plan_agents
from deployer.launch.scaling import end_agents
from deployer.wandb_api.server import Server
from tests.cluster.bed import Bed, make_bed, open_client
from tests.cluster.cluster import Cluster
from tests.cluster.shell import open_shell
from tests.cluster.tenants import Rules, load_rules, make_tenant


def without(taken: Mapping[str, tuple[str, ...]]) -> Rules:
    """Return the least rights without some verbs, by resource."""
    rules = [
        {**rule, "verbs": [v for v in rule["verbs"] if v not in taken.get(resource, ())]}
        for rule in load_rules()
        for resource in rule["resources"]
    ]
    return [rule for rule in rules if rule["verbs"]]


def test_all_rights_that_are_missing_are_named_at_once(
    cluster: Cluster, namespace: str, server: Server, tmp_path: Path
) -> None:
    rules = without({"jobs": ("create",), "configmaps": ("patch", "list"), "events": ("list",)})
    tenant = make_tenant(cluster, namespace, rules=rules)
    bed = make_bed(cluster, namespace, tenant, server, tmp_path / "project")
    with pytest.raises(KubeError) as caught:
        _check(bed)
    assert caught.value.message == (
        f"rights in {namespace}: you may not create jobs.batch, "
        "patch configmaps, list configmaps: agents cannot be started or stopped"
    )
    where = f"-n {namespace} --context {bed.kube.context}"
    assert (
        caught.value.hint
        == f"ask an administrator: deployer rights agents | kubectl apply {where} -f -"
    )


@pytest.mark.full
@pytest.mark.parametrize("verbs", [("list", "delete"), ("delete",)], ids=" and ".join)
def test_a_secret_that_one_may_not_delete_is_named(
    cluster: Cluster, namespace: str, server: Server, tmp_path: Path, verbs: tuple[str, ...]
) -> None:
    tenant = make_tenant(cluster, namespace, rules=without({"secrets": verbs}))
    bed = make_bed(cluster, namespace, tenant, server, tmp_path / "project")
    bed = bed.with_section(node_selector={"disk": "none"})
    path = bed.create_sweep([0.1])
    _check(bed)
    bed.start(path, 1)
    with pytest.raises(KubeError) as caught:
        end_agents(bed.executor, str(path))
    named = (
        f"cannot delete Secret {name_secret(str(path), bed.kube.owner)} in namespace {namespace}: "
    )
    assert caught.value.message.startswith(named)
    objects = "secrets,configmaps,persistentvolumeclaims"
    said = f"kubectl --context test delete {objects} -n {namespace}"
    assert said in str(caught.value.hint)
    assert _count_left(bed) == (0, 0)


@pytest.mark.full
def test_a_secret_that_one_may_not_list_goes_by_its_name(
    cluster: Cluster, namespace: str, server: Server, tmp_path: Path
) -> None:
    tenant = make_tenant(cluster, namespace, rules=without({"secrets": ("list",)}))
    bed = make_bed(cluster, namespace, tenant, server, tmp_path / "project")
    bed = bed.with_section(node_selector={"disk": "none"})
    path = bed.create_sweep([0.1])
    bed.start(path, 1)
    end_agents(bed.executor, str(path))
    assert open_client(cluster.kubeconfig, namespace).list_objects(SECRET, build_selector()) == []


@pytest.mark.full
def test_a_backend_that_may_be_there_is_not_called_gone(cluster: Cluster, namespace: str) -> None:
    """Who may make a Secret and not list them is told; what one may not make one has not made."""
    tenant = make_tenant(cluster, namespace, rules=without({"secrets": ("list",)}))
    refusals = Refusals()
    assert not remove_backend(open_client(tenant, namespace), refusals, delete_data=False)
    with pytest.raises(KubeError, match=f"cannot list Secret in namespace {namespace}"):
        refusals.raise_all()


def test_down_all_ends_the_backend_although_agents_are_refused(
    cluster: Cluster, namespace: str, server: Server, tmp_path: Path
) -> None:
    rules = [*without({"jobs": ("list",), "secrets": ("delete",)}), *load_rules("backend")]
    tenant = make_tenant(cluster, namespace, rules=rules)
    shell = open_shell(tmp_path / "project", tenant, server, forked=True)
    admin = open_client(cluster.kubeconfig, namespace, owner=f"tenant-{namespace}")
    for one in _build_idle_backend(namespace):
        admin.apply(one)
    done = shell.try_deployer("down", "--all", "--on", "kubernetes")
    assert done.returncode == 1, done.stderr
    assert f"embedded backend in namespace {namespace} stopped" in done.stderr
    assert f"error: cannot list Job in namespace {namespace}: " in done.stderr
    assert f"error: cannot delete Secret idle in namespace {namespace}: " in done.stderr
    assert admin.list_objects(STATEFUL_SET, build_selector(component=BACKEND)) == []


def _build_idle_backend(namespace: str) -> list[Manifest]:
    """Return a backend's objects without a pod."""
    labels = build_labels(BACKEND)
    metadata = {"name": "idle", "namespace": namespace, "labels": labels}
    container = {"name": "idle", "image": "localhost/python:dev"}
    spec = {
        "replicas": 0,
        "serviceName": "idle",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec},
    ]


def _check(bed: Bed) -> None:
    path = bed.create_sweep([0.1])
    plan = plan_agents(bed.server, bed.executor, path, 1, bed.code)
    run_checks(bed.executor.list_checks(plan))


def _count_left(bed: Bed) -> tuple[int, int]:
    jobs = bed.kube.list_objects(JOB, build_selector())
    return len(jobs), len(bed.kube.list_objects(CONFIG_MAP, build_selector()))
