"""Any image with Python works, as a tenant's pods: restricted, with a quota."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from deployer.agent.wandb_install import PIN
from deployer.executors.kubernetes.backend.deployment import NAME, PORT
from deployer.kube.objects import BACKEND, build_selector, join_selector
from tests.cluster.cluster import Cluster
from tests.cluster.foreign import serve_wheels, write_foreign_python
from tests.cluster.shell import Shell
from tests.cluster.tenants import load_rules, make_tenant
from tests.cluster.volumes import offer_volume

IMAGE = "registry.example/team/trainer:1"
BARE_IMAGE = "registry.example/team/bare:1"
TRAINER = """
import argparse, importlib.util, sys
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
arguments = parser.parse_args()
with wandb.init() as run:
    run.log({"loss": arguments.lr})
where = [sys.prefix, wandb.__file__.partition("/lib/")[0]]
print("trained in", *where, importlib.util.find_spec("deployer"), flush=True)
"""
SWEEP = {
    "program": "train.py",
    "project": "foreign",
    "method": "grid",
    "metric": {"name": "loss", "goal": "minimize"},
    "parameters": {"lr": {"values": [0.1, 0.2, 0.3]}},
}


@pytest.mark.parametrize(
    "all_of_it",
    [
        pytest.param(False, id="agents-and-backend"),
        pytest.param(True, id="all-of-it", marks=pytest.mark.full),
    ],
)
def test_image_without_deployer(
    cluster: Cluster, namespace: str, tmp_path: Path, all_of_it: bool
) -> None:
    """Agents and, without a W&B account, the backend run in it."""
    write_foreign_python(tmp_path / "opt")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(TRAINER)
    folders = {"/opt": tmp_path / "opt", "/srv/code": tmp_path / "code"}
    cluster.add_image(IMAGE, folders=folders)
    tenant = make_tenant(cluster, namespace, rules=[*load_rules(), *load_rules("backend")])
    offer_volume(cluster, namespace, tmp_path / "disk")
    (tmp_path / "project").mkdir()
    shell = Shell(tmp_path / "project", {"KUBECONFIG": str(tenant)}, forked=True)
    shell.write("train.py", TRAINER)
    shell.write("sweep.yaml", SWEEP)
    section = {"image": IMAGE, "gpu": 0, "cpu": "500m", "memory": "512Mi"}
    backend = {"storage_class": namespace, "size": "1Gi", "cpu": "300m", "memory": "768Mi"}
    settings = {"on": "kubernetes", "kubernetes": section, "backend": backend}
    shell.write("deployer.yaml", settings)
    kinds = "jobs,pods,cm,secrets,services,networkpolicies"
    listed = ("get", kinds, "-n", namespace, "-l", build_selector())

    # One is in every namespace. What is refused halfway goes on once there is room.
    cluster.kubectl(*f"create quota few --hard=count/configmaps=3 -n {namespace}".split())
    full = shell.try_deployer("up", "sweep.yaml", "--plain")
    assert (full.returncode, "exceeded quota: few" in full.stderr) == (1, True), full.stderr
    cluster.kubectl("delete", "quota", "few", "-n", namespace)

    up = shell.deployer("up", "sweep.yaml", "--replicas", "2", "--plain")
    assert "3/3 configurations finished, 0 duplicates, 0 lost" in up.stdout
    said = shell.deployer("agents", "logs").stdout
    assert said.count("trained in /opt /opt None") == 3, said
    pods = json.loads(cluster.kubectl("get", "pods", *listed[2:], "-o", "json"))["items"]
    assert {pod["status"]["containerStatuses"][0]["image"] for pod in pods} == {IMAGE}
    assert [pod["metadata"]["name"] for pod in pods if is_ready(pod)] == [f"{NAME}-0"]
    shell.deployer("down")

    # With the image's own code, there is no script to check.
    of_image = {**section, "code": "image", "working_dir": "/srv/code"}
    shell.write("deployer.yaml", {**settings, "kubernetes": of_image})
    shell.write("own.yaml", {**SWEEP, "parameters": {"lr": {"values": [0.7]}}})
    up = shell.deployer("up", "own.yaml", "--plain")
    assert "own.yaml: the script was not checked: the code is in the image" in up.stderr
    assert "1/1 configurations finished, 0 duplicates, 0 lost" in up.stdout
    check_policy(cluster, namespace)
    if all_of_it:
        check_bayes_is_refused(shell)
        check_bare_image(shell, cluster, settings, tmp_path)
        check_another_version(shell, cluster, namespace)
    shell.deployer("down", "--all", "--delete-data", "-y")
    assert cluster.kubectl(*listed) == ""
    cluster.kubectl("delete", "pv", namespace, "--ignore-not-found", "--wait=false")


def check_bare_image(
    shell: Shell, cluster: Cluster, settings: Mapping[str, Any], folder: Path
) -> None:
    """Two agents of a pod whose image has no wandb install it, once, and train."""
    write_foreign_python(folder / "bare", wandb=False)
    cluster.add_image(BARE_IMAGE, folders={"/opt": folder / "bare"})
    shell.write("bare.yaml", {**SWEEP, "parameters": {"lr": {"values": [0.4, 0.5, 0.6]}}})
    with serve_wheels(cluster.host, folder / "index", PIN) as index:
        env = {"PIP_INDEX_URL": index, "PIP_TRUSTED_HOST": cluster.host}
        section = {**settings["kubernetes"], "image": BARE_IMAGE, "memory": "1Gi", "env": env}
        section |= {"install_wandb": True, "agents_per_pod": 2}
        shell.write("deployer.yaml", {**settings, "kubernetes": section})
        up = shell.deployer("up", "bare.yaml", "--replicas", "2", "--plain")
        assert "3/3 configurations finished, 0 duplicates, 0 lost" in up.stdout
        said = shell.deployer("agents", "logs").stdout
        assert f"installing {PIN}" in said
        installed = "trained in /opt /deployer/work/wandb-packages/wandb/__init__.py None"
        assert said.count(installed) == 3, said
    shell.deployer("down")
    shell.write("deployer.yaml", settings)


def check_bayes_is_refused(shell: Shell) -> None:
    """The image has no scikit-learn: the backend says so before any agent is made."""
    space = {"lr": {"min": 0.1, "max": 0.3}}
    shell.write("bayes.yaml", {**SWEEP, "method": "bayes", "run_cap": 3, "parameters": space})
    refused = shell.try_deployer("up", "bayes.yaml", "--plain")
    assert refused.returncode == 1
    said = "method bayes needs scikit-learn: add `RUN pip install scikit-learn` to its image's"
    assert said in refused.stderr, refused.stderr


def check_policy(cluster: Cluster, namespace: str) -> None:
    """Agents' pods are let in to the backend's pod, on the port where it listens."""
    found = cluster.kubectl("get", "networkpolicy", NAME, "-n", namespace, "-o", "json")
    policy = json.loads(found)["spec"]
    [rule] = policy["ingress"]
    [source] = rule["from"]
    look = ("get", "pods", "-n", namespace, "-o", "name", "-l")
    let_in = cluster.kubectl(*look, join_selector(source["podSelector"]["matchLabels"])).split()
    agents = cluster.kubectl(*look, build_selector(component="agent")).split()
    assert agents
    assert set(agents) <= set(let_in)
    guarded = cluster.kubectl(*look, join_selector(policy["podSelector"]["matchLabels"])).split()
    assert guarded == [f"pod/{NAME}-0"]
    assert [one["port"] for one in rule["ports"]] == [PORT]


def check_another_version(shell: Shell, cluster: Cluster, namespace: str) -> None:
    """`backend up` deletes the program of an older version, and what is nobody's stays."""
    look = ("get", "configmaps", "-n", namespace, "-l", build_selector(component=BACKEND), "-o")
    one, *_ = json.loads(cluster.kubectl(*look, "json"))["items"]
    labels = {name: text for name, text in one["metadata"]["labels"].items() if "owner" not in name}
    for name, kept in ((f"{NAME}-older-0", {}), (f"{NAME}-others-0", {"labels": labels})):
        annotations = one["metadata"]["annotations"]
        common = {"name": name, "labels": one["metadata"]["labels"], "annotations": annotations}
        cluster.create({**one, "metadata": {**common, **kept}}, namespace)
    shell.deployer("backend", "up")
    names = cluster.kubectl(*look, "name").split()
    versions = {name.rpartition("-")[0] for name in names}
    assert f"configmap/{NAME}-others" in versions
    assert f"configmap/{NAME}-older" not in versions
    assert len(versions) == 2
    cluster.kubectl("delete", "configmap", f"{NAME}-others-0", "-n", namespace)


def is_ready(pod: Mapping[str, Any]) -> bool:
    return any(one.get("ready") for one in pod["status"]["containerStatuses"])
