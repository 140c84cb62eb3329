"""`deployer init`: a first sweep file, and that of a sweep which is there."""

from __future__ import annotations

from tests.cli.conftest import Project


def test_a_sweep_file_for_a_script(project: Project) -> None:
    assert project.run("init", code=2).stderr.splitlines() == [
        "error: SCRIPT: name a script, or a sweep with --from",
        "hint: deployer init train.py",
    ]
    done = project.run("init", "train.py", "--yes", "--set", "fail-above=5")
    assert done.stderr.splitlines() == [
        "train.py: 2 flags to try",
        "written: sweep.yaml",
        "written: deployer.yaml",
        "next: deployer up sweep.yaml",
    ]
    text = (project.folder / "sweep.yaml").read_text()
    assert "  layers: {distribution: int_uniform, min: 1, max: 2}\n" in text
    assert "  fail-above: {value: 5}\n" in text
    other = project.run(
        "init", "train.py", "--yes", "--to", "nëw sweep.yaml", "--set", "fail-above=5"
    )
    assert other.stderr.splitlines()[-1] == "next: deployer up 'nëw sweep.yaml'"
    again = project.run("init", "train.py", "--yes", code=2).stderr.splitlines()
    assert again == [
        "error: sweep.yaml: the file already exists",
        "hint: name another one with --to",
    ]
    planned = project.run("plan", "sweep.yaml")
    (named,) = planned.stderr.splitlines()
    assert named.startswith("Python of the runs: ")
