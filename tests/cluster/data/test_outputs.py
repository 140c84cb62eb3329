"""What runs write in pods comes back after the pods are gone: from artifacts, and from a volume."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployer.kube.objects import POD, build_selector
from tests.cluster.bed import SECTION, open_client, serve_for_pods
from tests.cluster.cluster import Cluster
from tests.cluster.shell import Shell, open_shell
from tests.cluster.tenants import load_rules, make_tenant
from tests.cluster.volumes import make_volume

TRAINER = """
import argparse, os, pathlib
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
arguments = parser.parse_args()
folder = pathlib.Path(os.environ["DEPLOYER_OUTPUT_DIR"])
with wandb.init() as run:
    run.log({"loss": arguments.lr})
    (folder / "deep").mkdir()
    (folder / "deep" / "best.pt").write_text(f"weights of {arguments.lr}")
"""
SWEEP = {
    "program": "train.py",
    "method": "grid",
    "metric": {"name": "loss", "goal": "minimize"},
    "parameters": {"lr": {"values": [0.2, 0.1]}},
}


def get_models(shell: Shell, kubeconfig: Path, namespace: str) -> list[str]:
    """Run the sweep to its end, remove its agents, and return what comes back of the best run."""
    shell.write("train.py", TRAINER)
    shell.write("grid.yaml", SWEEP)
    shell.deployer("up", "grid.yaml", "--replicas", "1", "--plain")
    shell.deployer("down")
    kube = open_client(kubeconfig, namespace)
    assert kube.list_objects(POD, build_selector()) == []
    shell.deployer("results", "get", "--best", "--to", "models")
    assert kube.list_objects(POD, build_selector()) == []
    return [path.read_text() for path in (shell.folder / "models").glob("*/deep/best.pt")]


@pytest.mark.full
def test_without_a_volume_they_are_artifacts(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    kubeconfig = make_tenant(cluster, namespace)
    with serve_for_pods(cluster, tmp_path / "backend") as server:
        shell = open_shell(tmp_path / "project", kubeconfig, server, forked=True)
        shell.write("deployer.yaml", {"on": "kubernetes", "kubernetes": SECTION})
        assert get_models(shell, kubeconfig, namespace) == ["weights of 0.1"]


def test_on_a_volume_they_stay_and_a_loader_reads_them(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    kubeconfig = make_tenant(cluster, namespace, rules=[*load_rules(), *load_rules("data")])
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    folder.chmod(0o777)
    for parent in list(folder.parents)[:-2]:
        parent.chmod(0o755)
    make_volume(cluster, namespace, "checkpoints", folder)
    section = {**SECTION, "volumes": [{"name": "checkpoints", "pvc": "checkpoints"}]}
    with serve_for_pods(cluster, tmp_path / "backend") as server:
        shell = open_shell(tmp_path / "project", kubeconfig, server, forked=True)
        shell.write("deployer.yaml", {"on": "kubernetes", "kubernetes": section})
        assert get_models(shell, kubeconfig, namespace) == ["weights of 0.1"]
