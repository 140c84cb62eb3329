"""One of two real nodes spoils every run: it is named, and everything finishes on the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from deployer.kube.objects import JOB, build_selector
from deployer.launch.planning import AgentStarter
from deployer.launch.scaling import end_agents
from deployer.watch.reconciliation import Reconciler
from deployer.watch.status import watch_status
from tests.cluster.bed import make_bed, serve_for_pods
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import make_namespace

# Pods of a node have addresses of their own by which the trainer knows where it is.
TRAINER = """
import argparse, socket, sys
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--link", type=int)
arguments = parser.parse_args()
address = socket.gethostbyname(socket.gethostname())
with wandb.init() as run:
    if address.startswith(f"10.88.{arguments.link}."):
        sys.exit(7)
    run.log({"loss": arguments.lr})
"""
WATCH_SECONDS = 400.0


@pytest.mark.full
def test_a_bad_node_is_named_and_left(
    make_cluster: Callable[..., Cluster], tmp_path: Path, told: list[str]
) -> None:
    cluster = make_cluster(2)
    sick, sound = cluster.nodes[1], cluster.nodes[0]
    namespace = make_namespace(cluster, "sick")
    with serve_for_pods(cluster, tmp_path / "data") as server:
        bed = make_bed(cluster, namespace, cluster.kubeconfig, server, tmp_path / "project")
        bed = bed.with_section(grace_period="5s")
        (bed.folder / "train.py").write_text(TRAINER)
        path = bed.create_sweep([float(n) for n in range(12)], link=sick.link.number)
        bed.start(path, 2)
        bed.wait_for(
            lambda: (
                {a.node for a in bed.executor.list_agents(str(path))} == {sick.name, sound.name}
            ),
            "an agent on each node",
        )
        starter = AgentStarter(server, bed.executor, path, bed.folder)
        reconciler = Reconciler(server, bed.executor, path, starter, None)
        list(
            watch_status(
                reconciler.read, time.time, time.sleep, WATCH_SECONDS, reconciler.reconcile
            )
        )

        [named] = [sentence for sentence in told if sentence.startswith(f"node {sick.name} ")]
        assert "runs in a row failed there" in named
        assert "is avoided from now on" in named
        assert bed.results(path).coverage.sentence().startswith("12/12")
        assert {a.node for a in bed.executor.list_agents(str(path))} == {sound.name}
        refusing = [
            job["metadata"]["name"]
            for job in bed.kube.list_objects(JOB, build_selector(str(path)))
            if job["spec"]["template"]["spec"]["affinity"].get("nodeAffinity")
        ]
        assert len(refusing) == 1
        end_agents(bed.executor, str(path))
