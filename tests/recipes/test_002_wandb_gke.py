"""Recipe 002, as far as no cloud is needed; tests/cluster/recipes/test_recipe_002.py has all."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

import pytest
import yaml

from deployer.__main__ import run as run_command
from tests.conftest import FOREIGN_KEY
from tests.recipes.readme import Recipe


def test_its_cluster_is_planned_with_its_price(
    recipe: Callable[[str], Recipe],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    copy = recipe("002-wandb-gke")
    [block] = copy.blocks
    program, *words = shlex.split(block.commands.splitlines()[0], comments=True)
    monkeypatch.chdir(copy.folder)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "my-project")
    assert (program, run_command(words)) == ("deployer", 0)
    said = "".join(capsys.readouterr())
    assert "pytorch-training-cluster" in said
    assert "accelerator_type: nvidia-tesla-p100" in said
    assert "an hour for 4 x nvidia-tesla-p100" in said
    assert "price unknown" not in said


@pytest.mark.full
def test_its_agents_get_a_gpu_and_the_key_from_the_secret(
    recipe: Callable[[str], Recipe],
) -> None:
    copy = recipe("002-wandb-gke")
    settings = copy.read_yaml("deployer.yaml")
    # What is built is known by its hash, for which a registry is asked.
    settings["kubernetes"]["image"] = f"{settings.pop('image')['repository']}:1"
    copy.write_yaml("deployer.yaml", settings)
    account = {"WANDB_BASE_URL": "https://api.wandb.ai", "WANDB_API_KEY": FOREIGN_KEY}
    plan = "deployer plan sweep.yaml --replicas 4 --on kubernetes 2>/dev/null"
    said = copy.run(plan, **account)
    jobs = [one for one in yaml.safe_load_all(said) if one["kind"] == "Job"]
    assert len(jobs) == 4
    [container] = jobs[0]["spec"]["template"]["spec"]["containers"]
    assert int(container["resources"]["limits"]["nvidia.com/gpu"]) == 1
    [key] = [one for one in container["env"] if one["name"] == "WANDB_API_KEY"]
    assert key["valueFrom"]["secretKeyRef"]["name"] == "wandb-secret"


@pytest.mark.full
def test_its_trainer_learns(recipe: Callable[[str], Recipe]) -> None:
    command = "python train/trainer.py --learning_rate=0.05 --optimizer=sgd"
    said = recipe("002-wandb-gke").run(command, WANDB_MODE="offline", OMP_NUM_THREADS="1")
    accuracies = [float(found) for found in re.findall(r"^epoch .* val_accuracy (.*)$", said, re.M)]
    assert len(accuracies) == 10
    assert max(accuracies) > 0.9
