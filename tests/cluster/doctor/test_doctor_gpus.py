"""What `doctor` says where nodes have GPUs; kwok simulates them, in a cluster of this file."""

from __future__ import annotations

import json

import pytest

from deployer.config.paths import find_packaged
from tests.cluster.cluster import Cluster
from tests.cluster.doctor.broken import GPU_CASES, WHOLE, Broken
from tests.cluster.doctor.doctor_bench import (
    Bench,
    bench,
    build,
    check_broken,
    check_nothing_wrong,
    cluster,
    nodes,
)
from tests.cluster.shell import Shell

__all__ = ["bench", "cluster", "nodes"]

pytestmark = pytest.mark.full


def test_a_cluster_that_fits_has_nothing_wrong(bench: Bench, namespace: str) -> None:
    check_nothing_wrong(bench, namespace, gpu={"product": WHOLE})


@pytest.mark.parametrize("broken", GPU_CASES.values(), ids=list(GPU_CASES))
def test_what_is_broken_is_named_and_its_remedy_mends_it(
    bench: Bench, namespace: str, broken: Broken
) -> None:
    check_broken(bench, namespace, broken)


def test_a_namespace_that_is_missing_is_made_as_said(bench: Bench, cluster: Cluster) -> None:
    name = f"{bench.folder.name[:30].replace('_', '-')}-new"
    bench.write(build(name, gpu={"product": "H100"}))
    wrong = bench.list_wrong()
    assert {code: one.message for code, one in wrong.items()} == {
        "namespace": "is missing",
        "selector": wrong["selector"].message,
    }
    for one in wrong.values():
        bench.paste(one.fix)
    assert bench.list_wrong() == {}
    cluster.kubectl("delete", "namespace", name, "--wait=false")


def test_an_administrator_sees_all_with_the_rights_of_the_file(
    bench: Bench, cluster: Cluster, namespace: str
) -> None:
    """Also of a namespace that is missing."""
    user = f"admin-{namespace}"
    file = find_packaged("infra/rbac") / "administrator.yaml"
    cluster.kubectl("apply", "-f", str(file))
    bind = ("create", "clusterrolebinding", user, "--clusterrole=deployer-administrator")
    cluster.kubectl(*bind, f"--user={user}")
    kubeconfig = cluster.pki.write_kubeconfig(
        cluster.folder.path / f"{user}.kubeconfig", cluster.server, user, namespace=namespace
    )
    other = f"{namespace}-new"
    shell = Shell(bench.folder, {**bench.environment, "KUBECONFIG": str(kubeconfig)})
    bench.write(build(other, gpu={"product": WHOLE}))
    missing = shell.try_deployer("doctor").stdout
    assert f"✗ namespace {other}: is missing\n    kubectl create namespace {other}" in missing
    cluster.kubectl("create", "namespace", other)
    done = shell.try_deployer("doctor")
    assert f"✓ namespace {other}: is there" in done.stdout
    assert "✓ GPUs: " in done.stdout
    assert done.returncode == 1  # no rights in the new namespace yet
    assert f"✗ rights in {other}: you may not create jobs.batch, " in done.stdout
    for role in ("agents", "backend", "data"):
        path = find_packaged("infra/rbac") / f"{role}.yaml"
        cluster.kubectl("apply", "-n", other, "-f", str(path))
        name = f"--role=deployer-{role}"
        cluster.kubectl("create", "rolebinding", role, "-n", other, name, f"--user={user}")
    found = json.loads(shell.deployer("doctor", "-o", "json").stdout)["findings"]
    assert [one for one in found if one["verdict"] != "right"] == []
    cluster.kubectl("delete", "clusterrolebinding", user)
    cluster.kubectl("delete", "namespace", other, "--wait=false")
