"""From nothing to a finished sweep on GKE and back to nothing, with one command each.

The cloud is the tests' own, to which Google's unmodified clients talk; the cluster that it hands
out is the real one, where real agents run in real pods.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deployer.wandb_api.server import Server
from tests.cluster.bed import SECTION, TRAINER, serve_for_pods
from tests.cluster.cluster import Cluster
from tests.cluster.shell import Shell, open_shell
from tests.cluster.volumes import offer_volume
from tests.gke.cloud import Cloud

pytestmark = pytest.mark.usefixtures("real_gpus")
PROJECT = Path(__file__).parents[3]
SPECIFICATION = {
    "name": "sweeps",
    "locations": ["us-central1-a", "us-central1-b"],
    "gpus": [
        {"accelerator": "nvidia-tesla-t4", "machine_type": "n1-standard-8", "max_nodes": 2},
        {"accelerator": "nvidia-l4", "machine_type": "g2-standard-8", "max_nodes": 2},
    ],
}
SWEEP = {
    "program": "train.py",
    "method": "grid",
    "metric": {"name": "loss", "goal": "minimize"},
    "parameters": {"lr": {"values": [0.1, 0.2, 0.3]}},
}


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Return a cluster of our own: `down` ends all that is in it."""
    return make_cluster()


@pytest.fixture
def shell(
    cluster: Cluster, namespace: str, cloud: Cloud, tmp_path: Path
) -> Iterator[tuple[Shell, Server]]:
    """Open a shell in a project for GKE, with an empty home and no kubeconfig."""
    home = tmp_path / "empty"
    home.mkdir()
    with serve_for_pods(cluster, tmp_path / "data") as server:
        made = open_shell(tmp_path / "project", home / "none", server)
        environment = {
            **made.environment,
            **cloud.environment(),
            "HOME": str(home),
            "DEPLOYER_HOME": str(home / "deployer"),
            "KUBECONFIG": "",
        }
        made = replace(made, environment=environment)
        made.write("train.py", TRAINER)
        made.write("sweep.yaml", SWEEP)
        made.write("gke.yaml", SPECIFICATION)
        section = {**SECTION, "namespace": namespace, "gpu": 1}
        made.write("deployer.yaml", {"gke": "gke.yaml", "kubernetes": section})
        yield made, server


def read_recipe() -> list[str]:
    """Return the commands of docs/gke.md in their order."""
    [block] = re.findall(r"```sh\n(.*?)```", (PROJECT / "docs/gke.md").read_text(), re.DOTALL)
    return [line.partition("#")[0].strip() for line in block.splitlines()]


@pytest.mark.full
def test_the_recipe_leads_from_nothing_to_results_and_back(
    cluster: Cluster, cloud: Cloud, shell: tuple[Shell, Server]
) -> None:
    user, server = shell
    cluster.set_gpus("node-0", 2)
    plan, up, clusters, drivers, down, orphans = read_recipe()
    assert "CreateCluster" in user.type(plan).stdout
    assert cloud.calls == ()

    ran = user.type(up)
    assert "3/3 configurations finished, 0 duplicates, 0 lost" in ran.stdout
    assert "an hour with 2 GPU nodes in us-central1" in ran.stderr
    assert "for 6 h" in ran.stderr
    assert "ends automatically: agents after 6 h 00 min, GPU nodes after 6 h 30 min" in ran.stderr
    assert "deployer-expires" in cloud.get_cluster("sweeps").resource_labels
    assert cloud.inventory().clusters == ("us-central1-a/sweeps",)
    agents = json.loads(user.deployer("agents", "list", "-o", "json").stdout)
    assert [(a["state"], a["exit_code"]) for a in agents] == [("ended", 0)] * 2
    listed = user.type(clusters).stdout
    assert re.search(r"^ ?sweeps +us-central1-a +RUNNING .* gpu-1 RUNNING ", listed, re.MULTILINE)
    assert re.search(r"node-0 +Tesla-T4 .* 2 +0 ", user.type(drivers).stdout)

    changes = cloud.changes
    cloud.add_disk("data", cluster="sweeps")
    cloud.add_forwarding_rule("web", cluster="sweeps")
    again = user.try_deployer(
        *("up", "sweep.yaml", "--new", "--on", "gke", "--plain", "--down-after")
    )
    assert "3/3 configurations finished" in again.stdout
    assert again.returncode == 1
    assert "1 disk with data: disk data in us-central1-a; it stays" in again.stderr
    again = user.deployer("down", "--cluster", "-y")
    made = [name for name in cloud.changes[len(changes) :] if name.startswith("Create")]
    assert made == [], "the cluster was there"
    assert cloud.inventory().empty, again.stderr
    assert "no leftovers of sweeps" in again.stderr

    ended = user.type(down)
    assert user.type(orphans).stdout == "no leftovers\n"
    said = "".join(one.stdout + one.stderr for one in (ran, again, ended))
    assert cloud.token not in said
    assert server.client.key not in said
    gone = user.try_deployer("agents", "list")
    assert "cluster sweeps not found in project" in gone.stderr


@pytest.mark.full
def test_a_sold_out_pool_is_followed_by_the_next_and_no_agent_is_forgotten(
    cluster: Cluster, namespace: str, cloud: Cloud, shell: tuple[Shell, Server]
) -> None:
    user, _ = shell
    cluster.set_gpus("node-0", 0)
    user.deployer("up", "sweep.yaml", "--on", "gke", "--detach")
    [pod] = json.loads(cluster.kubectl("get", "pods", "-n", namespace, "-o", "json"))["items"]
    cluster.create(build_refusal(pod), namespace)
    user.try_deployer("watch", "--plain", "--timeout", "20s")
    assert [pool.name for pool in cloud.get_cluster("sweeps").node_pools][-2:] == ["gpu-1", "gpu-2"]

    again = user.deployer("up", "sweep.yaml", "--new", "--on", "gke", "--detach").stderr
    older = r"1 agent of \S+, another sweep of sweep.yaml, still runs, \$[0-9.]+ an hour with "
    assert re.search(older + r"their cluster: deployer down \S+\n", again), again
    refused = user.try_deployer("down", "--cluster")
    assert refused.returncode == 2
    assert "work in the cluster" in refused.stderr
    assert "hint: deployer down --all --cluster" in refused.stderr
    user.deployer("down", "--all", "--cluster")
    assert cloud.inventory().empty


@pytest.mark.full
def test_without_a_server_results_are_in_the_cluster_until_they_are_copied(
    cluster: Cluster, namespace: str, cloud: Cloud, shell: tuple[Shell, Server], tmp_path: Path
) -> None:
    user = shell[0]
    mine = {k: v for k, v in user.environment.items() if not k.startswith("WANDB_")}
    user = replace(user, environment=mine)
    offer_volume(cluster, namespace, tmp_path / "disk")
    section = {**SECTION, "namespace": namespace, "gpu": 0}
    backend = {"storage_class": namespace, "size": "1Gi", "env": SECTION["env"], "cpu": "300m"}
    settings = {"gke": "gke.yaml", "kubernetes": section, "backend": backend}
    user.write("deployer.yaml", settings)
    user.deployer("up", "sweep.yaml", "--on", "gke", "--plain")
    refused = user.try_deployer("gke", "down", "--yes")
    assert "holds the results of its embedded backend" in refused.stderr
    ran = user.deployer("up", "sweep.yaml", "--new", "--on", "gke", "--plain", "--down-after")
    assert "3/3 configurations finished" in ran.stdout
    copied, _, rest = ran.stderr.partition("checksums and counts agree\n")
    assert re.search(r"results are copied to .*: \d sweeps?, \d runs, ", copied)
    assert "no leftovers of sweeps" in rest
    assert cloud.inventory().empty
    assert "3/3 configurations finished" in user.deployer("results").stdout
    user.deployer("down", "--all", "--on", "local")
    cluster.kubectl("delete", "pv", namespace, "--wait=false")


def build_refusal(pod: dict[str, object]) -> dict[str, object]:
    """Return the event by which GKE's autoscaler says that no node is to be had."""
    metadata = pod["metadata"]
    assert isinstance(metadata, dict)
    about = {"kind": "Pod", "name": metadata["name"], "namespace": metadata["namespace"]}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "refusal-", "namespace": metadata["namespace"]},
        "involvedObject": {**about, "uid": metadata["uid"]},
        "type": "Warning",
        "reason": "FailedScaleUp",
        "message": "Node scale up in zones us-central1-a associated with this pod failed: "
        "GCE out of resources. Pod is at risk of not being scheduled.",
        "source": {"component": "cluster-autoscaler"},
        "lastTimestamp": metadata["creationTimestamp"],
    }
