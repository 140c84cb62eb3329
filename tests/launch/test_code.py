"""Which code a sweep's agents run: its own commit, also when its branch has moved on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deployer.errors import ConfigError
from deployer.launch.pipeline import resolve_project_code
from deployer.sweeps.records import Records, SweepRecord
from tests.git import commit_all
from tests.project_files import read_project

PATH = "team/digits/ab12cd34"


def test_a_sweep_keeps_its_commit_and_a_new_one_gets_the_newest(
    tmp_path: Path, told: list[str]
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "deployer.yaml").write_text("code: git\n")
    first = commit_all(folder)
    record = SweepRecord("m", PATH, "embedded", "http://x", str(folder), "f", "h", 1.0)
    Records.load().add(SweepRecord(**{**vars(record), "commit": first}))
    (folder / "train.py").touch()
    second = commit_all(folder)
    project = read_project(folder, PATH=os.environ["PATH"])
    assert resolve_project_code(project).code.commit == second
    assert resolve_project_code(project, PATH).code.commit == first
    assert resolve_project_code(project, "team/digits/other").code.commit == second
    assert [line.rpartition(" ")[2] for line in told] == [second, first, second]


def test_code_from_git_is_not_that_of_an_image(tmp_path: Path) -> None:
    text = "code: git\non: kubernetes\nkubernetes: {image: x, code: image}\n"
    (tmp_path / "deployer.yaml").write_text(text)
    with pytest.raises(ConfigError, match="runs the code in the image, not the code from git"):
        resolve_project_code(read_project(tmp_path))
