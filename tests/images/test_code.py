"""Code from git: its commit, its checkout, and what is refused; with the real git."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from deployer.config import paths
from deployer.config.code import Code
from deployer.config.sections.code import CodeConfig
from deployer.errors import ConfigError, DeployerError
from deployer.images.code import resolve_code, warn_about_changes
from deployer.images.code_archive import build_code_archive
from tests.git import commit_all, git
from tests.sections import parse_code


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "deep").mkdir(parents=True)
    (folder / "main.py").write_text("print('one')\n")
    (folder / "deep" / "main.py").write_text("print('deep')\n")
    commit_all(folder)
    return folder


def resolve(place: Path, commit: str = "", **section: str) -> Code:
    return resolve_code(CodeConfig(**section), place, dict(os.environ), commit)


def test_without_the_section_agents_run_the_folder_as_it_is(tmp_path: Path) -> None:
    assert resolve(tmp_path) == Code(tmp_path)
    assert not paths.code_folder().exists()


def test_the_commit_of_ones_own_repository_without_what_changed_since(repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    (repository / "deep" / "main.py").write_text("print('edited')\n")
    (repository / "new.py").touch()
    code = resolve(repository / "deep", git=".")
    assert (code.commit, code.folder.name) == (first, "deep")
    assert (code.folder / "main.py").read_text() == "print('deep')\n"
    assert not (code.folder.parent / "new.py").exists()
    assert dict(code.variables)["WANDB_GIT_COMMIT"] == first
    warning = warn_about_changes(CodeConfig(git="."), repository, dict(os.environ))
    assert warning == (
        "agents get the commit, without changes in deep/main.py, new.py (git commit)"
    )
    with tarfile.open(fileobj=io.BytesIO(build_code_archive(code.folder.parent))) as archive:
        assert archive.getnames() == ["deep/main.py", "main.py"]


@pytest.mark.parametrize("form", ["main", "v1", "commit", "short"])
def test_a_revision_of_a_repository_elsewhere(form: str, repository: Path, tmp_path: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "tag", "v1")
    revision = {"commit": commit, "short": commit[:8]}.get(form, form)
    code = resolve(tmp_path, git=f"file://{repository}", revision=revision, folder="deep")
    assert (code.commit, code.repository) == (commit, f"file://{repository}")
    assert (code.folder / "main.py").read_text() == "print('deep')\n"
    assert git(code.folder, "rev-parse", "HEAD") == commit
    assert git(code.folder, "config", "remote.origin.url") == f"file://{repository}"


def test_a_branch_is_followed_and_a_known_commit_needs_no_repository(
    repository: Path, tmp_path: Path
) -> None:
    url = f"file://{repository}"
    first = resolve(tmp_path, git=url)
    (repository / "main.py").write_text("print('two')\n")
    second = commit_all(repository)
    assert resolve(tmp_path, git=url).commit == second
    assert resolve(tmp_path, git=url, revision="main").commit == second
    shutil.rmtree(repository)
    again = resolve(tmp_path, first.commit, git=url)
    assert again == first
    assert (again.folder / "main.py").read_text() == "print('one')\n"


def test_what_a_run_wrote_over_is_mended(repository: Path, tmp_path: Path) -> None:
    code = resolve(tmp_path, git=str(repository))
    (code.folder / "main.py").write_text("overwritten by a run\n")
    (code.folder / "output.txt").write_text("of a run")
    assert resolve(tmp_path, git=str(repository)) == code
    assert (code.folder / "main.py").read_text() == "print('one')\n"
    assert (code.folder / "output.txt").exists()
    assert not [path for path in paths.code_folder().iterdir() if path.name.startswith(".")]


def test_a_variable_of_git_leads_to_no_other_repository(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    assert resolve(repository, git=".").commit


def test_what_is_not_there_is_refused(repository: Path, tmp_path: Path) -> None:
    refused = {
        f"'v9' is not a revision of {repository}": {"git": str(repository), "revision": "v9"},
        "there is no folder none at": {"git": str(repository), "folder": "none"},
        "is not in a git repository": {"git": "."},
    }
    for said, section in refused.items():
        with pytest.raises(ConfigError, match=said) as raised:
            resolve(tmp_path, **section)
        assert raised.value.hint
        assert raised.value.message.startswith("deployer.yaml: code.")
    with pytest.raises(DeployerError, match="git cannot fetch it") as unreachable:
        resolve(tmp_path, git=f"file://{tmp_path}/nowhere")
    assert unreachable.value.hint == f"git ls-remote file://{tmp_path}/nowhere"


def test_a_repository_without_a_commit_says_so(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    with pytest.raises(ConfigError, match="nothing is committed in") as raised:
        resolve_code(CodeConfig(git="."), tmp_path, dict(os.environ))
    assert raised.value.hint == "git add, git commit"


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"git": "https://user:token@host/x.git"}, "code.git: an address with credentials"),
        ({"git": "HTTPS://ghp_token@host/x.git"}, "code.git: an address with credentials"),
        ({"git": "--upload-pack=x"}, "code.git: an address cannot begin with a dash"),
        ({"git": ".", "revision": "--all"}, "code.revision: is not a revision"),
        ({"git": ".", "revision": "a b"}, "code.revision: is not a revision"),
        ({"git": ".", "folder": "../x"}, "code.folder: is not a folder of the repository"),
        ({"git": ".", "folder": "/x"}, "code.folder: is not a folder of the repository"),
        ({"git": ".", "branch": "x"}, "code.branch: unknown key"),
        ({"revision": "main"}, "code: revision and folder need git, which is missing"),
        ("svn", "code: 'svn' is not known"),
    ],
)
def test_odd_sections_are_refused_without_their_token(section: object, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_code(section)
    assert raised.value.message == f"deployer.yaml: {said}"
    assert ("did you mean `git`?" in raised.value.hint) == (section == "svn")
    assert "token" not in raised.value.message


def test_a_token_of_gits_own_settings_is_in_no_message(tmp_path: Path) -> None:
    settings = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "url.http://me:hunter22@127.0.0.1:9/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://host.example/",
    }
    config = CodeConfig(git="https://host.example/x.git")
    with pytest.raises(DeployerError, match="git cannot fetch it") as raised:
        resolve_code(config, tmp_path, {**os.environ, **settings})
    assert "127.0.0.1:9" in raised.value.message
    assert "hunter22" not in f"{raised.value.message} {raised.value.hint}"


def test_one_word_is_the_own_repository() -> None:
    assert parse_code("git") == CodeConfig(git=".")
    assert parse_code(None) == CodeConfig()
    assert CodeConfig(git="git@github.com:team/x.git").git
