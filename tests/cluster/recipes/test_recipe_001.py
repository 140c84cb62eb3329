"""Recipe 001's small sweep on the cluster: images on one volume, models and metrics on another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.bed import SECTION, serve_for_pods
from tests.cluster.cluster import Cluster
from tests.cluster.shell import enter_shell
from tests.cluster.tenants import make_tenant
from tests.cluster.volumes import make_volume
from tests.real_data import DATA
from tests.recipes.readme import copy_recipe
from tests.trainer.cifar10_files import write_binary


@pytest.mark.data
@pytest.mark.full
def test_runs_read_one_folder_and_leave_their_models_on_another(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    recipe = copy_recipe("001-cifar10", tmp_path)
    folders = {name: tmp_path / name for name in ("images", "results")}
    write_binary(DATA / "cifar10_webp", folders["images"])
    folders["results"].mkdir()
    folders["results"].chmod(0o777)
    for name, folder in folders.items():
        make_volume(cluster, namespace, name, folder)
    # What the recipe has from an NFS server, of which there is none here, comes from claims.
    settings = recipe.read_yaml("deployer.yaml")
    settings["data"] |= {"claim": "images"}
    del settings["data"]["nfs"]
    [results] = settings["kubernetes"]["volumes"]
    volumes = [{"name": results["name"], "pvc": "results"}]
    section = {**SECTION, "memory": "1500Mi", "code": "image", "volumes": volumes}
    recipe.write_yaml("deployer.yaml", {**settings, "on": "kubernetes", "kubernetes": section})
    sweep = recipe.read_yaml("sweep.small.yaml")
    sweep["parameters"] |= {"epochs": {"value": 1}, "data_aug_cutout_size": {"value": 5}}
    recipe.write_yaml("sweep.small.yaml", sweep)
    with serve_for_pods(cluster, tmp_path / "backend") as server:
        shell = enter_shell(recipe.folder, make_tenant(cluster, namespace), server)
        ran = shell.deployer("up", "sweep.small.yaml", "--replicas", "1", "--plain")
        assert "2/2 configurations finished, 0 duplicates, 0 lost" in ran.stdout
        runs = json.loads(shell.deployer("results", "-o", "json").stdout)["runs"]
        shell.deployer("down")
    for run in runs:
        [metrics] = folders["results"].rglob(f"outputs/*/{run['run_id']}/metrics.json")
        assert json.loads(metrics.read_text())["last"]["val_accuracy"] == run["value"]
        assert (metrics.parent / "best.pt").stat().st_size > 100_000
