"""Recipe 002 without a W&B account, its README's commands from nothing to a torn down cluster.

The cloud is the tests' own and the cluster that it hands out a real one, as in test_gke.py. Its
node has an image already, with wandb and without deployer. Agents get a trainer with the flags of
the recipe's but without PyTorch, which takes minutes to load in four pods on two cores;
tests/recipes runs the recipe's own. For the recipe's `method: bayes` the image has scikit-learn,
too, which the backend's pod loads; a smaller sweep goes without.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.foreign import write_foreign_python
from tests.cluster.shell import Shell
from tests.cluster.volumes import offer_volume
from tests.gke.cloud import Cloud
from tests.recipes.readme import copy_recipe

IMAGE = "registry.example/team/trainer:1"
TRAINER = """
import argparse
import importlib.util
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--learning_rate", type=float, required=True)
parser.add_argument("--optimizer", choices=["adam", "sgd"], required=True)
args = parser.parse_args()
with wandb.init() as run:
    run.log({"val_loss": (args.learning_rate - 0.03) ** 2 + (args.optimizer == "sgd")})
print("deployer is", importlib.util.find_spec("deployer"))
"""


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Return a cluster of our own: `down` ends all that is in it."""
    return make_cluster()


@pytest.mark.slow(seconds=50)
@pytest.mark.limit(600)
@pytest.mark.parametrize(
    ("method", "runs", "agents", "packages"),
    [
        pytest.param("random", 4, 2, (), id="small"),
        pytest.param("bayes", 16, 4, ("scikit-learn",), id="whole", marks=pytest.mark.full),
    ],
)
def test_from_nothing_to_results_and_back(
    cluster: Cluster,
    cloud: Cloud,
    namespace: str,
    tmp_path: Path,
    method: str,
    runs: int,
    agents: int,
    packages: tuple[str, ...],
) -> None:
    recipe = copy_recipe("002-wandb-gke", tmp_path)
    sweep = recipe.read_yaml("sweep.yaml")
    recipe.write_yaml("sweep.yaml", {**sweep, "method": method, "run_cap": runs})
    write_foreign_python(tmp_path / "opt", *packages)
    cluster.add_image(IMAGE, folders={"/opt": tmp_path / "opt"})
    cluster.set_gpus("node-0", agents)
    offer_volume(cluster, namespace, tmp_path / "disk")
    (recipe.folder / "train" / "trainer.py").write_text(TRAINER)
    settings = recipe.read_yaml("deployer.yaml")
    del settings["image"]
    small = {"image": IMAGE, "namespace": namespace, "gpu": 1, "cpu": "200m", "memory": "512Mi"}
    backend = {"storage_class": namespace, "size": "1Gi"}
    recipe.write_yaml("deployer.yaml", {**settings, "kubernetes": small, "backend": backend})
    [block] = recipe.blocks
    plan, up, results, down = (
        line.partition("#")[0].strip() for line in block.commands.splitlines()
    )
    kubeconfig = {"KUBECONFIG": str(tmp_path / "kubeconfig")}
    shell = Shell(recipe.folder, {**cloud.environment(), **kubeconfig})
    assert "CreateCluster" in shell.type(plan).stdout
    assert cloud.calls == ()

    assert " --replicas 4 " in up
    ran = shell.type(up.replace("--replicas 4", f"--replicas {agents}"))
    assert f"{runs}/{runs} configurations finished, 0 duplicates, 0 lost" in ran.stdout
    assert cloud.inventory().clusters == ("us-central1-c/pytorch-training-cluster",)
    assert shell.deployer("agents", "logs").stdout.count("deployer is None") == runs
    jobs = json.loads(cluster.kubectl("get", "jobs", "-n", namespace, "-o", "json"))["items"]
    assert len(jobs) == agents
    ranking = shell.type(results).stdout
    assert len(re.findall(r"^ +\d+ +\S+ +finished ", ranking, re.MULTILINE)) == runs
    found = json.loads(shell.deployer("results", "-o", "json").stdout)
    assert found["best"]["value"] == min(run["value"] for run in found["runs"])

    ended = shell.type(down).stderr
    assert re.search(rf"results are copied to .*: 1 sweep, {runs} runs, ", ended)
    assert cloud.inventory().empty
    cluster.kubectl("delete", "pv", namespace, "--ignore-not-found", "--wait=false")
