"""What code agents run: this folder as it is, or a commit from git in a checkout of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from deployer.config import paths
from deployer.config.code import Code
from deployer.config.deployer_yaml import FILE_NAME
from deployer.config.sections.code import CodeConfig
from deployer.errors import ConfigError
from deployer.images.git import (
    FETCHED_HEAD,
    WHOLE_COMMIT,
    ensure_checkout,
    fetch_mirror,
    find_commit,
    find_root,
    get_remote,
    try_git,
)
from deployer.kube.names import build_hash, build_name

SHORT = 12  # letters of a commit in names


def resolve_code(
    config: CodeConfig, folder: Path, environment: Mapping[str, str], commit: str = ""
) -> Code:
    """Return the code that `code:` means for a project folder; `commit` is one known already.

    A revision is resolved to its commit, which is checked out in the state folder.
    Raises ConfigError, or DeployerError if the repository cannot be reached.
    """
    if config.git is None:
        return Code(folder)
    local = _find_local(config, folder, environment)
    if local:
        repository, origin = local, get_remote(local, environment)
        found = find_commit(local, environment, commit or config.revision)
    else:
        wanted = commit or config.revision
        repository, origin = ensure_mirror(config.git, wanted, environment), config.git
        found = find_commit(repository, environment, FETCHED_HEAD if wanted == "HEAD" else wanted)
    if found is None:
        asked = commit or config.revision
        if asked == "HEAD":
            said, hint = f"nothing is committed in {local or config.git}", "git add, git commit"
            raise ConfigError(f"{FILE_NAME}: code.git", said, hint)
        said = f"'{asked}' is not a revision of {config.git}"
        raise ConfigError(f"{FILE_NAME}: code.revision", said, "a branch, a tag or a commit")
    target = paths.code_folder() / f"{name_checkouts(str(repository))}-{found[:SHORT]}"
    ensure_checkout(repository, found, target, origin or str(repository), environment)
    inside = target / _find_folder(config, folder, local)
    if not inside.is_dir():
        said = f"there is no folder {inside.relative_to(target)} at {found[:SHORT]}"
        raise ConfigError(f"{FILE_NAME}: code.folder", said, "git add it, and commit")
    return Code(inside, found, origin)


def warn_about_changes(config: CodeConfig, folder: Path, environment: Mapping[str, str]) -> str:
    """Say which files of the own repository are not as in its commit; empty if all are."""
    if not config.own:
        return ""
    done = try_git(folder, environment, "status", "--porcelain", "--", ".")
    names = [line[3:] for line in done.stdout.decode(errors="replace").splitlines()]
    if done.returncode or not names:
        return ""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"agents get the commit, without changes in {', '.join(names[:3])}{more} (git commit)"


def _find_local(config: CodeConfig, folder: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the top folder of a repository on this machine; None for an address elsewhere."""
    assert config.git is not None
    path = folder / Path(config.git).expanduser()
    if not path.is_dir():
        return None
    root = find_root(path, environment)
    if root is None and find_commit(path, environment, "HEAD"):
        return path  # a bare one
    if root is None:
        said = f"{path} is not in a git repository"
        raise ConfigError(f"{FILE_NAME}: code.git", said, "git init, git add, git commit")
    return root


def _find_folder(config: CodeConfig, folder: Path, root: Path | None) -> Path:
    if config.folder:
        return Path(config.folder)
    return folder.resolve().relative_to(root.resolve()) if config.own and root else Path()


def ensure_mirror(url: str, revision: str, environment: Mapping[str, str]) -> Path:
    """Return a copy of a repository elsewhere, up to date unless it has the commit already.

    Raises DeployerError if it cannot be reached.
    """
    mirror = paths.code_folder() / f"{name_checkouts(url)}.git"
    known = WHOLE_COMMIT.fullmatch(revision) and mirror.is_dir()
    if not known or not find_commit(mirror, environment, revision):
        fetch_mirror(url, mirror, environment)
    return mirror


def name_checkouts(address: str) -> str:
    """Return a folder's name for a repository: its last word, and a hash of the whole."""
    last = address.rstrip("/").removesuffix(".git").rpartition("/")[2]
    return f"{build_name(last) or 'code'}-{build_hash(address.encode())}"
