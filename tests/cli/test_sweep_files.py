"""`deployer sweep import` and `export` as commands."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from deployer.__main__ import run as run_command
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
    assert "sweep.yaml: the file already exists" in refused
    nowhere = project.run(*words[:-1], "nowhere/sweep.yaml", code=2).stderr
    assert "error: nowhere/sweep.yaml: cannot be written: no such file or directory" in nowhere
    assert "--force overwrites it" in refused


def test_what_is_missing_is_said(project: Project) -> None:
    (project.folder / "sub").mkdir()
    project.write("sub/hyperparams.yml", SETS)
    (project.folder / "train.py").unlink()
    refused = project.run("sweep", "import", "sub/hyperparams.yml", code=2).stderr
    assert "has no main.py" in refused
    done = project.run("sweep", "import", "sub/hyperparams.yml", "--program", "main.py")
    assert "runs look for hyperparams.yml in their working folder" in done.stderr
    assert "the sweep has no metric: add --metric NAME" in done.stderr
    assert len(yaml.safe_load(done.stdout)["parameters"]["configuration"]["values"]) == 2


def test_files_are_written_in_the_form_of_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.py").touch()
    Path("sets.csv").write_text("lr;layers\n0.5;1\n1;2\n")
    assert run_command(["sweep", "import", "sets.csv", "-o", "sweep.yaml"]) == 0
    made = yaml.safe_load(Path("sweep.yaml").read_text())
    for name in ("again.csv", "again.json", "again.yml"):
        assert run_command(["sweep", "export", "sweep.yaml", "-o", name]) == 0
        capsys.readouterr()
        assert run_command(["sweep", "import", name]) == 0
        sweep = yaml.safe_load(capsys.readouterr().out)
        assert (sweep["parameters"], sweep["command"]) == (made["parameters"], made["command"])
    assert Path("again.csv").read_text() == "lr,layers\n0.5,1\n1,2\n"
    assert run_command(["sweep", "export", "sweep.yaml", "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("- lr: 0.5")


def test_what_is_read_is_never_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sets.yaml").write_text("- {lr: 1.0}\n")
    Path("link.yaml").symlink_to("sets.yaml")
    for to, said in (
        ("sets.yaml", "--to: sets.yaml is the input file"),
        ("link.yaml", "--to: link.yaml is the input file"),
        ("sweep.json", "--to: sweep.json does not end in .yaml, .yml"),
        ("json", "--to: json does not end in .yaml, .yml"),
    ):
        assert run_command(["sweep", "import", "sets.yaml", "--to", to, "--force"]) == 2
        first, second = capsys.readouterr().err.splitlines()
        assert (first, second[:6]) == (f"error: {said}", "hint: ")
    assert Path("sets.yaml").read_text() == "- {lr: 1.0}\n"
    Path("folder.yaml").mkdir()
    before = sorted(Path().iterdir())
    words = ["sweep", "import", "sets.yaml", "--program", "main.py", "--to", "folder.yaml"]
    assert run_command(words) == 2
    assert "folder.yaml: cannot be written: is a directory" in capsys.readouterr().err
    assert sorted(Path().iterdir()) == before
    assert run_command(["sweep", "export", "none.yaml"]) == 2
    assert "none.yaml: cannot be read: no such file" in capsys.readouterr().err
