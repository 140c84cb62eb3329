"""Exactly the rights of infra/rbac: a tenant's, and each one missing."""

from __future__ import annotations

from dataclasses import replace

from deployer.errors import Severity
from deployer.executors.kubernetes.data.volumes import INLINE_HINT
from deployer.executors.kubernetes.diagnose.case import Case
from deployer.executors.kubernetes.diagnose.rights import (
    RUN_AGENTS,
    WITHOUT,
    describe_right,
    examine_rights,
)
from tests.cluster.agents.test_audit import list_writes
from tests.cluster.bed import build_section, open_client, wait_for
from tests.cluster.cluster import Cluster
from tests.cluster.doctor.broken import claim, config_map
from tests.cluster.doctor.doctor_bench import Bench, bench, build, merge, wait_until_counted
from tests.cluster.tenants import load_rules, make_tenant, replace_role

__all__ = ["bench"]


def test_a_tenant_is_told_what_it_may_not_see_and_leaves_nothing(
    bench: Bench, cluster: Cluster, namespace: str
) -> None:
    """With the rights of infra/rbac/agents.yaml nothing is wrong, and every write is a dry run."""
    tenant = make_tenant(cluster, namespace)
    bench = Bench(cluster, bench.folder, {**bench.environment, "KUBECONFIG": str(tenant)})
    bench.write(build(namespace))
    found = bench.examine()
    assert [one.message for one in found if one.severity is not Severity.OK] == [
        "no permission to list them: unknown if one fits the agents"
    ]
    assert list_writes(cluster, f"tenant-{namespace}") == []
    assert list_writes(cluster, f"tenant-{namespace}", dry_run=True) != []
    folder = {"name": "d", "mount_path": "/d", "nfs": {"server": "nfs.example", "path": "/d"}}
    bench.write(merge(build(namespace), {"kubernetes": {"volumes": [folder]}}))
    assert bench.list_wrong()["nfs"].fix == INLINE_HINT
    bench.write(build(f"{namespace}-other"))
    [shut] = bench.list_wrong().values()
    assert (shut.code, shut.message) == ("namespace", "is missing, or you have no rights in it")
    assert [one.code for one in bench.examine() if one.severity is Severity.UNKNOWN] == ["nodes"]


def test_a_tenant_is_told_that_a_claim_is_not_bound(
    bench: Bench, cluster: Cluster, namespace: str
) -> None:
    tenant = make_tenant(cluster, namespace)
    bench = Bench(cluster, bench.folder, {**bench.environment, "KUBECONFIG": str(tenant)})
    cluster.create(claim("waits", "gold"), namespace)
    volumes = [{"name": "checkpoints", "pvc": "waits"}]
    bench.write(build(namespace, volumes=volumes))
    assert bench.list_wrong() == {}
    [unbound] = [one for one in bench.examine() if one.subject == "PersistentVolumeClaim waits"]
    assert (unbound.severity, unbound.message) == (Severity.UNKNOWN, "is not bound yet (Pending)")


def test_a_quota_that_refuses_the_probe_says_that_the_namespace_is_there(
    bench: Bench, cluster: Cluster, namespace: str
) -> None:
    """Who may not read the namespace asks by a ConfigMap whether it is there."""
    cluster.create(config_map("taken"), namespace)
    tenant = make_tenant(cluster, namespace, {"configmaps": "1"})
    wait_until_counted(cluster, namespace, "tenant")
    bench = Bench(cluster, bench.folder, {**bench.environment, "KUBECONFIG": str(tenant)})
    bench.write(build(namespace))
    found = {one.code: one for one in bench.examine() if one.severity is not Severity.OK}
    assert set(found) == {"nodes"}


def test_each_right_of_a_tenant_is_missed_by_name(
    bench: Bench, cluster: Cluster, namespace: str
) -> None:
    """The table of docs/doctor.md, on a real server; an administrator pastes the remedy."""
    tenant = make_tenant(cluster, namespace)
    kube = open_client(tenant, namespace)
    case = Case(kube, build_section())  # asks once, so each question gets a copy
    assert kube.read_rules()[1]  # complete: no right is asked singly
    for kind, subresource, verb in (*RUN_AGENTS.rights, *WITHOUT):
        resource = f"{kind.plural}/{subresource}".rstrip("/")
        rules = [
            {**rule, "resources": [one], "verbs": verbs}
            for rule in load_rules()
            for one in rule["resources"]
            if (verbs := [v for v in rule["verbs"] if (one, v) != (resource, verb)])
        ]
        replace_role(cluster, namespace, rules)
        wait_for(lambda: not kube.is_allowed(verb, kind, subresource), "the Role")  # noqa: B023
        [found] = examine_rights(replace(case))
        cost = WITHOUT.get((kind, subresource, verb), "agents cannot be started or stopped")
        named = describe_right((kind, subresource, verb))
        assert found.message == f"you may not {named}: {cost}"
    cluster.kubectl(
        "create",
        "rolebinding",
        "own",
        "-n",
        namespace,
        "--role=deployer-agents",
        f"--user=tenant-{namespace}",
    )
    typed = found.fix.removeprefix("ask an administrator: ")
    bench.paste(typed.replace(f" --context {kube.context}", ""))
    wait_for(
        lambda: [one.severity for one in examine_rights(replace(case))] == [Severity.OK], "the Role"
    )
