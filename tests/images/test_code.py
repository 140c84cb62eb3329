"""Code from git: its commit, its checkout, and what is refused; with the real git."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from deployer.config import paths
from deployer.config.project import Code
from deployer.errors import ConfigError
from deployer.images.code import resolve_code, warn_about_changes
from deployer.images.code_archive import build_code_archive
from tests.git import commit_all, git
from tests.project_files import read_project


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "deep").mkdir(parents=True)
    (folder / "main.py").write_text("print('one')\n")
    (folder / "deep" / "main.py").write_text("print('deep')\n")
    commit_all(folder)
    return folder


def resolve(place: Path, commit: str = "") -> Code:
    return resolve_code(place, dict(os.environ), commit)


def test_the_commit_of_ones_own_repository_without_what_changed_since(repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    (repository / "deep" / "main.py").write_text("print('edited')\n")
    (repository / "new.py").touch()
    code = resolve(repository / "deep")
    assert (code.commit, code.folder.name) == (first, "deep")
    assert (code.folder / "main.py").read_text() == "print('deep')\n"
    assert not (code.folder.parent / "new.py").exists()
    assert dict(code.variables)["WANDB_GIT_COMMIT"] == first
    warning = warn_about_changes(repository, dict(os.environ))
    assert warning == (
        "agents get the commit, without changes in deep/main.py, new.py (git commit)"
    )
    with tarfile.open(fileobj=io.BytesIO(build_code_archive(code.folder.parent))) as archive:
        assert archive.getnames() == ["deep/main.py", "main.py"]


def test_a_commit_that_is_known_stays_when_the_branch_moves_on(repository: Path) -> None:
    first = resolve(repository)
    (repository / "main.py").write_text("print('two')\n")
    second = commit_all(repository)
    assert resolve(repository).commit == second
    assert resolve(repository, first.commit) == first
    assert (first.folder / "main.py").read_text() == "print('one')\n"


def test_what_a_run_wrote_over_is_mended(repository: Path) -> None:
    code = resolve(repository)
    (code.folder / "main.py").write_text("overwritten by a run\n")
    (code.folder / "output.txt").write_text("of a run")
    assert resolve(repository) == code
    assert (code.folder / "main.py").read_text() == "print('one')\n"
    assert (code.folder / "output.txt").exists()
    assert not [path for path in paths.code_folder().iterdir() if path.name.startswith(".")]


def test_a_variable_of_git_leads_to_no_other_repository(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    assert resolve(repository).commit


def test_what_is_not_there_is_refused(repository: Path, tmp_path: Path) -> None:
    (repository / "none").mkdir()
    refused = {
        "lacks the commit 0123abcd": (repository, "0123abcd"),
        "folder none not found at": (repository / "none", ""),
        "is not in a git repository": (tmp_path, ""),
    }
    for said, (folder, commit) in refused.items():
        with pytest.raises(ConfigError, match=said) as raised:
            resolve(folder, commit)
        assert raised.value.hint
        assert raised.value.message.startswith("deployer.yaml: code: ")


def test_a_repository_without_a_commit_says_so(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    with pytest.raises(ConfigError, match="nothing is committed in") as raised:
        resolve(tmp_path)
    assert raised.value.hint == "git add, git commit"


@pytest.mark.parametrize("section", ["svn", {"git": "https://user:token@host/x.git"}])
def test_another_repository_is_refused_without_its_token(tmp_path: Path, section: object) -> None:
    (tmp_path / "deployer.yaml").write_text(json.dumps({"code": section}))
    with pytest.raises(ConfigError) as raised:
        read_project(tmp_path)
    assert raised.value.message.startswith("deployer.yaml:1: code: ")
    assert "token" not in f"{raised.value.message} {raised.value.hint}"
