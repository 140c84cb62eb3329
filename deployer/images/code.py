"""The code that agents run, and git on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from deployer.config import paths
from deployer.config.document import FILE_NAME
from deployer.config.project import Code
from deployer.config.redaction import CREDENTIALS
from deployer.errors import ConfigError, DeployerError
from deployer.kube.objects import build_hash, build_name
from deployer.waiting import run_program

# A hook or a shell may have selected another repository by these.
NOT_INHERITED = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
GIT_SECONDS = 20.0  # without output, for a command that only reads locally
PROGRESS = "--progress"  # for slow commands, which otherwise print nothing
PROGRESS_SECONDS = 45.0
SHORT = 12  # characters of a commit in names


# git on this machine: revisions, and checkouts of commits in the state folder. Uses git's own
# credentials and never prompts for any. Runs nothing but `git`.


def run_git(folder: Path, environment: Mapping[str, str], *words: str) -> bytes:
    """Run git in a folder and return its output; raises DeployerError in git's own words."""
    done = try_git(folder, environment, *words)
    if done.returncode:
        command = next(word for word in words if word[0] != "-" and "=" not in word)
        said = f"git {command} in {folder}: {_find_reason(done)}"
        raise DeployerError(said, f"cd {folder} && git status")
    return done.stdout


def try_git(
    folder: Path, environment: Mapping[str, str], *words: str
) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder without checking its exit code.

    Raises ConfigError if git is missing; DeployerError if it prints nothing for too long.
    """
    kept = {name: value for name, value in environment.items() if name not in NOT_INHERITED}
    silent_seconds = PROGRESS_SECONDS if PROGRESS in words else GIT_SECONDS
    command = f"git {next(word for word in words if word[0] != '-' and '=' not in word)}"
    try:
        return run_program(
            ["git", *words],
            silent_seconds,
            f"`{command}` in {folder}",
            cwd=folder,
            env={**kept, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
        )
    except FileNotFoundError as error:
        raise ConfigError("git", "is not on PATH", "install it: apt-get install git") from error
    except subprocess.TimeoutExpired as error:
        said = f"{command} in {folder} printed nothing for {silent_seconds:.0f} s and was killed"
        raise DeployerError(said, f"cd {folder} && git status") from error


def find_root(folder: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the top folder of the repository that contains a folder; None outside of one."""
    done = try_git(folder, environment, "rev-parse", "--show-toplevel")
    return Path(os.fsdecode(done.stdout.rstrip(b"\n"))) if done.returncode == 0 else None


def find_commit(folder: Path, environment: Mapping[str, str], revision: str) -> str | None:
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    done = try_git(folder, environment, *words)
    return done.stdout.decode().strip() if done.returncode == 0 else None


def get_remote(folder: Path, environment: Mapping[str, str]) -> str:
    """Return the address of `origin` without credentials; empty if there is none."""
    done = try_git(folder, environment, "config", "--get", "remote.origin.url")
    return CREDENTIALS.sub("", done.stdout.decode(errors="replace").strip())


def ensure_checkout(
    repository: Path,
    commit: str,
    target: Path,
    origin: str,
    environment: Mapping[str, str],
) -> None:
    """Create a checkout of a commit from a local repository, or restore an existing one.

    It is complete or missing, even while two commands create it.
    """
    if target.is_dir() and find_root(target, environment) == target.resolve():
        if try_git(target, environment, "diff", "--quiet", "HEAD", "--").returncode:
            # A run changed a file of the commit.
            run_git(target, environment, "checkout", PROGRESS, "--force", "HEAD", "--", ".")
        return
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = Path(tempfile.mkdtemp(prefix=".", dir=target.parent))
    try:
        words = ("--local", "--no-checkout", "--", str(repository), str(draft))
        run_git(target.parent, environment, "clone", PROGRESS, *words)
        run_git(draft, environment, "remote", "set-url", "origin", origin)
        run_git(draft, environment, "checkout", PROGRESS, "--detach", commit)
        if not target.is_dir():
            draft.rename(target)
    except OSError as error:
        if not target.is_dir():  # otherwise another command was faster
            raise DeployerError(f"{target}: {error.strerror}", "export DEPLOYER_HOME=…") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _find_reason(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return git's own words without credentials: the first ones that explain the failure."""
    lines = CREDENTIALS.sub("", done.stderr.decode(errors="replace")).strip().splitlines()
    said = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (said or lines[-1:] or [f"exit code {done.returncode}"])[0]


def resolve_code(folder: Path, environment: Mapping[str, str], commit: str = "") -> Code:
    """Return the code of a project folder at HEAD, or at a known commit.

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
        said = f"folder {inside.relative_to(target)} not found at {found[:SHORT]}"
        raise ConfigError(place, said, "git add it, and commit")
    return Code(inside, found, origin)


def warn_about_changes(folder: Path, environment: Mapping[str, str]) -> str:
    """Return which files differ from the commit; empty if none do."""
    done = try_git(folder, environment, "status", "--porcelain", "--", ".")
    names = [line[3:] for line in done.stdout.decode(errors="replace").splitlines()]
    if done.returncode or not names:
        return ""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"agents get the commit, without changes in {', '.join(names[:3])}{more} (git commit)"
