"""What the API server got from `up`, by its own audit log, is what was planned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from deployer.cli.output.render import to_plain
from deployer.config.credentials import build_owner
from deployer.config.project import Flags
from deployer.executors.kubernetes.keys import name_secret
from deployer.executors.registry import find_executor
from deployer.kube.objects import build_selector
from deployer.launch.planning import choose_pace, plan_agents
from deployer.model import SweepPath
from deployer.wandb_api.operations import list_sweeps
from deployer.wandb_api.server import Server
from tests.cluster.bed import SECTION, TRAINER, serve_for_pods
from tests.cluster.cluster import Cluster
from tests.cluster.shell import Shell, open_shell
from tests.cluster.tenants import make_tenant
from tests.project_files import read_project

SWEEP = {
    "program": "train.py",
    "project": "audit",
    "method": "grid",
    "metric": {"name": "loss", "goal": "minimize"},
    "parameters": {"lr": {"values": [0.1, 0.2]}},
}
WRITES = ("create", "update", "patch")
# Created to be answered; nothing stays of them.
QUESTIONS = ("selfsubjectaccessreviews", "selfsubjectreviews", "selfsubjectrulesreviews")


def name_of(manifest: dict[str, Any]) -> str:
    return str(manifest["metadata"]["name"])


def list_writes(cluster: Cluster, user: str, dry_run: bool = False) -> list[dict[str, Any]]:
    """Return what a user has written, or has tried without effect."""
    return [
        request
        for request in cluster.list_requests(user)
        if request["verb"] in WRITES
        and request["objectRef"]["resource"] not in QUESTIONS
        and ("dryRun=All" in request["requestURI"]) == dry_run
    ]


def plan_documents(shell: Shell, server: Server, sweep: str, replicas: int) -> list[Any]:
    """Return what `up` would send for a sweep that is there."""
    project = read_project(shell.folder, Flags(), **shell.environment)
    executor = find_executor(project)
    plan = plan_agents(
        server,
        executor,
        SweepPath(*sweep.split("/")),
        replicas,
        project.code,
        pace=choose_pace(project, server.extended),
    )
    return list(executor.preview(plan, {agent.name: "a new key" for agent in plan.agents}))


def test_up_sends_what_was_planned(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    tenant = make_tenant(cluster, namespace)
    with serve_for_pods(cluster, tmp_path / "backend") as server:
        shell = open_shell(tmp_path / "project", tenant, server, forked=True)
        shell.write("train.py", TRAINER)
        shell.write("sweep.yaml", SWEEP)
        section = {**SECTION, "namespace": namespace, "node_selector": {"disk": "none"}}
        shell.write("deployer.yaml", {"on": "kubernetes", "replicas": 2, "kubernetes": section})
        shell.run("git", "init", "--quiet")
        shell.run("git", "add", "train.py", "sweep.yaml")

        sweep = shell.deployer("sweep", "create", "sweep.yaml").stdout.strip()
        planned = shell.deployer("plan", "sweep.yaml")
        documents = plan_documents(shell, server, sweep, 2)
        up = shell.deployer("up", "sweep.yaml", "--detach")
        again = shell.deployer("agents", "up")
        shell.deployer("down")

    for found in (documents, list(yaml.safe_load_all(planned.stdout))):
        assert [one["kind"] for one in found] == ["ConfigMap"] * 3 + ["Job"] * 2
    writes = list_writes(cluster, f"tenant-{namespace}")
    secrets = {w["objectRef"]["name"] for w in writes if w["objectRef"]["resource"] == "secrets"}
    assert secrets == {name_secret(sweep, build_owner(f"tenant-{namespace}"))}
    sent = [w["requestObject"] for w in writes if w["objectRef"]["resource"] != "secrets"]
    # Jobs are sent side by side.
    assert sorted(sent, key=name_of) == sorted(
        as_received(cluster, documents, namespace), key=name_of
    )
    left = cluster.kubectl("get", "all,cm,secrets", "-n", namespace, "-l", build_selector())
    assert left == ""
    assert f"continuing sweep {sweep}" in up.stderr
    for said in (planned, up, again):
        assert "agents do not get what git does not track: deployer.yaml" in said.stderr


def test_without_room_for_an_agent_no_sweep_is_made(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    tenant = make_tenant(cluster, namespace)
    with serve_for_pods(cluster, tmp_path / "backend") as server:
        shell = open_shell(tmp_path / "project", tenant, server, forked=True)
        shell.write("train.py", TRAINER)
        shell.write("sweep.yaml", SWEEP)
        section = {**SECTION, "namespace": namespace, "memory": "900Gi"}
        shell.write("deployer.yaml", {"on": "kubernetes", "kubernetes": section})
        up = shell.try_deployer("up", "sweep.yaml", "--detach")
        sweeps = list_sweeps(server.client, server.viewer.entity, "audit")
    assert up.returncode == 1
    assert "limits.memory: 900Gi asked for, 0 of 8Gi used" in up.stderr
    ask = f"kubectl --context test edit resourcequota tenant -n {namespace}"
    assert f"hint: ask an administrator: {ask}" in up.stderr
    assert sweeps == ()
    assert list_writes(cluster, f"tenant-{namespace}") == []


def as_received(cluster: Cluster, documents: list[Any], namespace: str) -> list[dict[str, Any]]:
    """Return manifests as the audit log has them: what is created, with the server's defaults."""
    before = len(list_writes(cluster, "admin", dry_run=True))
    manifests = yaml.safe_dump_all(to_plain(documents))
    cluster.kubectl("create", "--dry-run=server", "-f", "-", "-n", namespace, stdin=manifests)
    writes = list_writes(cluster, "admin", dry_run=True)[before:]
    received = {w["requestObject"]["metadata"]["name"]: w["requestObject"] for w in writes}
    return [received[one["metadata"]["name"]] for one in documents]
