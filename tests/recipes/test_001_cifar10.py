"""Recipe 001: the small sweep on real images, as its README has it; the plan of the large one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.real_data import DATA, ROOT
from tests.recipes.readme import Recipe
from tests.trainer.cifar10_files import write_binary, write_pickles

SHEETS = DATA / "cifar10_webp"
EPOCHS = 2


@pytest.mark.full
@pytest.mark.data
def test_on_a_cpu(recipe: Callable[[str], Recipe], tmp_path: Path, home: Path) -> None:
    assert SHEETS.is_dir(), f"{SHEETS} is missing: set DEPLOYER_TEST_DATA"
    copy = recipe("001-cifar10")
    write_binary(SHEETS, tmp_path / "images")
    packed = copy.folder.parent / "cifar-10-binary.tar.gz"
    with tarfile.open(packed, "w:gz", compresslevel=1) as archive:
        archive.add(tmp_path / "images" / "cifar-10-batches-bin", "cifar-10-batches-bin")
    sweep = copy.read_yaml("sweep.small.yaml")
    sweep["parameters"]["epochs"]["value"] = EPOCHS  # of 3
    sweep["parameters"]["train_limit"]["value"] = 2500  # of 5000
    sweep["parameters"]["width"]["value"] = 4  # of 8
    sweep["parameters"]["data_aug_cutout_size"]["values"] = [5]  # of two
    copy.write_yaml("sweep.small.yaml", sweep)
    said = copy.run_blocks("On a CPU")
    assert "2/2 configurations finished, 0 duplicates, 0 lost" in said
    # The rankings of `up` and of `results`.
    assert len(re.findall(r"^ +\d+ +\S+ +finished ", said, re.MULTILINE)) == 2 * 2

    ranked = json.loads(copy.run("deployer results -o json 2>/dev/null"))["runs"]
    assert ranked[0]["value"] > 0.25
    write_pickles(SHEETS, tmp_path / "torchvision")
    for run in ranked:
        [folder] = home.rglob(f"outputs/*/{run['run_id']}")
        metrics = json.loads((folder / "metrics.json").read_text())
        assert metrics["last"]["val_accuracy"] == run["value"]
        assert len(metrics["history"]) == EPOCHS
    [model] = copy.folder.rglob("best/**/best.pt")
    metrics = json.loads((model.parent / "metrics.json").read_text())
    assert metrics["last"]["val_accuracy"] == ranked[0]["value"]
    # A rounding of 16 bits may turn one of the 1,000 images.
    logged = pytest.approx(metrics["best"]["val_accuracy"], abs=0.0025)
    assert evaluate(model, tmp_path / "torchvision") == logged


def evaluate(model: Path, folder: Path) -> float:
    """Return the accuracy that the independent script measures."""
    command = [sys.executable, "-m", "tests.recipes.evaluate", str(model), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def test_the_plan_has_the_data_to_read_and_a_folder_for_results(
    recipe: Callable[[str], Recipe],
) -> None:
    copy = recipe("001-cifar10")
    [plan] = [block.commands for block in copy.blocks if block.heading == "On a cluster"]
    manifests = list(yaml.safe_load_all(copy.run(f"{plan.strip()} 2>/dev/null")))
    jobs = [one for one in manifests if one["kind"] == "Job"]
    assert len(jobs) == 4
    [container] = jobs[0]["spec"]["template"]["spec"]["containers"]
    mounts = {
        mount["mountPath"]: mount.get("readOnly", False) for mount in container["volumeMounts"]
    }
    assert mounts["/deployer/checkpoints"] is False
    assert mounts["/data"] is True
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["DEPLOYER_DATA_DIR"] == "/data"
    assert container["resources"]["limits"]["nvidia.com/gpu"] in (1, "1")
    folders = {one["spec"]["nfs"]["path"] for one in manifests if one["kind"] == "PersistentVolume"}
    assert folders == {"/srv/cifar10", "/srv/results"}
