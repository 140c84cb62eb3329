"""Recipe 000 on the cluster: one Job for each set, on a commit that pods get without git."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.cluster.bed import SECTION, serve_for_pods
from tests.cluster.cluster import Cluster
from tests.cluster.shell import enter_shell
from tests.cluster.tenants import make_tenant
from tests.git import commit_all
from tests.real_data import DATA
from tests.recipes.idx import write_mnist_part
from tests.recipes.readme import copy_recipe

SETS = [{"hyperparam_set": {"batch_size": size}} for size in (64, 512)]


@pytest.mark.full
def test_a_job_for_each_set(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    recipe = copy_recipe("000-mnist-grid", tmp_path)
    write_mnist_part(DATA / "mnist", recipe.folder / "images")
    main = recipe.folder / "main.py"
    main.write_text(main.read_text().replace('"data")', '"images")'))
    (recipe.folder / "hyperparams.yml").write_text(yaml.safe_dump(SETS))
    section = {**SECTION, "memory": "1500Mi", "cpu": "300m"}
    recipe.write_yaml("deployer.yaml", {"code": "git", "on": "kubernetes", "kubernetes": section})
    tenant = make_tenant(cluster, namespace)
    with serve_for_pods(cluster, tmp_path / "backend") as server:
        shell = enter_shell(recipe.folder, tenant, server)
        words = ("--metric", "test_accuracy", "--goal", "maximize", "--to", "sweep.yaml")
        shell.deployer("sweep", "import", "hyperparams.yml", *words, "--force")
        commit = commit_all(recipe.folder)
        up = shell.deployer("up", "sweep.yaml", "--one-run-per-job", "--plain")
        assert "2/2 configurations finished, 0 duplicates, 0 lost" in up.stdout
        assert f"at {commit}" in up.stderr
        jobs = json.loads(cluster.kubectl("get", "jobs", "-n", namespace, "-o", "json"))["items"]
        assert [job["status"]["succeeded"] for job in jobs] == [1, 1]
        said = shell.deployer("agents", "logs").stdout
        found = dict(re.findall(r"job (\d): {'batch_size': (\d+)}", said))
        assert found == {"1": "64", "2": "512"}
        best = json.loads(shell.deployer("results", "-o", "json").stdout)["best"]
        assert best["value"] > 0.5
        shell.deployer("down", "--all")
