"""The embedded backend in the cluster: made by itself, killed half-way, copied home, taken down."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deployer.config.paths import backend_folder
from deployer.executors.kubernetes.agents.logs import follow_log
from deployer.executors.kubernetes.backend.deployment import KEY_FIELD, KEY_SECRET, NAME
from deployer.executors.kubernetes.backend.host import USER_ANNOTATION
from deployer.kube.client import Kube
from deployer.kube.objects import CLAIM, POD, SERVICE, STATEFUL_SET, build_selector
from tests.cluster.backend import logging_agents
from tests.cluster.bed import OURS, PATIENCE_SECONDS, SECTION, TRAINER, open_client
from tests.cluster.cluster import Cluster
from tests.cluster.pods import build_pod, python
from tests.cluster.shell import Shell
from tests.cluster.tenants import make_tenant
from tests.cluster.volumes import offer_volume

SWEEP = {
    "program": "train.py",
    "method": "grid",
    "metric": {"name": "loss", "goal": "minimize"},
    "parameters": {"lr": {"values": [0.2, 0.1]}, "seconds": {"value": 10}},
}
SAVING = TRAINER.replace(
    '    print("trained',
    '    open("notes.txt", "w").write("kept")\n    run.save("notes.txt")\n    print("trained',
)
LINES = logging_agents.AGENTS * logging_agents.CHUNKS * logging_agents.LINES
REACH = """
import sys
import wandb
from pathlib import Path

runs = wandb.Api().runs(sys.argv[1])
found = {str(run.config["lr"]): run.summary["loss"] for run in runs}
run = runs[0]
run.file("notes.txt").download(root=sys.argv[2])
Path(sys.argv[2], "more.txt").write_text("from here")
run.upload_file(str(Path(sys.argv[2], "more.txt")), root=sys.argv[2])
names = [file.name for file in run.files(["more.txt"])]
print(Path(sys.argv[2], "notes.txt").read_text(), len(found), names)
"""


def make_shell(folder: Path, kubeconfig: Path, storage_class: str) -> Shell:
    """Return a shell in a project folder that says nothing about W&B."""
    folder.mkdir()
    shell = Shell(folder, {"KUBECONFIG": str(kubeconfig)}, forked=True)
    backend = {
        "storage_class": storage_class,
        "size": "1Gi",
        "cpu": "300m",
        "memory": "768Mi",
        "env": SECTION["env"],
    }
    shell.write("deployer.yaml", {"kubernetes": SECTION, "backend": backend})
    shell.write("train.py", SAVING)
    shell.write("grid.yaml", SWEEP)
    return shell


@contextmanager
def started(shell: Shell, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run `deployer` in the background; it is ended in the end."""
    command = [sys.executable, "-m", "deployer", *arguments]
    with subprocess.Popen(
        command,
        cwd=shell.folder,
        env={**os.environ, **shell.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)


@pytest.mark.slow(seconds=65)
def test_a_sweep_without_any_server_survives_its_backends_pod(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    tenant = make_tenant(cluster, namespace)
    allow(cluster, namespace)
    offer_volume(cluster, namespace, tmp_path / "disk")
    shell = make_shell(tmp_path / "project", tenant, namespace)
    kube = open_client(tenant, namespace)

    said = run_while_the_backends_pod_is_killed(shell, kube)
    assert "the embedded backend is created in namespace" in said
    assert "2/2 configurations finished, 0 duplicates, 0 lost" in said
    assert (
        "no NetworkPolicy guards the embedded backend: you may not create networkpolicies" in said
    )

    # Another machine: no record, only the labels in the cluster.
    path = json.loads(shell.deployer("sweep", "show", "-o", "json").stdout)["sweep"]
    other = replace(shell, environment={**shell.environment, "DEPLOYER_HOME": str(tmp_path / "b")})
    there = ("--wandb", "embedded", "--on", "kubernetes")
    agents = other.deployer("agents", "list", path, *there, "-o", "json")
    assert len(json.loads(agents.stdout)) == 2
    reader = replace(other, environment={**other.environment, "DEPLOYER_OWNER": "reader"})
    assert count_finished(reader, path, *there) == 2
    [claim] = kube.list_objects(CLAIM, build_selector())
    users = [key for key in claim["metadata"]["annotations"] if key.startswith(USER_ANNOTATION)]
    assert users == [f"{USER_ANNOTATION}{kube.owner.id}"], "who only reads is none"
    check_key_is_nowhere_else(cluster, namespace)
    check_both_sides(shell, path, tmp_path)

    status = json.loads(shell.deployer("backend", "status", *there[2:], "-o", "json").stdout)
    assert (status["running"], status["health"]) == (True, "ready")
    assert status["url"] == f"http://{NAME}.{namespace}.svc:8080"
    shell.deployer("backend", "copy", "--on", "kubernetes")
    assert count_finished(shell, path, *there[:2]) == 2
    assert list(backend_folder().rglob("*"))
    done = shell.deployer("down", "--all", "--on", "kubernetes")
    assert f"stays in PersistentVolumeClaim {NAME}" in done.stderr
    read = shell.try_deployer("results", path, *there)
    assert f"no embedded backend found in namespace {namespace}" in read.stderr
    assert "hint: deployer backend up --on kubernetes" in read.stderr
    kinds = (*OURS, STATEFUL_SET, SERVICE, CLAIM)
    left = [one for kind in kinds for one in kube.list_objects(kind, build_selector())]
    assert [f"{one['kind']}/{one['metadata']['name']}" for one in left] == [
        f"PersistentVolumeClaim/{NAME}"
    ]

    shell.deployer("backend", "up", "--on", "kubernetes")  # with another key, and the same data
    assert count_finished(shell, path, *there[:2]) == 2
    stopped = shell.deployer("backend", "down", "--on", "kubernetes")
    assert f"embedded backend in namespace {namespace} stopped" in stopped.stderr
    gone = shell.try_deployer("backend", "status", "--on", "kubernetes")
    assert f"no embedded backend found in namespace {namespace}" in gone.stderr
    shell.deployer("down", "--all", "--delete-data", "-y", "--on", "kubernetes")
    assert not kube.list_objects(CLAIM, build_selector())
    assert kube.get(STATEFUL_SET, NAME) is None


def run_while_the_backends_pod_is_killed(shell: Shell, kube: Kube) -> str:
    """Run the sweep to its end, with another pod of the backend half-way; return what was said."""
    with started(
        shell, "up", "grid.yaml", "--on", "kubernetes", "--replicas", "2", "--plain"
    ) as up:
        assert up.stdout is not None
        said = ""
        while " 2 running" not in said:
            line = up.stdout.readline()
            assert line, said
            said += line
        first = kube.get(POD, f"{NAME}-0")
        kube.delete(POD, f"{NAME}-0", grace_seconds=0)
        said += up.communicate(timeout=PATIENCE_SECONDS)[0]
        assert up.returncode == 0, said
    second = kube.get(POD, f"{NAME}-0")
    assert first
    assert second
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    return said


def count_finished(shell: Shell, path: str, *flags: str) -> int:
    shown = shell.deployer("results", path, *flags, "-o", "json").stdout
    return int(json.loads(shown)["coverage"]["finished"])


def check_both_sides(shell: Shell, path: str, folder: Path) -> None:
    """What an agent has uploaded is downloaded here, and the other way round."""
    with started(shell, "backend", "open", "--on", "kubernetes") as held:
        assert held.stdout is not None
        lines = (line for line in held.stdout if not line.startswith("waiting for "))
        assert next(lines).startswith("http://127.0.0.1:")
        exported = shell.deployer("backend", "env", "--on", "kubernetes").stdout
        told = (line.removeprefix("export ").split("=", 1) for line in exported.splitlines())
        here = replace(shell, environment={**shell.environment, **dict(told)})
        project = path.rpartition("/")[0]
        done = here.run(sys.executable, "-c", REACH, project, str(folder))
        assert done.stdout.strip().endswith("kept 2 ['more.txt']"), done.stdout + done.stderr


def check_another_user(shell: Shell) -> None:
    """Somebody else has keys there, which are listed by their labels; one of them is removed."""
    user = f"{sys.executable} -m deployer backend user"
    end = "--key-stdin --on kubernetes"
    assert "added user ann" in shell.type(f"echo {'a' * 40} | {user} add ann {end}").stderr
    new = shell.type(f"{user} add ann --label laptop --on kubernetes").stdout.strip()
    assert len(new) == 40

    def list_keys() -> dict[str, str]:
        listed = json.loads(shell.type(f"{user} list --on kubernetes -o json").stdout)["users"]
        return {key["label"]: key["id"] for key in listed[-1]["keys"]}

    old = list_keys()[""]
    said = shell.type(f"{user} remove ann {old} --on kubernetes").stderr
    assert f"removed key {old} of ann" in said
    assert list(list_keys()) == ["laptop"]


def check_key_is_nowhere_else(cluster: Cluster, namespace: str) -> None:
    look = ("-n", namespace)
    field = f"jsonpath={{.data.{KEY_FIELD}}}"
    encoded = cluster.kubectl("get", "secret", KEY_SECRET, "-o", field, *look)
    key = base64.b64decode(encoded).decode()
    assert len(key) == 40
    shown = cluster.kubectl("get", "statefulsets,pods,configmaps,services", "-o", "yaml", *look)
    assert key not in shown
    assert key not in cluster.kubectl("logs", f"{NAME}-0", *look)


def allow(cluster: Cluster, namespace: str) -> None:
    """Give the tenant what the backend needs beyond a tenant's usual rights."""
    rules = [
        {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["services"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["get", "create"]},
    ]
    group = "rbac.authorization.k8s.io"
    common = {"apiVersion": f"{group}/v1", "metadata": {"name": "backend"}}
    cluster.create({**common, "kind": "Role", "rules": rules}, namespace)
    user = {"apiGroup": group, "kind": "User", "name": f"tenant-{namespace}"}
    role = {"apiGroup": group, "kind": "Role", "name": "backend"}
    binding = {**common, "kind": "RoleBinding", "roleRef": role, "subjects": [user]}
    cluster.create(binding, namespace)


@pytest.mark.full
def test_no_acknowledged_line_is_lost_with_the_backends_pod(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """The pod is deleted twice, once without any notice, while `logging_agents` work."""
    tenant = make_tenant(cluster, namespace)
    allow(cluster, namespace)
    offer_volume(cluster, namespace, tmp_path / "disk")
    shell = make_shell(tmp_path / "project", tenant, namespace)
    shell.deployer("backend", "up", "--on", "kubernetes")
    check_another_user(shell)
    cluster.create(build_agents_pod(namespace), namespace)
    cluster.wait_for("pod/agents", "jsonpath=.status.phase=Running", namespace)
    kube = open_client(tenant, namespace)
    said, pods = follow_log(kube, "agents"), []
    for part, grace_seconds in ((0.1, 0), (0.5, None)):
        next(line for line in said if int(line.text) >= part * LINES)
        pods.append(kube.get(POD, f"{NAME}-0"))
        kube.delete(POD, f"{NAME}-0", grace_seconds=grace_seconds)
    cluster.wait_for("pod/agents", "jsonpath=.status.phase=Succeeded", namespace)
    assert json.loads([line.text for line in said][-1]) == {"acknowledged": LINES, "kept": LINES}
    assert len({pod["metadata"]["uid"] for pod in pods if pod}) == 2


def build_agents_pod(namespace: str) -> dict[str, Any]:
    """Return a pod with agents that log to the namespace's backend."""
    code = (
        f"import asyncio, sys; sys.path.insert(0, {str(Path.cwd())!r})\n"
        f"from {logging_agents.__name__} import main; asyncio.run(main())"
    )
    pod = build_pod("agents", python(code))
    reference = {"secretKeyRef": {"name": KEY_SECRET, "key": KEY_FIELD}}
    pod["spec"]["containers"][0]["env"] += [
        {"name": "WANDB_BASE_URL", "value": f"http://{NAME}.{namespace}.svc:8080"},
        {"name": "WANDB_API_KEY", "valueFrom": reference},
        {"name": "WANDB_ERROR_REPORTING", "value": "false"},
    ]
    return pod


def test_a_tenant_without_the_rights_is_told_all_of_them(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    shell = make_shell(tmp_path / "project", make_tenant(cluster, namespace), "none")
    done = shell.try_deployer("up", "grid.yaml", "--on", "kubernetes")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-2:] == [
        f"error: rights in {namespace}: you may not "
        "list statefulsets.apps, create statefulsets.apps, patch statefulsets.apps, "
        "create services, patch services, get pods/portforward, create pods/portforward: "
        "the embedded backend cannot be created there",
        "hint: ask an administrator: deployer rights backend | kubectl apply "
        f"-n {namespace} --context test -f -; or an administrator runs: "
        "deployer backend up --on kubernetes; or use --wandb ADDRESS",
    ]
    assert cluster.try_kubectl("get", "secret", KEY_SECRET, "-n", namespace).returncode


@pytest.mark.full
def test_an_image_without_python_says_so(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    offer_volume(cluster, namespace, tmp_path / "disk")
    shell = make_shell(tmp_path / "project", cluster.kubeconfig, namespace)
    bare = {**SECTION, "namespace": namespace, "python": "/usr/bin/env"}
    disk = {"storage_class": namespace, "size": "1Gi"}
    shell.write("deployer.yaml", {"kubernetes": bare, "backend": disk})
    done = shell.try_deployer("backend", "up", "--on", "kubernetes")
    assert done.returncode == 1, done.stderr
    assert "does not start" in done.stderr
    assert "an image with Python 3.11 or newer" in done.stderr


@pytest.fixture(autouse=True)
def volume(cluster: Cluster, namespace: str) -> Iterator[None]:
    """Delete the test's volume, which belongs to no namespace."""
    yield
    cluster.kubectl("delete", "pv", namespace, "--ignore-not-found", "--wait=false")
