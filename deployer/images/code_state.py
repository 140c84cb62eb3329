"""The state of the code that ran: its commit, what was changed since, and how to have it again."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from deployer.config import paths
from deployer.config.code import Code
from deployer.config.deployer_yaml import FILE_NAME
from deployer.config.redaction import find_secret
from deployer.errors import ConfigError, DeployerError
from deployer.images.code import SHORT, ensure_mirror, name_checkouts
from deployer.images.code_archive import LOCK_END, list_files
from deployer.images.git import ensure_checkout, find_commit, find_root, get_remote, run_git
from deployer.kube.names import build_hash

MOST_DIFF_BYTES = 256 * 1024
MOST_FILES_BYTES = 64 << 20  # a folder without git may hold data sets, too
RUN_IT_AGAIN = "git checkout what ran, or run the sweep again: deployer up"


@dataclass(frozen=True)
class CodeState:
    """What ran: a commit of `repository`, in its folder `folder`, with `diff` of tracked files.

    `left_out` says why the diff is not here. `checksum` is that of all files where git is not used.
    """

    folder: str = ""
    commit: str = ""
    repository: str = ""
    diff: str = ""
    left_out: str = ""
    checksum: str = ""


def read_state(code: Code, environment: Mapping[str, str]) -> CodeState:
    """Return the state of the code that agents are about to run."""
    has_git = shutil.which("git", path=environment.get("PATH"))
    root = find_root(code.folder, environment) if has_git else None
    commit = find_commit(root, environment, "HEAD") if root else None
    if root is None or commit is None:
        return _read_files(code.folder)
    inside = code.folder.resolve().relative_to(root.resolve()).as_posix()
    diff, left_out = _read_diff(root, environment)
    repository = code.repository if code.commit else get_remote(root, environment)
    return CodeState("" if inside == "." else inside, commit, repository, diff, left_out)


def restore_code(state: CodeState, folder: Path, environment: Mapping[str, str]) -> Code:
    """Return the code of a state: the project's folder if it is in it, else a checkout of it.

    Raises ConfigError where that cannot be had again.
    """
    now = replace(read_state(Code(folder), environment), repository=state.repository)
    if now == state and not state.left_out:
        return Code(folder)
    if not state.commit:
        said = "its files are not those that ran, as far as is known without git"
        raise ConfigError(str(folder), said, "git init, git add, git commit, then deployer up")
    if state.left_out:
        said = f"what was changed since {state.commit[:SHORT]} is not known: it {state.left_out}"
        raise ConfigError(str(folder), said, RUN_IT_AGAIN)
    repository = _find_repository(state, folder, environment)
    end = f"-{build_hash(state.diff.encode())}" if state.diff else ""
    target = paths.code_folder() / f"{name_checkouts(str(repository))}-{state.commit[:SHORT]}{end}"
    origin = state.repository or str(repository)
    ensure_checkout(repository, state.commit, target, origin, environment, diff=state.diff.encode())
    return Code(target / state.folder, state.commit, state.repository)


def _read_diff(root: Path, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the diff of tracked files, and why it is left out."""
    words = ("diff", "--binary", "--no-color", "--no-ext-diff", "HEAD", "--")
    content = run_git(root, environment, *words, ".", f":(exclude,glob)**/*{LOCK_END}")
    if len(content) > MOST_DIFF_BYTES:
        return "", f"was more than {MOST_DIFF_BYTES // 1024} KiB"
    try:
        diff = content.decode()
    except UnicodeDecodeError:
        return "", "was not text in UTF-8"
    if name := find_secret(diff):
        return "", f"held what looks like a secret ({name})"
    return diff, ""


def _find_repository(state: CodeState, folder: Path, environment: Mapping[str, str]) -> Path:
    """Return a repository on this machine that has the commit; raises ConfigError."""
    root = find_root(folder, environment)
    if root and find_commit(root, environment, state.commit):
        return root
    reason = f"{root or folder} does not have it"
    if state.repository:
        try:
            mirror = ensure_mirror(state.repository, state.commit, environment)
        except DeployerError as error:
            reason = error.message
        else:
            if find_commit(mirror, environment, state.commit):
                return mirror
            reason = f"{state.repository} does not have it"
    raise ConfigError(f"commit {state.commit[:SHORT]}", reason, "git fetch where it was made")


def _read_files(folder: Path) -> CodeState:
    """Return the checksum of what runs may read; deployer.yaml is ours, and has been read."""
    names = [name for name in list_files(folder) if not name.startswith(f"{paths.RESULTS}/")]
    files = {name: folder / name for name in names if name != FILE_NAME}
    files = {name: path for name, path in files.items() if path.is_file()}
    if sum(path.stat().st_size for path in files.values()) > MOST_FILES_BYTES:
        return CodeState(left_out=f"was more than {MOST_FILES_BYTES >> 20} MiB without git")
    digest = hashlib.sha256()
    for name, path in files.items():
        with path.open("rb") as file:
            digest.update(f"{name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\0".encode())
    return CodeState(checksum=digest.hexdigest())
