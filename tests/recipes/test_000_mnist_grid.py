"""Recipe 000: a list of hyperparameter sets, an agent for each, its README run on real MNIST."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.real_data import DATA
from tests.recipes.idx import write_mnist_part
from tests.recipes.readme import Recipe

WHO = {
    "GIT_AUTHOR_NAME": "Tester",
    "GIT_AUTHOR_EMAIL": "tester@example.com",
    "GIT_COMMITTER_NAME": "Tester",
    "GIT_COMMITTER_EMAIL": "tester@example.com",
}


@pytest.mark.full
@pytest.mark.data
@pytest.mark.slow(seconds=75)
def test_the_sets_of_a_file_run_as_they_stand(
    recipe: Callable[[str], Recipe], tmp_path: Path
) -> None:
    copy = recipe("000-mnist-grid")
    write_mnist_part(DATA / "mnist", tmp_path / "images")
    copy.write_yaml("hyperparams.yml", copy.read_yaml("hyperparams.yml")[:2])
    article = copy.read_yaml("sweep.article.yaml")
    listed = article["parameters"]["configuration"]
    listed["values"] = listed["values"][1:2]
    copy.write_yaml("sweep.article.yaml", article)
    said = copy.run_blocks(**WHO)
    for count in (1, 2):  # the article's script, which knows no W&B, and ours
        assert f"{count}/{count} configurations finished, 0 duplicates, 0 lost" in said
    sets = {
        number + 1: one["hyperparam_set"]
        for number, one in enumerate(copy.read_yaml("hyperparams.yml"))
    }
    # Each line of the logs is what the script found in the file by its JOB_ID.
    jobs = {
        int(job): ast.literal_eval(found) for job, found in re.findall(r"job (\d): ({.*})", said)
    }
    assert jobs == sets
    assert "def yaml(value)" not in said, "the logs have the program of the sweep's command"
    best = ast.literal_eval(said.splitlines()[-1])
    assert best["parameters"] == {
        "JOB_ID": best["parameters"]["JOB_ID"],
        **sets[best["parameters"]["JOB_ID"]],
    }
    assert best["value"] > 0.8
    commit = copy.run("git rev-parse HEAD").strip()
    assert f"at {commit}" in said
    exported = yaml.safe_load(copy.run("deployer sweep export sweep.yaml"))
    assert exported == copy.read_yaml("hyperparams.yml")
