"""A script that knows no W&B, swept in pods by the commands that start agents separately."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.bed import SECTION, serve_for_pods
from tests.cluster.cluster import Cluster
from tests.cluster.shell import open_shell
from tests.cluster.tenants import make_tenant
from tests.real_data import ROOT

EXAMPLE = ROOT / "examples" / "no-wandb"


def test_what_a_script_prints_in_pods_is_ranked(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    tenant = make_tenant(cluster, namespace)
    with serve_for_pods(cluster, tmp_path / "backend") as server:
        shell = open_shell(tmp_path / "project", tenant, server)
        for name in ("train.py", "sweep.yaml"):
            shell.write(name, (EXAMPLE / name).read_text())
        section = {**SECTION, "namespace": namespace}
        metrics = {"from": "stdout", "step": "epoch"}
        settings = {"on": "kubernetes", "replicas": 2, "kubernetes": section, "metrics": metrics}
        shell.write("deployer.yaml", settings)
        shell.deployer("sweep", "create", "sweep.yaml")
        shell.deployer("agents", "up")
        shell.deployer("watch")
        found = json.loads(shell.deployer("results", "-o", "json").stdout)
        shell.deployer("down")
    rows = {row["parameters"]["lr"]: (row["state"], row["value"]) for row in found["runs"]}
    assert rows == {lr: ("finished", round((1 - lr) ** 10, 4)) for lr in (0.1, 0.3, 0.5)}
