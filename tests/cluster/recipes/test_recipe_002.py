"""Recipe 002, its README's commands from nothing to a torn down cluster.

The cloud is the tests' own and the cluster that it hands out a real one, as in test_gke.py. Its
node has an image already. Pods get a trainer with the flags of the recipe's but without PyTorch,
which takes minutes to load in four pods on two cores; tests/recipes runs the recipe's own. The
server has what W&B's own has, and no more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.bed import SECTION, serve_for_pods
from tests.cluster.cluster import Cluster
from tests.cluster.shell import enter_shell
from tests.gke.cloud import Cloud
from tests.recipes.readme import copy_recipe

AGENTS = 4
RUNS = 4
TRAINER = """
import argparse
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--learning_rate", type=float, required=True)
parser.add_argument("--optimizer", choices=["adam", "sgd"], required=True)
args = parser.parse_args()
with wandb.init() as run:
    run.log({"val_loss": (args.learning_rate - 0.03) ** 2 + (args.optimizer == "sgd")})
"""


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Return a cluster of our own: `down` ends all that is in it."""
    return make_cluster()


def test_from_nothing_to_results_and_back(
    cluster: Cluster, cloud: Cloud, namespace: str, tmp_path: Path
) -> None:
    recipe = copy_recipe("002-wandb-gke", tmp_path)
    cluster.set_gpus("node-0", AGENTS)
    section = {**SECTION, "namespace": namespace, "gpu": 1}
    (recipe.folder / "train" / "trainer.py").write_text(TRAINER)
    settings = recipe.read_yaml("deployer.yaml")
    del settings["image"]
    recipe.write_yaml("deployer.yaml", {**settings, "kubernetes": section})
    sweep = recipe.read_yaml("sweep.yaml")
    recipe.write_yaml("sweep.yaml", {**sweep, "run_cap": RUNS})
    [block] = recipe.blocks
    plan, up, results, down = (
        line.partition("#")[0].strip() for line in block.commands.splitlines()
    )
    with serve_for_pods(cluster, tmp_path / "backend", "plain") as server:
        shell = enter_shell(recipe.folder, tmp_path / "none", server)
        ours = {"KUBECONFIG": str(tmp_path / "kubeconfig")}
        shell = replace(shell, environment={**shell.environment, **cloud.environment(), **ours})
        assert "CreateCluster" in shell.type(plan).stdout
        assert cloud.calls == ()

        ran = shell.type(up)
        assert f"{RUNS}/{RUNS} configurations finished, 0 duplicates, 0 lost" in ran.stdout
        assert cloud.inventory().clusters == ("us-central1-c/pytorch-training-cluster",)
        secrets = cluster.kubectl("get", "secrets", "-n", namespace, "-o", "name").split()
        assert "secret/wandb-secret" in secrets
        jobs = json.loads(cluster.kubectl("get", "jobs", "-n", namespace, "-o", "json"))["items"]
        assert len(jobs) == AGENTS
        assert len(re.findall("\N{BLACK CIRCLE}", shell.type(results).stdout)) == RUNS
        best = json.loads(shell.deployer("results", "-o", "json").stdout)["best"]
        assert best["parameters"]["optimizer"] in ("adam", "sgd")

        said = ran.stdout + ran.stderr + shell.type(down).stderr
        assert cloud.inventory().empty
        assert server.client.key not in said
