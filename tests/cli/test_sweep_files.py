"""`deployer sweep import` and `export` as commands."""

from __future__ import annotations

import yaml

from tests.cli.conftest import Project

SETS = "- hyperparam_set: {lr: 1.0}\n- hyperparam_set: {lr: 2.0}\n"


def test_a_file_of_sets_becomes_a_sweep_and_comes_back(project: Project) -> None:
    project.write("hyperparams.yml", SETS)
    words = ("sweep", "import", "hyperparams.yml", "--metric", "loss", "-o", "sweep.yaml")
    assert "2 sets in sweep.yaml: deployer up sweep.yaml" in project.run(*words).stderr
    assert yaml.safe_load((project.folder / "sweep.yaml").read_text())["program"] == "train.py"
    exported = project.run("sweep", "export", "sweep.yaml").stdout
    assert yaml.safe_load(exported) == yaml.safe_load(SETS)
    project.run(*words)  # the same again is no other file
    refused = project.run(*words, "--goal", "maximize", code=2).stderr
    assert "sweep.yaml: there is such a file already" in refused
    nowhere = project.run(*words[:-1], "nowhere/sweep.yaml", code=2).stderr
    assert "error: nowhere/sweep.yaml: cannot be written: No such file or directory" in nowhere
    assert "--force overwrites it" in refused


def test_what_is_missing_is_said(project: Project) -> None:
    (project.folder / "sub").mkdir()
    project.write("sub/hyperparams.yml", SETS)
    (project.folder / "train.py").unlink()
    refused = project.run("sweep", "import", "sub/hyperparams.yml", code=2).stderr
    assert "--program: there is no main.py" in refused
    done = project.run("sweep", "import", "sub/hyperparams.yml", "--program", "main.py")
    assert "runs look for hyperparams.yml in their working folder" in done.stderr
    assert "nothing ranks the runs: --metric NAME" in done.stderr
    assert len(yaml.safe_load(done.stdout)["parameters"]["configuration"]["values"]) == 2
