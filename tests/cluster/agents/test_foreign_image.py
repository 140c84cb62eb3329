"""Any image with Python and wandb works, as a tenant's pods: restricted, with a quota."""

from __future__ import annotations

import json
from pathlib import Path

from deployer.kube.names import build_selector
from tests.cluster.bed import serve_for_pods
from tests.cluster.cluster import Cluster
from tests.cluster.foreign import write_foreign_python
from tests.cluster.shell import open_shell
from tests.cluster.tenants import make_tenant

IMAGE = "registry.example/team/trainer:1"
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


def test_image_without_deployer(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    write_foreign_python(tmp_path / "opt")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(TRAINER)
    folders = {"/opt": tmp_path / "opt", "/srv/code": tmp_path / "code"}
    cluster.add_image(IMAGE, folders=folders)
    tenant = make_tenant(cluster, namespace)
    with serve_for_pods(cluster, tmp_path / "backend") as server:
        shell = open_shell(tmp_path / "project", tenant, server)
        shell.write("train.py", TRAINER)
        shell.write("sweep.yaml", SWEEP)
        section = {"image": IMAGE, "gpu": 0, "cpu": "500m", "memory": "512Mi"}
        shell.write("deployer.yaml", {"on": "kubernetes", "kubernetes": section})

        up = shell.deployer("up", "sweep.yaml", "--replicas", "2", "--plain")
        assert "3/3 configurations finished, 0 duplicates, 0 lost" in up.stdout
        said = shell.deployer("agents", "logs").stdout
        assert said.count("trained in /opt /opt None") == 3, said
        listed = ("get", "jobs,pods,cm,secrets", "-n", namespace, "-l", build_selector())
        pods = json.loads(cluster.kubectl("get", "pods", *listed[2:], "-o", "json"))["items"]
        assert {pod["status"]["containerStatuses"][0]["image"] for pod in pods} == {IMAGE}
        shell.deployer("down")
        assert cluster.kubectl(*listed) == ""

        # With the image's own code, its pod sees before any run that the script refuses the sweep.
        of_image = {**section, "code": "image", "working_dir": "/srv/code"}
        shell.write("deployer.yaml", {"on": "kubernetes", "kubernetes": of_image})
        shell.write("wrong.yaml", {**SWEEP, "parameters": {"lr": {"values": ["high"]}}})
        refused = shell.try_deployer("up", "wrong.yaml", "--plain")
        assert refused.returncode == 3, refused.stderr
        assert "ended with exit code 65 and is not started again: wrong.yaml:" in refused.stderr
        assert "train.py:6: --lr takes float, not 'high' (write numbers" in refused.stderr
        assert "0/1 configurations finished, 0 duplicates, 0 lost" in refused.stdout
        assert "wrong.yaml:" in shell.deployer("agents", "list").stdout
