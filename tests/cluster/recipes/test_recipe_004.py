"""Recipe 004 on the cluster: its README's commands, with an object store, a registry, real pods."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from deployer.kube.objects import CLAIM, CONFIG_MAP, JOB, POD, build_selector
from tests.cluster.bed import SECTION, open_client, serve_for_pods, wait_for
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane.image import build_image
from tests.cluster.control_plane.packages import find_runtime
from tests.cluster.shell import enter_shell
from tests.cluster.site_registry import PULL_SECRET, make_pull_secret, trust_registry
from tests.cluster.volumes import offer_volume
from tests.data.object_servers import serve_nanio
from tests.images.registry import serve_registry
from tests.real_data import DATA
from tests.recipes.readme import Recipe, copy_recipe

SITE = "registry.site:5000"
KINDS = {3: "Cat", 5: "Dog"}  # CIFAR-10's labels


def write_pictures(target: Path) -> None:
    """Pack real cats and dogs as the article's archive has them, two damaged files included."""
    labels = np.fromfile(DATA / "cifar10_webp/labels.u8", np.uint8)
    pixels = np.asarray(Image.open(DATA / "cifar10_webp/train_00.webp").convert("RGB"))
    tiles = pixels.reshape(25, 32, 40, 32, 3).transpose(0, 2, 1, 3, 4).reshape(-1, 32, 32, 3)
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("readme[1].txt", "Cats and dogs")
        archive.writestr("PetImages/Cat/666.jpg", b"")
        archive.writestr("PetImages/Dog/11702.jpg", b"no picture")
        for number, picture in enumerate(tiles):
            if kind := KINDS.get(int(labels[number])):
                packed = io.BytesIO()
                Image.fromarray(picture).save(packed, "JPEG")
                archive.writestr(f"PetImages/{kind}/{20_000 + number}.jpg", packed.getvalue())


def shrink(recipe: Recipe, namespace: str, registry: str, store: str) -> None:
    """Make the recipe fit into the test cluster: its addresses, no GPU, one epoch."""
    config: dict[str, Any] = recipe.read_yaml("deployer.yaml")
    config["data"] |= {"endpoint_url": store, "storage_class": namespace}
    image = config["kubernetes"]["image"].replace(SITE, registry)
    small = {**SECTION, "image": image, "memory": "1200Mi", "cpu": "400m", "namespace": namespace}
    config["kubernetes"] |= {**small, "image_pull_secrets": [PULL_SECRET]}
    recipe.write_yaml("deployer.yaml", config)
    sweep = recipe.read_yaml("sweep.yaml")
    sweep["parameters"]["epochs"] = {"value": 2}
    recipe.write_yaml("sweep.yaml", sweep)
    readme = recipe.folder / "README.md"
    readme.write_text(readme.read_text().replace(SITE, registry))


@pytest.mark.data
@pytest.mark.full
def test_what_is_carried_to_a_site(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    recipe = copy_recipe("004-kubejob", tmp_path)
    write_pictures(tmp_path / "pictures.zip")
    tag = f"{SITE}/team/classification:1"
    build_image(tmp_path / "image.tar", find_runtime() / "bin/busybox", [tag])
    offer_volume(cluster, namespace, tmp_path / "volume")
    with (
        serve_registry(tmp_path / "registry", cluster.host) as site,
        serve_nanio(tmp_path / "s3") as store,
        serve_for_pods(cluster, tmp_path / "backend") as server,
    ):
        trust_registry(cluster, site)
        make_pull_secret(cluster, namespace, site)
        shrink(recipe, namespace, site.address, store.url)
        (tmp_path / "s3/training").mkdir()
        shell = enter_shell(recipe.folder, cluster.kubeconfig, server)
        keys = {**store.environment, "AWS_ENDPOINT_URL": store.url, **site.environment}
        said = recipe.run_blocks(**shell.environment, **keys)
        best = json.loads(shell.deployer("results", "-o", "json").stdout)["best"]
        pulled = [line for line in site.read_log().splitlines() if "containerd" in line]
    assert "2/2 configurations finished, 0 duplicates, 0 lost" in said
    assert pulled, "the pods' image did not come from the registry"
    [numbers] = (recipe.folder / "model").rglob("classification.json")
    assert json.loads(numbers.read_text())["accuracy"] == pytest.approx(best["value"])
    stored = sorted(
        path.name for path in (tmp_path / "s3/training/classification").rglob("*") if path.is_file()
    )
    assert stored == [*["classification.json"] * 2, *["classification.pth"] * 2]
    kube = open_client(cluster.kubeconfig, namespace)
    for kind in (JOB, POD, CONFIG_MAP, CLAIM):
        wait_for(lambda kind=kind: not kube.list_objects(kind, build_selector()), kind.kind)
