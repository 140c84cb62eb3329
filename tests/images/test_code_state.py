"""The state of code that ran, and having it again; with the real git."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from deployer.config import paths
from deployer.config.code import Code
from deployer.errors import ConfigError
from deployer.images.code_archive import LOCK_MARK, list_files, list_left_out
from deployer.images.code_state import (
    MOST_DIFF_BYTES,
    MOST_FILES,
    MOST_FILES_BYTES,
    CodeState,
    list_changes,
    read_state,
    restore_code,
)
from tests.git import commit_all, git

ENVIRONMENT = dict(os.environ)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "repository" / "project"
    folder.mkdir(parents=True)
    (folder / "main.py").write_text("lr = 1\n")
    (folder.parent / "lib.py").write_text("one\n")
    (folder / "old.py").touch()
    commit_all(folder.parent)
    return folder


def read(folder: Path) -> CodeState:
    return read_state(Code(folder), ENVIRONMENT)


def restore(state: CodeState, folder: Path) -> Code:
    return restore_code(state, folder, ENVIRONMENT)


def test_unchanged_code_is_the_folder_itself(project: Path) -> None:
    state = read(project)
    assert (state.folder, state.diff, state.files) == ("project", "", {})
    assert restore(state, project) == Code(project)
    assert not paths.code_folder().exists()


def test_the_commit_and_what_was_changed_since_are_had_again(project: Path) -> None:
    (project / "main.py").write_text("lr = 2  # ä, trailing space \n")
    (project.parent / "lib.py").write_bytes(b"\x00\x01binary")
    (project / "old.py").unlink()
    state = read(project)
    assert "lr = 2" in state.diff
    commit_all(project.parent)
    (project / "main.py").write_text("lr = 3\n")
    for _ in range(2):
        code = restore(state, project)
        assert (code.folder / "main.py").read_text() == "lr = 2  # ä, trailing space \n"
        assert (code.folder.parent / "lib.py").read_bytes() == b"\x00\x01binary"
        assert not (code.folder / "old.py").exists()
        assert code.commit == state.commit
        (code.folder / "main.py").write_text("a run wrote here\n")  # mended the second time
    assert (project / "main.py").read_text() == "lr = 3\n"


def test_files_that_are_not_as_they_ran_are_named(project: Path, tmp_path: Path) -> None:
    """By their content: commits may differ, and the sweep's file is no code."""
    (project / "main.py").write_text("lr = 2\n")
    then, sweep = read(project), project / "sweep.yaml"
    sweep.write_text("method: grid\n")
    commit_all(project.parent)
    assert list_changes(then, Code(project), ENVIRONMENT, [sweep]) == []
    (project / "new file.py").touch()
    (project / "old.py").unlink()
    (project / "main.py").write_text("lr = 1\n")
    git(project, "add", "-A")
    found = list_changes(then, Code(project), ENVIRONMENT, [sweep])
    assert found == ["project/main.py", "project/new file.py", "project/old.py"]

    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "a.py").write_text("1")
    (plain / "log.txt").write_text("1")
    ran = read(plain)
    (plain / "log.txt").write_text("2")
    assert list_changes(ran, Code(plain), ENVIRONMENT) == []
    (plain / "a.py").unlink()
    assert list_changes(ran, Code(plain), ENVIRONMENT) == ["a.py"]


def test_a_commit_is_fetched_from_its_repository(project: Path, tmp_path: Path) -> None:
    url = f"file://{project.parent}"
    git(project, "remote", "add", "origin", url.replace("//", "//me:token@"))
    state = read(project)
    assert state.repository == url
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    code = restore(state, elsewhere)
    assert (code.folder / "main.py").read_text() == "lr = 1\n"
    with pytest.raises(ConfigError, match=f"{url} does not have it"):
        restore(replace(state, commit="a" * 40), elsewhere)
    with pytest.raises(ConfigError, match=f"{elsewhere} does not have it"):
        restore(replace(state, repository=""), elsewhere)


def test_a_diff_that_is_large_or_holds_a_secret_is_left_out(project: Path) -> None:
    (project / "main.py").write_text("x\n" * MOST_DIFF_BYTES)
    assert read(project).left_out == "was more than 256 KiB"
    (project / "main.py").write_text("api_key = 'abcdef123456'\n")
    state = read(project)
    assert (state.diff, state.left_out) == ("", "held what looks like a secret (api_key)")
    with pytest.raises(ConfigError, match="is not known: it held what looks like") as raised:
        restore(state, project)
    assert raised.value.hint


def test_code_without_git_is_known_by_its_files(tmp_path: Path, told: list[str]) -> None:
    (tmp_path / "main.py").write_text("lr = 1\n")
    (tmp_path / "lib.py").touch()
    (tmp_path / "last.log").write_text("of the sweep before")
    state = read(tmp_path)
    assert sorted(state.files) == ["last.log", "lib.py", "main.py"]
    (tmp_path / "results" / "ab12").mkdir(parents=True)
    (tmp_path / "results" / "ab12" / "best.pt").write_text("copied by `results get`")
    assert read(tmp_path) == state
    (tmp_path / "checkpoint.pt").write_text("written by a run")
    assert restore(state, tmp_path) == Code(tmp_path)
    (tmp_path / "main.py").write_text("lr = 2\n")
    (tmp_path / "lib.py").unlink()
    with pytest.raises(ConfigError, match=r"lib\.py is gone, main\.py is another") as raised:
        restore(state, tmp_path)
    assert raised.value.hint
    commit_all(tmp_path)  # git comes too late, and is no obstacle
    (tmp_path / "main.py").write_text("lr = 1\n")
    (tmp_path / "lib.py").touch()
    (tmp_path / "last.log").write_text("of this one")
    assert restore_code(state, tmp_path, ENVIRONMENT, ()) == Code(tmp_path)
    assert told == ["warning: taken for what a run has written: last.log is another"]


def test_a_folder_without_git_that_is_too_large_says_so(tmp_path: Path) -> None:
    with (tmp_path / "images.bin").open("wb") as sparse:
        sparse.truncate(MOST_FILES_BYTES + 1)
    large = read(tmp_path)
    assert large.left_out == "was more than 64 MiB without git"
    with pytest.raises(ConfigError, match="is not known: it was more than 64 MiB") as raised:
        restore(large, tmp_path)
    assert "`data:` of deployer.yaml" in raised.value.hint
    (tmp_path / "images.bin").unlink()
    for number in range(MOST_FILES + 1):
        (tmp_path / f"{number}").touch()
    assert read(tmp_path).left_out == "was more than 2,000 files without git"


def test_data_sets_are_no_part_of_the_code(project: Path, tmp_path: Path) -> None:
    for folder in (project, tmp_path):
        (folder / "data").mkdir()
        (folder / "data" / "x.bin").write_text("one")
    commit_all(project)
    for folder in (project, tmp_path):
        apart = (folder / "data", folder, tmp_path.parent)
        before = read_state(Code(folder), ENVIRONMENT, apart)
        assert not any(name.startswith("data") for name in before.files)
        (folder / "data" / "x.bin").write_text("two")
        assert restore_code(before, folder, ENVIRONMENT, apart) == Code(folder)
        assert read_state(Code(folder), ENVIRONMENT) != before


def test_a_lock_file_is_no_part_of_the_code(project: Path) -> None:
    state = read(project)
    lock = project / "sweep.lock.yaml"
    lock.write_bytes(LOCK_MARK + b": 1\n")
    assert list_left_out(project) == []
    commit_all(project.parent)
    assert list_files(project) == ["main.py", "old.py"]
    lock.write_bytes(LOCK_MARK + b": 2\n")
    assert read(project).diff == state.diff == ""
    (project / "environment.lock.yaml").write_text("a user's own\n")
    assert list_left_out(project) == ["environment.lock.yaml"]
