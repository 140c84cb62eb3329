"""Agents that share the user's key read `wandb-secret`; `up` makes it, and it goes only if ours."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from deployer.kube.client import Kube
from deployer.kube.objects import JOB, SECRET
from deployer.launch.scaling import end_agents
from tests.cluster.bed import SECTION, TRAINER, Bed, make_bed, open_client, serve_for_pods
from tests.cluster.cluster import Cluster
from tests.cluster.proxy import ApiProxy, Fault
from tests.cluster.shell import open_shell
from tests.cluster.tenants import make_tenant
from tests.conftest import FOREIGN_KEY

SWEEP = {
    "program": "train.py",
    "project": "shared",
    "method": "grid",
    "parameters": {"lr": {"values": [0.1]}},
}
# Pods that no node takes: what is looked at are Secrets, not agents.
NOWHERE = {"node_selector": {"disk": "none"}}


def list_references(jobs: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the Secret of each agent's key and the key's name in it."""
    variables = [job["spec"]["template"]["spec"]["containers"][0]["env"] for job in jobs]
    sources = [v.get("valueFrom", {}).get("secretKeyRef") for env in variables for v in env]
    return [(one["name"], one["key"]) for one in sources if one]


def test_up_makes_the_secret_that_all_agents_share(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    tenant = make_tenant(cluster, namespace)
    kube = open_client(tenant, namespace)
    with serve_for_pods(cluster, tmp_path / "data", "plain") as server:
        shell = open_shell(tmp_path / "project", tenant, server, forked=True)
        shell.write("train.py", TRAINER)
        shell.write("sweep.yaml", SWEEP)
        section = {**SECTION, "namespace": namespace}
        shell.write("deployer.yaml", {"on": "kubernetes", "kubernetes": section})
        printed = json.loads(shell.deployer("plan", "sweep.yaml", "-o", "json").stdout)
        planned = list_references(one for one in printed if one["kind"] == "Job")

        shell.deployer("up", "sweep.yaml", "--plain")
        assert list_references(kube.list_objects(JOB)) == planned == [("wandb-secret", "secret")]
        [secret] = kube.list_objects(SECRET)
        assert base64.b64decode(secret["data"]["secret"]).decode() == server.client.key
        shown = json.loads(shell.deployer("secret", "show", "-o", "json").stdout)
        assert (shown["mine"], shown["base_url"]) == (True, server.url)
        shell.deployer("down")
        assert len(kube.list_objects(SECRET)) == 1
        shell.deployer("down", "--all")
        assert kube.list_objects(SECRET) == []


def start_beside(bed: Bed, kube: Kube, key: str) -> str:
    """Start an agent where `wandb-secret` holds a key; return the Secret that it reads.

    Nothing but the other Secret is left then, and at last that goes too.
    """
    cluster, where = bed.cluster, ("-n", bed.namespace)
    words = ("create", "secret", "generic", "wandb-secret", f"--from-literal=secret={key}")
    cluster.kubectl(*words, *where)
    path = bed.create_sweep([0.1])
    bed.with_kube(kube, **NOWHERE).start(path, 1)
    [(read, _)] = list_references(bed.kube.list_objects(JOB))
    assert list_secrets(bed.kube) == {"wandb-secret", read}
    end_agents(bed.executor, None)
    assert list_secrets(bed.kube) == {"wandb-secret"}
    bed.kube.delete(SECRET, "wandb-secret")
    return read.replace(path.sweep_id, "ID").replace(kube.owner.id[:8], "OWNER")


def list_secrets(kube: Kube) -> set[str]:
    return {one["metadata"]["name"] for one in kube.list_objects(SECRET)}


@pytest.mark.full
def test_somebody_elses_secret_is_used_if_it_holds_the_key(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    tenant = make_tenant(cluster, namespace)
    with (
        serve_for_pods(cluster, tmp_path / "data", "plain") as server,
        ApiProxy(tenant, tmp_path) as proxy,
    ):
        bed = make_bed(cluster, namespace, tenant, server, tmp_path / "project")
        assert start_beside(bed, bed.kube, server.client.key) == "wandb-secret"
        assert start_beside(bed, bed.kube, FOREIGN_KEY) == "ID-keys-OWNER"
        proxy.faults.append(Fault("status", "^GET .*/secrets/", 403, "cannot get", "Forbidden"))
        blind = open_client(proxy.kubeconfig, namespace)
        assert start_beside(bed, blind, server.client.key) == "ID-keys-OWNER"
