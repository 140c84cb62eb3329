"""What code agents run with `code: git`: the commit that is checked out, in its own checkout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from deployer.config import paths
from deployer.config.code import Code
from deployer.config.deployer_yaml import FILE_NAME
from deployer.errors import ConfigError
from deployer.images.git import ensure_checkout, find_commit, find_root, get_remote, try_git
from deployer.kube.names import build_hash, build_name

SHORT = 12  # letters of a commit in names


def resolve_code(folder: Path, environment: Mapping[str, str], commit: str = "") -> Code:
    """Return the code of a project folder at HEAD, or at a commit that is known already.

    The commit is checked out in the state folder. Raises ConfigError.
    """
    place, root = f"{FILE_NAME}: code", find_root(folder, environment)
    if root is None:
        said = f"{folder} is not in a git repository"
        raise ConfigError(place, said, "git init, git add, git commit")
    found = find_commit(root, environment, commit or "HEAD")
    if found is None and commit:
        raise ConfigError(place, f"{root} lacks the commit {commit}", "git fetch, or git pull")
    if found is None:
        raise ConfigError(place, f"nothing is committed in {root}", "git add, git commit")
    origin, name = get_remote(root, environment), build_name(root.name) or "code"
    checkout = f"{name}-{build_hash(str(root).encode())}-{found[:SHORT]}"
    target = paths.code_folder() / checkout
    ensure_checkout(root, found, target, origin or str(root), environment)
    inside = target / folder.resolve().relative_to(root.resolve())
    if not inside.is_dir():
        said = f"there is no folder {inside.relative_to(target)} at {found[:SHORT]}"
        raise ConfigError(place, said, "git add it, and commit")
    return Code(inside, found, origin)


def warn_about_changes(folder: Path, environment: Mapping[str, str]) -> str:
    """Say which files are not as in the commit; empty if all are."""
    done = try_git(folder, environment, "status", "--porcelain", "--", ".")
    names = [line[3:] for line in done.stdout.decode(errors="replace").splitlines()]
    if done.returncode or not names:
        return ""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"agents get the commit, without changes in {', '.join(names[:3])}{more} (git commit)"
